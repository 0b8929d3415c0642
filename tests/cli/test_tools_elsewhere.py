"""``--tools`` of score, mass and check: calls in the format that samples have."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.cli.conftest import Runner, jsonl
from tests.cli.test_tools import TOOLS, WORDS
from tests.core.models.chat_models import CALL, END_CALL, chat_model
from tests.laws.rounding import near

CHAT = {"id": 1, "messages": [{"role": "user", "content": "x"}]}
STYLES = (("--tool-style", "json"), ("--tool-style", "hermes"), ("--tool-style", "qwen"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("chat"))


@pytest.fixture(autouse=True)
def _tools(cdec: Runner) -> None:
    Path("tools.json").write_text(json.dumps(TOOLS))


@pytest.mark.share(2)
@pytest.mark.parametrize("style", [(), *STYLES])
def test_samples_are_scored_and_checked_as_they_were_drawn(
    cdec: Runner, model: Path, style: tuple[str, ...]
) -> None:
    ran = cdec(*WORDS, *style, "-m", model, "--max-new-tokens", "120", stdin=jsonl(CHAT))
    assert ran.status == 0, ran.stderr
    Path("chat.jsonl").write_bytes(jsonl(CHAT))
    asked = ("--tools", "tools.json", *style)
    prompts = ("--prompts", "chat.jsonl", "-m", model)
    scored = cdec("score", *asked, *prompts, stdin=ran.stdout)
    assert scored.status == 0, scored.stderr
    for sample, score in zip(ran.records, scored.records, strict=True):
        assert score["text"] == sample["text"] and score["member"] and score["valid"]
        assert score["logprob"] == near(sample["logprob"], len(sample["token_ids"]))
    texts = jsonl(*({"text": sample["text"], "id": 1} for sample in ran.records))
    again = cdec("score", *asked, *prompts, stdin=texts).records
    assert all(score["member"] and score["valid"] for score in again)
    if not style:
        assert all(
            (s["token_ids"][0], s["token_ids"][-1]) == (CALL, END_CALL) for s in scored.records
        )
    checked = cdec("check", *asked, "--tokenizer", model, "--field", "text", stdin=ran.stdout)
    assert checked.status == 0, checked.stderr
    assert all(verdict["valid"] for verdict in checked.records)
    rows = "".join(json.dumps(sample["token_ids"]) + "\n" for sample in ran.records).encode()
    by_ids = cdec("check", *asked, "--tokenizer", model, "--token-ids", stdin=rows)
    assert [v["text"] for v in by_ids.records] == [s["text"] for s in ran.records]


@pytest.mark.slow
def test_the_mass_is_that_of_all_calls_of_the_model_s_format(cdec: Runner, model: Path) -> None:
    asked = ("mass", "--tools", "tools.json", "-m", model, "--candidates", "600")
    both = cdec(*asked, stdin=jsonl(CHAT))
    assert both.status == 0, both.stderr
    ones = [cdec(*asked, "--tool-choice", name, stdin=jsonl(CHAT)) for name in ("heat", "now")]
    masses = [record["mass"] for ran in (both, *ones) for record in ran.records]
    assert masses[0] == pytest.approx(masses[1] + masses[2], rel=0.5) and masses[0] > 0
    # The template is told of the tools, here as in draws: another prompt, another mass.
    chat = {**CHAT, "tools": TOOLS, "regex": "x"}
    told = cdec("mass", "-m", model, stdin=jsonl(chat))
    plain = cdec("mass", "-m", model, stdin=jsonl({**CHAT, "regex": "x"}))
    assert told.records[0]["log_mass_lower"] != plain.records[0]["log_mass_lower"]
    bounds = [cdec(*asked, stdin=jsonl({**CHAT, "regex": "x"}))]
    assert bounds[0].records[0]["log_mass_lower"] == near(told.records[0]["log_mass_lower"], 2)
    assert math.isfinite(masses[0])


def test_check_says_where_a_call_is_refused(cdec: Runner, model: Path) -> None:
    texts = jsonl(
        {"text": '{"name": "heat", "arguments": {"unit": "k"}}'},
        {"text": '\n{"name": "now", "arguments": {}}\n'},
    )
    ran = cdec(
        "check", "--tools", "tools.json", "--tokenizer", model, "--field", "text", stdin=texts
    )
    assert ran.status == 0, ran.stderr
    first, second = ran.records
    assert not first["valid"] and first["byte"] == 40
    assert second["valid"]  # what stands around calls, where special tokens are not shown
    words = ("check", "--tools", "tools.json", "--tool-style", "hermes", "--field", "text")
    whole = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert cdec(*words, stdin=jsonl({"text": whole})).records[0]["valid"]


@pytest.mark.parametrize("command", ["score", "mass", "check"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tool-choice", "auto"), "may call or not"),
        (("--tool-style", "hermes", "--parallel-calls"), "several calls"),
        (("--tool-style", "xml"), "xml"),
        (("--regex", "x"), "--regex and --tools"),
        (("--span-of", "x"), "--span-of and --tools"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cdec: Runner, model: Path, command: str, words: tuple[str, ...], said: str
) -> None:
    where = ("--tokenizer", model) if command == "check" else ("-m", model)
    given = {**CHAT, "text": "x"} if command == "score" else CHAT
    stdin = jsonl(given) if command != "check" else b"x\n"
    ran = cdec(command, "--tools", "tools.json", *where, *words, stdin=stdin)
    assert ran.status != 0
    assert said in ran.stderr or said in ran.stdout.decode()


def test_options_of_artifacts_mean_nothing_to_calls(cdec: Runner) -> None:
    asked = ("check", "--tools", "tools.json", "--tool-style", "json")
    for words in (("--explain",), ("--canonical",), ("--max-new-tokens", "9")):
        ran = cdec(*asked, *words, stdin=b"x\n")
        assert (ran.status, ran.error_code) == (2, "E_USAGE"), words
        assert "with --tools" in ran.stderr
    for command in ("score", "mass", "check"):
        ran = cdec(command, "--regex", "x", "--parallel-calls", stdin=b"x\n")
        assert (ran.status, ran.error_code) == (2, "E_USAGE") and "without --tools" in ran.stderr
    assert cdec("check", "--regex", "x", "--tool-style", "json", stdin=b"x\n").status == 2


@pytest.mark.parametrize("words", [("--fit",), ("--canonical",), ("--prefill", "x")])
def test_what_begins_with_a_marker_is_neither_fitted_nor_begun(
    cdec: Runner, model: Path, words: tuple[str, ...]
) -> None:
    ran = cdec("mass", "--tools", "tools.json", "-m", model, *words, stdin=jsonl(CHAT))
    assert ran.status == 3 and "stands before a call" in ran.stdout.decode()


def test_samples_behind_free_text_are_not_scored_as_calls(cdec: Runner, model: Path) -> None:
    call = '{"name": "now", "arguments": {}}'
    record = {"prompt": "x", "text": call, "free_tokens": 3, "free_text": "Sure: ", "marker": None}
    asked = ("score", "--tools", "tools.json", "-m", model)
    for more in ({}, {"free_text": "\n", "marker": "<tool_call>\n", "thinking": "hm"}):
        ran = cdec(*asked, stdin=jsonl({**record, **more}))
        assert ran.status == 3 and "free_tokens" in ran.stdout.decode()
    begun = {**record, "free_text": "\n", "marker": "<tool_call>\n"}
    assert cdec(*asked, stdin=jsonl(begun)).records[0]["member"]


def test_labels_and_traces_say_what_takes_tools(cdec: Runner) -> None:
    ran = cdec("classify", "--tools", "tools.json", "--prompt", "x")
    assert (ran.status, ran.error_code) == (2, "E_USAGE")
    assert "cdec mass --tools FILE --tool-choice NAME" in ran.stderr
    assert "cdec sample --tools FILE --trace" in cdec("trace", "--tools", "x", "t").stderr
