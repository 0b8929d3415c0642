"""Frames in, frames out: the rows of pandas and polars are records, their samples are rows."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pytest

from cdec.core import load_model
from cdec.core.errors import DuplicateIdError, UsageError
from cdec.core.record_fields import fields_of
from cdec.integrations.frames import sample
from cdec.integrations.records import sample_records

LIBRARIES = ("pandas", "polars")
COLUMNS: dict[str, list[Any]] = {
    "id": ["a", "b", "c", "d"],
    "prompt": ["The capital of France is", "The capital of Italy is", "x", None],
    "n": [2, None, 1, None],
    "candidates": [None, ["Oslo", "Rome"], None, None],
    "gold": ["Paris", "Rome", None, "?"],
}
RECORDS = [
    {name: cells[i] for name, cells in COLUMNS.items() if cells[i] is not None} for i in range(4)
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model, a set of cities in its tokens and a method."""
    from cdec.compilers import compile_set

    model = load_model("embedded")
    path: Path = tmp_path_factory.mktemp("frames") / "cities.arrow"
    compile_set(["Paris", "Rome", "Oslo", "New York"], model.vocabulary, path)
    return {"model": model, "artifact": path, "method": "masked", "seed": 3}


def frame_of(library: str, columns: dict[str, list[Any]]) -> Any:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return module.DataFrame(columns)


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of samples, empty cells left out."""
    is_pandas = type(frame).__module__.startswith("pandas")
    rows = frame.astype(object).to_dict("records") if is_pandas else frame.to_dicts()
    return [{name: cell for name, cell in row.items() if is_there(cell)} for row in rows]


def is_there(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell
    return cell is not None and not is_nan and type(cell).__name__ != "NAType"


def without_empty(value: Any) -> Any:
    """Return a record without null fields: a struct of polars has all fields of its column."""
    if isinstance(value, dict):
        return {name: without_empty(item) for name, item in value.items() if is_there(item)}
    return value


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_of_samples_holds_what_the_records_get(
    settings: dict[str, Any], library: str
) -> None:
    frame = frame_of(library, COLUMNS)
    found = sample(frame, **settings)
    assert type(found) is type(frame)
    expected = [without_empty(record) for record in sample_records(RECORDS, **settings)]
    assert [without_empty(row) for row in rows_of(found)] == expected
    assert [row["id"] for row in rows_of(found)] == ["a", "a", "b", "c", "d"]
    assert [row.get("error", {}).get("code") for row in rows_of(found)][3:] == [None, "E_FIELD"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_stay_whole_beside_empty_cells(settings: dict[str, Any], library: str) -> None:
    columns = {"id": [1, 2, 3], "prompt": ["x", None, "y"], "seed": [5, 6, None]}
    found = sample(frame_of(library, columns), **settings)
    records = [{"id": 1, "prompt": "x", "seed": 5}, {"id": 2, "seed": 6}, {"id": 3, "prompt": "y"}]
    expected = list(sample_records(records, **settings))
    drawn = [record for record in expected if "error" not in record]
    rows = [row for row in rows_of(found) if "error" not in row]
    assert [(row["id"], row["seed"], row["text"]) for row in rows] == [
        (record["id"], record["seed"], record["text"]) for record in drawn
    ]
    assert all(type(row["seed"]) is int for row in rows)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_without_rows_gives_one(settings: dict[str, Any], library: str) -> None:
    found = sample(frame_of(library, {"prompt": []}), **settings)
    assert len(found) == 0
    assert tuple(found.columns) == fields_of("sample")
    some = sample(frame_of(library, {"prompt": []}), **settings, fields=["id", "text"])
    assert list(some.columns) == ["id", "text"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_decimals_and_bytes_are_the_texts_that_a_table_gives(
    settings: dict[str, Any], library: str
) -> None:
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    columns: dict[str, list[Any]] = {
        "id": ["a", "b", "c"],
        "prompt": ["x", b"y", "z"] if library == "pandas" else ["x", "y", "z"],
        "when": [when, None, when],
        "day": [when.date(), None, None],
        "took": [datetime.timedelta(days=1), None, None],
        "price": [decimal.Decimal("1.50"), decimal.Decimal("NaN"), None]
        if library == "pandas"
        else [decimal.Decimal("1.50"), None, None],
        "raw": ["é".encode(), None, b"\xff"],
    }
    rows = rows_of(sample(frame_of(library, columns), **settings))
    assert [row["id"] for row in rows[:2]] == ["a", "b"]
    told = {"when": "2024-05-06T07:08:09", "day": "2024-05-06", "price": "1.50", "raw": "é"}
    assert {name: rows[0]["input"][name] for name in told} == told
    assert rows[0]["input"]["took"].startswith("1 day")
    assert [name for name, cell in (rows[1].get("input") or {}).items() if is_there(cell)] == []
    assert rows[2]["error"]["code"] == "E_FIELD", "bytes that are no text"


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_id_in_two_rows_is_refused_before_a_model_loads(library: str) -> None:
    twice = frame_of(library, {"id": ["a", "a"], "prompt": ["x", "y"]})
    with pytest.raises(DuplicateIdError, match="line 2 has the id 'a' of line 1"):
        sample(twice, "no/such/model")


def test_what_is_no_frame_is_refused(settings: dict[str, Any]) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(UsageError, match="is a list"):
        sample([{"prompt": "x"}], **settings)
    with pytest.raises(UsageError, match="LazyFrame"):
        sample(polars.LazyFrame({"prompt": ["x"]}), **settings)
    with pytest.raises(UsageError, match="two columns"):
        sample(pandas.DataFrame([["x", "y"]], columns=["prompt", "prompt"]), **settings)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_lines_of_a_trace_come_as_those_of_records_do(
    library: str, settings: dict[str, Any]
) -> None:
    lines: list[list[Any]] = [[], []]
    sample(frame_of(library, COLUMNS), **settings, trace=lines[0].append)
    list(sample_records(RECORDS, **settings, trace=lines[1].append))
    untimed = [[{**line, "seconds": 0} for line in some] for some in lines]
    assert untimed[0] == untimed[1] and untimed[0]
