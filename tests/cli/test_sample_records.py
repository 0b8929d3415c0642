"""cdec sample and its records: own options, bad records, constraints by name, templates, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import MEMBERS, Result, Runner

pytestmark = pytest.mark.usefixtures("loaded")
PROMPT = ("--prompt", "The capital is")


def _jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _texts(result: Result) -> list[str]:
    assert result.status == 0, result.stderr
    return [record["text"] for record in result.records]


def test_records_bring_their_own_options(cdec: Runner, cities: Path) -> None:
    data = _jsonl(
        {"id": "a", "prompt": "x", "n": 3, "seed": 5, "gold": "Rome"},
        {"id": "b", "prompt": "x", "temperature": 0.5},
        {"id": "c", "prompt": "x", "candidates": ["Oslo", "Q2"]},
        {"id": "d", "messages": [{"role": "user", "content": "Where?"}]},
    )
    result = cdec("sample", "-a", cities, "--seed", "9", stdin=data)
    assert result.status == 0, result.stderr
    assert [(r["id"], r["index"]) for r in result.records] == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("d", 0),
    ]  # fmt: skip
    assert result.records[0]["input"] == {"gold": "Rome"}
    assert "input" not in result.records[3]
    assert result.records[4]["text"] in ("Oslo", "Rome")
    again = cdec("sample", "-a", cities, stdin=_jsonl({"id": "a", "prompt": "x", "seed": 5}))
    assert again.records[0]["seed"] == result.records[0]["seed"]


def test_bad_records_stay_in_their_place(cdec: Runner, cities: Path) -> None:
    data = (
        _jsonl({"id": 1, "prompt": "a"})
        + b"{oops\n"
        + _jsonl(
            {"id": 3, "prompt": "b", "candidates": ["Atlantis"]},
            {"id": 4, "prompt": "b", "constraint": "nope"},
            {"id": 5, "prompt": "b", "regex": ""},
            {"id": 6, "prompt": "c"},
        )
    )
    result = cdec("sample", "-a", cities, stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_JSON", "E_FIELD", "E_FIELD", "E_FIELD", None]
    assert [record["id"] for record in result.records[2:]] == [3, 4, 5, 6]
    assert "Atlantis" in result.records[2]["error"]["message"]
    assert "field 'regex' is empty" in result.records[4]["error"]["message"]


def test_strict_stops_at_the_first_bad_record_with_its_own_status(
    cdec: Runner, cities: Path
) -> None:
    data = _jsonl({"id": 1, "prompt": "a"}) + b"{oops\n" + _jsonl({"id": 3, "prompt": "b"})
    result = cdec("sample", "-a", cities, "--strict", stdin=data)
    assert (result.status, result.error_code) == (65, "E_JSON")
    assert [record["id"] for record in result.records] == [1]


def test_records_choose_among_named_constraints(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    from cdec.compilers import compile_set

    compile_set(["red", "green"], embedded_model.vocabulary, "colours.arrow")
    data = _jsonl(
        {"id": 1, "prompt": "x", "constraint": "colours"},
        {"id": 2, "prompt": "x", "constraint": "cities"},
        {"id": 3, "prompt": "x"},
    )
    words = ("--constraint", "colours=colours.arrow", "--constraint", f"cities={cities}")
    result = cdec("sample", *words, stdin=data)
    assert result.status == 3
    assert result.records[0]["text"] in ("red", "green")
    assert result.records[1]["text"] in MEMBERS
    assert result.records[2]["error"]["code"] == "E_FIELD"
    assert cdec("sample", "-a", "colours.arrow", *words, stdin=data).status == 0
    for wrong in ("colours", "=x", "a="):
        assert cdec("sample", "--constraint", wrong, stdin=data).error_code == "E_USAGE"


def test_denied_texts_are_never_emitted(cdec: Runner, cities: Path) -> None:
    Path("deny.txt").write_text("\n".join(MEMBERS[1:]) + "\nAtlantis\n", encoding="utf-8")
    result = cdec("sample", "-a", cities, *PROMPT, "-n", "5", "--deny", "deny.txt")
    assert set(_texts(result)) == {"Paris"}
    assert "W_DENY_UNKNOWN" in result.stderr
    Path("deny.txt").write_text("\n".join(MEMBERS) + "\n", encoding="utf-8")
    assert cdec("sample", "-a", cities, *PROMPT, "--deny", "deny.txt").error_code == "E_EMPTY_SET"


def test_templates_fill_prompts_from_fields(
    cdec: Runner, cities: Path, monkeypatch: pytest.MonkeyPatch, embedded_model: Any
) -> None:
    seen = []
    encode = embedded_model.encode_prompt
    monkeypatch.setattr(embedded_model, "encode_prompt", lambda p: seen.append(p) or encode(p))
    Path("t.txt").write_text("Q: {query}\nA:")
    data = _jsonl({"id": 1, "query": "Where?"}, {"id": 2})
    result = cdec("sample", "-a", cities, "--template", "t.txt", stdin=data)
    assert seen[0] == "Q: Where?\nA:"
    assert result.records[1]["error"]["field"] == "query"
    Path("t.txt").write_text("{")
    bad = cdec("sample", "-a", cities, "--template", "t.txt", stdin=data)
    assert bad.error_code == "E_USAGE"


def test_prompts_come_from_one_place(cdec: Runner, cities: Path) -> None:
    Path("p.txt").write_text("one\ntwo\n")
    assert len(cdec("sample", "-a", cities, "-i", "p.txt").records) == 2
    assert len(cdec("sample", "-a", cities, "--prompt", "a", "--prompt", "b").records) == 2
    both = cdec("sample", "-a", cities, "-i", "p.txt", "--prompt", "a")
    assert both.error_code == "E_USAGE"
    missing = cdec("sample", "-a", cities, "-i", "nope.txt")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")


def test_input_limits(cdec: Runner, cities: Path) -> None:
    data = _jsonl({"id": 1, "prompt": "x" * 50}, {"id": 2, "prompt": "y", "n": 3})
    long = cdec("sample", "-a", cities, "--max-line-bytes", "40", stdin=data)
    assert long.records[0]["error"]["code"] == "E_LINE_TOO_LONG"
    many = cdec("sample", "-a", cities, "--max-n", "2", stdin=data)
    assert many.records[-1]["error"]["code"] == "E_LIMIT"
    assert cdec("sample", "-a", cities, stdin=data).status == 0
