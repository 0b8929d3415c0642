"""``--tools`` on the command line: calls, choices, the cache, what stands beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Runner, jsonl
from tests.core.models.chat_models import CALL, END_CALL, END_THINK, THINK, chat_model

PARAMETERS = {
    "type": "object",
    "properties": {"unit": {"enum": ["c", "f"]}},
    "required": ["unit"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "heat", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now"}},
]
WORDS = ("sample", "--tools", "tools.json", "--method", "masked", "-n", "4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("chat"))


@pytest.fixture(autouse=True)
def _tools(cdec: Runner) -> None:
    Path("tools.json").write_text(json.dumps(TOOLS))


def test_texts_are_calls_in_the_model_s_own_format(cdec: Runner, model: Path) -> None:
    ran = cdec(*WORDS, "-m", model, stdin=jsonl({"messages": [{"role": "user", "content": "x"}]}))
    assert ran.status == 0, ran.stderr
    for record in ran.records:
        assert json.loads(record["text"])["name"] in ("heat", "now") and record["valid"]
        assert (record["token_ids"][0], record["token_ids"][-1]) == (CALL, END_CALL)


@pytest.mark.parametrize(
    "words", [(), ("--parallel-calls",), ("--tool-choice", "auto"), ("--thinking", "6")]
)
@pytest.mark.share(1)
def test_calls_are_streamed(cdec: Runner, model: Path, words: tuple[str, ...]) -> None:
    lines = [{"id": n, "messages": [{"role": "user", "content": "x" * n}]} for n in range(1, 5)]
    asked = (*WORDS, "-m", model, "--max-new-tokens", "60", *words)
    plain = cdec(*asked, stdin=jsonl(*lines))
    streamed = cdec(*asked, "--stream", stdin=jsonl(*lines))
    assert plain.status == 0, plain.stderr
    records = [record for record in streamed.records if "delta" not in record]
    assert records == plain.records
    for record in records:
        for part in ("free_text", "text"):
            own = [
                piece["delta"]
                for piece in streamed.records
                if piece.get("part") == part
                and (piece["id"], piece["index"]) == (record["id"], record["index"])
            ]
            assert "".join(own) == (record.get(part) or "")


def test_the_second_run_compiles_nothing(
    cdec: Runner, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cdec.compilers.cache import SourceCache

    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    first = cdec(*WORDS, "-m", model, "--prompt", "x")
    monkeypatch.setattr(SourceCache, "_newly_compiled", lambda *_: pytest.fail("compiled again"))
    assert cdec(*WORDS, "-m", model, "--prompt", "x").stdout == first.stdout
    assert list((tmp_path / "cache" / "tools").iterdir())


def test_the_embedded_model_is_told_the_style(cdec: Runner) -> None:
    refused = cdec(*WORDS, "--prompt", "x")
    assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert "--tool-style" in refused.stderr
    for more, kind in (((), dict), (("--parallel-calls",), list)):
        words = ("--tool-style", "json", "--max-new-tokens", "100", "--method", "greedy", "-n", "1")
        (record,) = cdec(*WORDS[:3], *words, *more, "--prompt", "Call heat:").records
        if record["finish_reason"] == "complete":
            assert isinstance(json.loads(record["text"]), kind) and record["valid"]
    chosen = cdec(*WORDS, "--tool-style", "json", "--tool-choice", "now", "--prompt", "x")
    assert {json.loads(r["text"])["name"] for r in chosen.records} == {"now"}


def test_a_changed_list_is_another_run(cdec: Runner, model: Path) -> None:
    words = (*WORDS, "-m", model, "--prompt", "x", "-o", "out.jsonl")
    assert cdec(*words).status == 0
    Path("tools.json").write_text(json.dumps(TOOLS[:1]))
    assert cdec(*words, "--resume").error_code == "E_RESUME_MISMATCH"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-a", "x.arrow"), "an artifact and --tools"),
        (("--regex", "x"), "--regex and --tools"),
        (("--after", "x"), "--after and --tools"),
        (("--tool-style", "xml"), "xml"),
        (("--tool-choice", "cold"), "no function 'cold'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cdec: Runner, model: Path, words: tuple[str, ...], said: str
) -> None:
    ran = cdec(*WORDS, "-m", model, "--prompt", "x", *words)
    assert ran.status != 0
    assert said in ran.stderr or said in ran.stdout.decode()


def test_choices_without_tools_are_refused(cdec: Runner) -> None:
    ran = cdec("sample", "--regex", "x", "--tool-choice", "auto", "--prompt", "x")
    assert (ran.status, ran.error_code) == (2, "E_USAGE")
    Path("tools.json").write_text("{}")
    assert "the tools are no list" in cdec(*WORDS, "--prompt", "x").stderr


def test_a_text_that_need_not_call_is_no_warning(cdec: Runner) -> None:
    words = (*WORDS, "--tool-style", "hermes", "--tool-choice", "auto", "--max-new-tokens", "9")
    ran = cdec(*words, "--method", "greedy", "-n", "1", "--prompt", "What is the capital of Italy?")
    (record,) = ran.records
    assert (record["marker"], record["finish_reason"]) == (None, "complete")
    assert (record["text"], record["valid"], record["log_weight"]) == (record["free_text"], True, 0)
    assert "W_NO_MARKER" not in ran.stderr


def test_a_grammar_names_special_tokens(cdec: Runner, model: Path) -> None:
    """The child compiles for them, texts show their words, scores read these as the tokens."""
    Path("turns.lark").write_text('start: <think> WORD </think> WORD\nWORD: "a" | "b"\n')
    ran = cdec(
        "sample", "--grammar", "turns.lark", "--method", "masked", "-m", model, "--prompt", "x"
    )
    assert ran.status == 0, ran.stderr
    (record,) = ran.records
    assert (
        record["valid"] and record["text"][:7] == "<think>" and record["text"][8:16] == "</think>"
    )
    assert record["token_ids"][0::2] == [THINK, END_THINK]
    given = jsonl({"prompt": "x", "text": record["text"]})
    scored = cdec("score", "--grammar", "turns.lark", "-m", model, stdin=given)
    assert scored.status == 0, scored.stderr
    assert scored.records[0]["valid"]
    assert scored.records[0]["logprob"] == pytest.approx(record["logprob"], abs=1e-4)
    refused = cdec("compile-grammar", "turns.lark", "-o", "x.arrow")
    assert (refused.status, refused.error_code) == (65, "E_GRAMMAR_UNDEFINED")
    assert "line 1, column 8" in refused.stderr
