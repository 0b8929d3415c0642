"""Free text before a constraint on the command line: options, fields of records, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Runner

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
