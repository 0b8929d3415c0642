"""Free text before a constraint on the command line: options, fields of records, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Runner
from tests.laws.rounding import near, near_records

ASKED = "What is the capital of France?"
pytestmark = pytest.mark.usefixtures("loaded")


def _jsonl(*records: dict[str, object]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_options_and_fields_of_records_say_the_same(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "-n", "2", "--method", "masked")
    typed = ("--after", ":", "--after", " -", "--budget", "3")
    option = cdec(*words, *typed, stdin=_jsonl({"id": 1, "prompt": ASKED}))
    own = {"id": 1, "prompt": ASKED, "after": [":", " -"], "budget": 3}
    assert option.status == 0
    for record in option.records:
        assert record["free_text"].endswith((":", " -")) and record["valid"]
        assert record["marker"] in (":", " -") and "input" not in record
    assert cdec(*words, stdin=_jsonl(own)).records == option.records
    other = cdec(*words, "--between", "<a>", "</a>", stdin=_jsonl(own))
    assert other.records == option.records
    shorter = cdec(*words, *typed, stdin=_jsonl({"id": 1, "prompt": ASKED, "budget": 0}))
    assert all(record["forced"] for record in shorter.records)
    assert all(record["free_text"] == ":" for record in shorter.records)


def test_tagged_regions_stand_in_the_whole_text(cdec: Runner, cities: Path) -> None:
    words = ("--between", "<a>", "</a>", "--regions", "1", "--budget", "2")
    result = cdec("sample", "-a", cities, *words, "--method", "greedy", "--prompt", ASKED)
    (record,) = result.records
    (region, *_) = record["regions"]
    assert record["text"][region["start"] : region["end"]].strip() == region["text"]
    assert "<a>" in record["text"] and region["valid"] is True


def test_markers_of_records_are_bounded_and_the_bounds_are_raised_by_options(
    cdec: Runner, cities: Path
) -> None:
    words = ("sample", "-a", cities, "--method", "masked", "--max-new-tokens", "30")
    strangers = _jsonl(
        {"id": 1, "prompt": ASKED, "after": ":" * 4_097},
        {"id": 2, "prompt": ASKED, "after": [f":{n}" for n in range(257)]},
        {"id": 3, "prompt": ASKED, "between": ["<" * 3_000, ">" * 3_000]},
        {"id": 4, "prompt": ASKED, "after": ":", "budget": 1},
    )
    refused = cdec(*words, stdin=strangers)
    errors = [record["error"] for record in refused.records[:3]]
    assert [error["code"] for error in errors] == ["E_LIMIT"] * 3
    assert refused.status == 3 and refused.records[3]["valid"]
    assert "--max-marker-bytes" in errors[0]["hint"] and "--max-markers" in errors[1]["hint"]
    raised = ("--max-markers", "300", "--max-marker-bytes", "1000000")
    assert not any("error" in record for record in cdec(*words, *raised, stdin=strangers).records)
    typed = cdec(*words, "--prompt", ASKED, "--after", ":" * 4_097)
    assert typed.status == 75 and "--max-marker-bytes" in typed.stderr


def test_a_records_own_marker_that_no_token_spells_is_its_error_alone(
    cdec: Runner, letters: Path
) -> None:
    records = _jsonl({"id": 1, "prompt": "p", "after": "\ue000"}, {"id": 2, "prompt": "p"})
    result = cdec("sample", "-a", letters, "--method", "masked", stdin=records)
    first, second = result.records
    assert (result.status, first["error"]["code"]) == (3, "E_USAGE")
    assert second["valid"]


def test_a_long_marker_that_text_is_forced_into_is_spelt_to_its_end(
    cdec: Runner, cities: Path
) -> None:
    record = {"id": 1, "prompt": ASKED, "after": "z" * 600, "budget": 2}
    (drawn,) = cdec("sample", "-a", cities, "--method", "masked", stdin=_jsonl(record)).records
    assert drawn["valid"] and drawn["free_text"].endswith("z" * 600)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--after", ""], "not empty"),
        (["--after", "x", "--between", "a", "b"], "--after"),
        (["--budget", "3"], "no marker"),
        (["--after", "x", "--regions", "1"], "--regions is 1"),
        (["--between", "a", "b", "--budget", "3"], "no region is owed"),
        (["--after", "x", "--prefill", "Pa"], "--prefill is about"),
        (["--after", "x", "--heal"], "--heal is about"),
        (["--after", "x", "--method", "exact", "--tree", "t.tree"], "--tree is about"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    cdec: Runner, cities: Path, words: list[str], said: str
) -> None:
    result = cdec("sample", "-a", cities, "--prompt", ASKED, *words)
    assert result.status == 2 and said in result.stderr, result.stderr


def test_free_text_before_nothing_is_refused_before_a_model_loads(
    cdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdec.cli.runs.models.open_model", lambda options: 1 / 0)
    words = ("sample", "--method", "unconstrained", "--prompt", ASKED, "--after", "x")
    result = cdec(*words)
    assert result.status == 2 and "a constraint begins, and there is none" in result.stderr
    assert "-a" in result.stderr


def test_a_text_that_never_comes_to_its_marker_is_warned_of(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", ASKED, "--after", "never", "-n", "2")
    result = cdec(*words, "--max-new-tokens", "3")
    assert result.status == 0 and [r["text"] for r in result.records] == [None, None]
    assert "W_NO_MARKER: 2 of 2 samples never wrote the text of --after" in result.stderr
    assert "give --budget" in result.stderr and "W_CUT" not in result.stderr
    forced = cdec(*words, "--budget", "1", "--max-new-tokens", "12")
    assert "W_NO_MARKER" not in forced.stderr and all(r["text"] for r in forced.records)


@pytest.mark.parametrize(
    "fields",
    [
        {"after": ""},
        {"after": 3},
        {"after": []},
        {"between": ["a"]},
        {"after": "a", "between": ["a", "b"]},
        {"after": "a", "budget": -1},
        {"budget": 1},
        {"after": "a", "regions": 2},
        {"after": "a", "prefill": "Pa"},
    ],
)
def test_a_bad_record_is_an_error_in_its_place(
    cdec: Runner, cities: Path, fields: dict[str, object]
) -> None:
    result = cdec("sample", "-a", cities, stdin=_jsonl({"id": 1, "prompt": ASKED, **fields}))
    assert result.status == 3 and result.records[0]["error"]["code"] == "E_FIELD"


def test_free_text_is_neither_measured_nor_scored(cdec: Runner, cities: Path) -> None:
    line = {"id": 1, "prompt": ASKED, "after": "x"}
    assert cdec("mass", "-a", cities, stdin=_jsonl(line)).records[0]["error"]["code"] == "E_FIELD"
    sample = {"id": 1, "prompt": ASKED, "text": "Paris", "free_tokens": 3}
    result = cdec("score", "-a", cities, stdin=_jsonl(sample))
    assert "free text" in result.records[0]["error"]["message"]


def test_cdec_toml_gives_the_two_texts_of_a_region(
    cdec: Runner, cities: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cdec.toml").write_text('between = ["<a>", "</a>"]\nregions = 1\nbudget = 1\n')
    result = cdec("sample", "-a", cities, "--method", "greedy", "--prompt", ASKED)
    assert "--between '<a>' '</a>'" in result.stderr and result.records[0]["regions"]
    Path("cdec.toml").write_text('between = ["<a>"]\n')
    assert "a list of 2 strings" in cdec("sample", "-a", cities, "--prompt", ASKED).stderr


@pytest.mark.parametrize("budget", [(), ("--budget", "2")], ids=["as it comes", "forced"])
def test_a_trace_says_which_tokens_are_free(
    cdec: Runner, cities: Path, tmp_path: Path, budget: tuple[str, ...]
) -> None:
    words = ("--after", "a", *budget, "--method", "masked", "-n", "4", "--prompt", ASKED)
    trace = tmp_path / "t.jsonl"
    result = cdec("sample", "-a", cities, *words, "--trace", trace)
    assert result.status == 0, result.stderr
    assert result.records == near_records(cdec("sample", "-a", cities, *words).records)
    lines = [json.loads(line) for line in trace.read_bytes().splitlines()]
    for record in result.records:
        mine = [line for line in lines if line["index"] == record["index"]]
        assert [line["position"] for line in mine] == list(range(len(mine)))
        tokens = [line for line in mine if line["event"] == "token"]
        assert [line["token_id"] for line in tokens] == record["token_ids"]
        free = [line for line in mine if line["free"]]
        assert len([x for x in free if x["event"] == "token"]) == record["free_tokens"]
        assert sum(line["logprob"] for line in free) == near(record["free_logprob"], len(free))
        if not record["forced"]:
            assert sum(x["log_z"] for x in free) == near(record["free_log_z"], len(free))
        held = [line for line in mine if not line["free"]]
        if record["marker"] is not None:
            assert sum(x["log_z"] for x in held) == near(record["log_candidate_weight"], len(held))
        named = [x["position"] for x in mine if "prompt" in x or "method" in x]
        assert named == [0] and (mine[0]["prompt"], mine[0]["method"]) == (ASKED, "masked")
    summary = cdec("trace", trace, "--json").records[0]
    assert summary["free"] == len([x for x in lines if x["free"] and x["index"] == 0])
    assert b" free" in cdec("trace", trace).stdout


def test_what_restricts_a_constraint_does_so_behind_free_text(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    words = (
        "sample",
        "-a",
        cities,
        "--method",
        "exact",
        "-n",
        "6",
        "--after",
        "a",
        "--budget",
        "3",
    )
    every = {r["text"] for r in cdec(*words, "--prompt", ASKED).records}
    assert "Paris" in every
    (tmp_path / "denied.txt").write_text("Paris\n")
    denied = cdec(*words, "--prompt", ASKED, "--deny", tmp_path / "denied.txt")
    assert denied.status == 0 and all(r["valid"] for r in denied.records)
    assert "Paris" not in {r["text"] for r in denied.records}
    own = {"id": 1, "prompt": ASKED, "candidates": ["Rome", "Berlin"]}
    chosen = cdec(*words, stdin=_jsonl(own)).records
    assert {r["text"] for r in chosen} <= {"Rome", "Berlin"} and all(r["valid"] for r in chosen)


def test_both_of_two_constraints_hold_behind_free_text(
    cdec: Runner, cities: Path, tmp_path: Path, grammar_child: object
) -> None:
    regex = tmp_path / "r.arrow"
    assert cdec("compile-regex", " [A-Q].*", "-o", regex).status == 0
    words = ("--and", regex, "--after", "a", "--budget", "3", "--method", "exact", "-n", "6")
    result = cdec("sample", "-a", cities, *words, "--prompt", ASKED)
    assert result.status == 0, result.stderr
    assert all(r["valid"] and "A" <= r["text"][0] <= "Q" for r in result.records)
    assert any(r["free_text"] != "a" for r in result.records)


def test_a_run_with_free_text_goes_on_where_it_was_killed(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    prompts = [{"id": i, "prompt": f"{ASKED} {i}"} for i in range(5)]
    words = (
        "sample",
        "-a",
        cities,
        "--after",
        "a",
        "--budget",
        "3",
        "-n",
        "2",
        "--batch-size",
        "2",
    )
    whole = cdec(*words, stdin=_jsonl(*prompts)).records
    out = tmp_path / "o.jsonl"
    cdec(*words, "-o", out, stdin=_jsonl(*prompts))
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    other = cdec(*words[:-1], "2", "--budget", "2", "-o", out, "--resume", stdin=_jsonl(*prompts))
    assert other.status != 0, "another budget is another run"
    assert cdec(*words, "-o", out, "--resume", stdin=_jsonl(*prompts)).status == 0
    found = [json.loads(line) for line in out.read_bytes().splitlines()]
    key = lambda r: (r["id"], r["index"])  # noqa: E731
    assert sorted(found, key=key) == near_records(sorted(whole, key=key))


NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": NOTHING}}
    for name in ("now", "stop")
]


def test_calls_of_tools_stand_in_tagged_regions(
    cdec: Runner, tmp_path: Path, grammar_child: object
) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    artifact = tmp_path / "tools.arrow"
    compiled = ("compile-schema", "--tools", tmp_path / "tools.json", "--whitespace", "compact")
    assert cdec(*compiled, "-o", artifact).status == 0
    words = ("--between", "<call>", "</call>", "--regions", "1", "--budget", "5", "-n", "2")
    asked = ("--prompt", "What time is it?", "--max-new-tokens", "160", "--method", "masked")
    result = cdec("sample", "-a", artifact, *words, *asked)
    assert result.status == 0, result.stderr
    ended = 0
    for record in result.records:
        for region in record["regions"]:
            if region["finish_reason"] != "complete":
                continue
            ended += 1
            call = json.loads(region["text"])
            assert call["name"] in ("now", "stop") and call["arguments"] == {}
            assert record["text"][region["start"] : region["end"]] == region["text"]
            assert record["text"][: region["start"]].endswith("<call>")
            assert record["text"][region["end"] :].startswith("</call>")
            assert region["valid"] is True
    assert ended >= 2
