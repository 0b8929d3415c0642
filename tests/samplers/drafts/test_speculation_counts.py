"""Counts of speculation: estimates, bounds, and the file they are kept in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdec.core.errors import CdecError, DataError, OutputError
from cdec.samplers.drafts import counts as module
from cdec.samplers.drafts.counts import END, Counts, CountTable


def test_the_likeliest_event_has_its_share_of_what_was_seen() -> None:
    table = CountTable()
    assert table.likeliest(5) == (END, 0.0)
    for event in (7, 7, 9, END):
        table.add(5, event)
    assert table.likeliest(5) == (7, 2 / 5)
    assert table.likeliest(6) == (END, 0.0)


def test_a_key_with_many_events_forgets_the_rare_ones() -> None:
    table = CountTable()
    table.add(1, 3, 40)
    for event in range(100, 100 + 3 * module.MAX_EVENTS):
        table.add(1, event)
    assert len(table) <= module.MAX_EVENTS
    event, probability = table.likeliest(1)
    # What was forgotten still counts as seen: the estimate does not rise.
    assert event == 3
    assert probability <= 40 / (40 + 1)


def test_a_full_table_keeps_the_keys_met_most_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 100)
    table = CountTable()
    for key in range(10):
        table.add(key, 1, 50)
    for key in range(1000, 2000):
        table.add(key, 1)
    assert len(table) <= 100
    assert all(table.likeliest(key)[0] == 1 for key in range(10))


def test_saved_counts_come_back(tmp_path: Path) -> None:
    counts = Counts("hash")
    counts.table("a").add(-(1 << 63), 5, 3)
    counts.table("a").add(7, END)
    counts.table("b").add(7, 4)
    counts.save(tmp_path / "counts.json")
    again = Counts.load(tmp_path / "counts.json")
    assert again.vocabulary_hash == "hash"
    for name in ("a", "b"):
        assert again.table(name).to_json() == counts.table(name).to_json()
    assert again.table("a").likeliest(-(1 << 63)) == (5, 3 / 4)
    assert [path.name for path in tmp_path.iterdir()] == ["counts.json"]


def test_many_tables_stay_within_one_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MAX_ALL_ENTRIES", 100)
    counts = Counts("hash")
    for number in range(50):
        table = counts.table(f"grammar {number}")
        for key in range(10):
            table.add(key, number)
        # A table that is asked for again and again outlives those that are not.
        assert counts.table("grammar 0").likeliest(3) == (0, 1 / 2)
    counts.save(tmp_path / "counts.json")
    names = list(json.loads((tmp_path / "counts.json").read_text())["tables"])
    assert names[-2:] == ["grammar 49", "grammar 0"]
    assert 2 <= len(names) <= 11


def test_an_empty_table_is_shared_and_not_kept_for_ever() -> None:
    counts = Counts("hash")
    table = counts.table("0")
    # Two sessions of one grammar ask for it before anything is counted.
    assert counts.table("0") is table
    for number in range(module.MAX_TABLES):
        counts.table(str(1 + number))
    assert counts.table("0") is not table


def test_counts_of_other_artifacts_are_refused() -> None:
    counts = Counts("hash")
    counts.table("a").add(1, 1)
    counts.require_artifacts([])
    counts.require_artifacts(["b", "a"])
    with pytest.raises(DataError, match="the artifacts a, the run has b"):
        counts.require_artifacts(["b"])


GOOD = {"kind": "cdec counts", "version": 1, "vocabulary_hash": "h", "tables": {}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "E_JSON"),
        (b"[1", "E_JSON"),
        (b"[" * 100_000, "E_JSON"),
        (b"\xff", "E_JSON"),
        (b"[]", "E_DATA"),
        (json.dumps(GOOD | {"kind": "x"}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"version": 2}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"vocabulary_hash": None}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": []}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": [1]}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"2": 0}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"2": True}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"-2": 1}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"x": {"2": 1}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {str(1 << 63): {"2": 1}}}}).encode(), "E_DATA"),
    ],
)
def test_a_file_that_holds_no_counts_is_refused(tmp_path: Path, body: bytes, code: str) -> None:
    path = tmp_path / "counts.json"
    path.write_bytes(body)
    with pytest.raises(CdecError) as caught:
        Counts.load(path)
    assert caught.value.code == code
    assert caught.value.hint


def test_missing_files_and_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(CdecError) as caught:
        Counts.load(tmp_path / "none.json")
    assert caught.value.code == "E_NOINPUT"
    with pytest.raises(OutputError):
        Counts("h").save(tmp_path / "no" / "counts.json")
