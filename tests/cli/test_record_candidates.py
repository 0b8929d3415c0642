"""Candidates that records bring, without an artifact: compiled as they come, in a bounded cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers.cache import KeptConstraints
from cdec.compilers.sets.cache import SetCache
from cdec.compilers.sets.options import SetLimits
from cdec.core.errors import LimitError, UntokenizableError
from tests.compilers.sets.small_tokenizers import byte_level, lossy

from .conftest import Runner


def _jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.usefixtures("loaded")
def test_records_bring_their_candidates(cdec: Runner) -> None:
    data = _jsonl(
        {"id": 0, "prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]},
        {"id": 1, "prompt": "The capital of Norway is", "candidates": ["Oslo"]},
        {"id": 2, "prompt": "Nothing to hold it to"},
    )
    for words in (("sample", "--method", "disc", "--K", "2"), ("sample", "--method", "masked")):
        result = cdec(*words, stdin=data)
        assert result.status == 3, result.stderr
        assert result.records[0]["text"] in ("Paris", "Lyon")
        assert result.records[1]["text"] == "Oslo"
        assert all(record["valid"] for record in result.records[:2])
        assert result.records[2]["error"]["code"] == "E_FIELD"


@pytest.mark.usefixtures("loaded")
def test_mass_and_score_take_them_too(cdec: Runner) -> None:
    data = _jsonl({"id": 0, "prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]})
    Path("q.jsonl").write_bytes(data)
    mass = cdec("mass", "-i", "q.jsonl", "--candidates", "8")
    assert mass.status == 0, mass.stderr
    drawn = cdec("sample", "-i", "q.jsonl", "--method", "topn", "-n", "2")
    assert {record["text"] for record in drawn.records} == {"Paris", "Lyon"}
    Path("drawn.jsonl").write_bytes(drawn.stdout)
    scored = cdec("score", "-i", "drawn.jsonl", "--prompts", "q.jsonl")
    assert scored.status == 0, scored.stderr
    assert [record["member"] for record in scored.records] == [True, True]
    bracket = [scored.records[0][name] for name in ("log_mass_lower", "log_mass_upper")]
    assert bracket[0] <= mass.records[0]["log_mass_upper"] + 1e-6


@pytest.mark.usefixtures("loaded")
def test_they_are_narrowed_by_what_the_run_asks(cdec: Runner, cities: Path) -> None:
    data = _jsonl({"prompt": "x", "candidates": ["Paris", "Rome", "Rome"]})
    Path("no.txt").write_text("Paris\n")
    result = cdec("sample", "--deny", "no.txt", "--method", "masked", stdin=data)
    assert [record["text"] for record in result.records] == ["Rome"], result.stderr
    # With an artifact they are members of it, as before.
    held = cdec("sample", "-a", cities, stdin=_jsonl({"prompt": "x", "candidates": ["Lyon"]}))
    assert held.records[0]["error"]["code"] == "E_FIELD"


@pytest.mark.usefixtures("loaded")
def test_bad_candidates_are_errors_in_their_places(cdec: Runner) -> None:
    data = _jsonl(
        {"id": 0, "prompt": "x", "candidates": ["a"]},
        {"id": 1, "prompt": "x", "candidates": []},
        {"id": 2, "prompt": "x", "candidates": [" "]},
        {"id": 3, "prompt": "x", "candidates": ["a", "b"], "constraint": "nope"},
    )
    result = cdec("sample", "--method", "masked", stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_FIELD", "E_EMPTY_SET", "E_FIELD"]
    assert "field 'candidates'" in result.records[2]["error"]["message"]


def test_equal_lists_share_a_constraint_within_the_limits() -> None:
    sets = SetCache(byte_level(), KeptConstraints(2, 1 << 20))
    one = sets.of(("Paris", "Rome"))
    assert sets.of(("Paris", "Rome")) is one
    sets.of(("a",))
    sets.of(("b",))
    assert sets.of(("Paris", "Rome")) is not one
    small = SetCache(byte_level(), KeptConstraints(64, 1))
    kept = small.of(("a",))
    assert small.of(("a",)) is kept
    small.of(("b",))
    assert small.of(("a",)) is not kept


def test_mistakes_are_remembered_and_named() -> None:
    sets = SetCache(lossy(), KeptConstraints(4, 1 << 20), name="field 'candidates'")
    errors = []
    for _ in range(2):
        with pytest.raises(UntokenizableError, match="field 'candidates'") as caught:
            sets.of(("Été",))
        errors.append(caught.value)
    assert errors[0].to_json() == errors[1].to_json()
    assert errors[0] is not errors[1]
    bounded = SetCache(byte_level(), KeptConstraints(4, 1 << 20), SetLimits(max_entities=1))
    with pytest.raises(LimitError):
        bounded.of(("a", "b"))


def test_warnings_of_many_lists_are_counted_not_repeated() -> None:
    sets = SetCache(byte_level(), KeptConstraints(4, 1 << 20))
    for letter in "abc":
        sets.of((letter, letter))
    (notice,) = sets.take_notices()
    assert notice.code == "W_DUPLICATES" and "(and 2 more lists)" in notice.message
    assert sets.take_notices() == []
