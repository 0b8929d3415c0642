"""Parquet outputs: the records of JSON lines, in row groups; what there is after a kill goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdec.core.errors import (
    CdecError,
    DataError,
    FieldError,
    LockedError,
    OutputExistsError,
    ResumeMismatchError,
    UsageError,
)
from cdec.core.record_fields import fields_of
from cdec.data.output import parquet
from cdec.data.output.manifest import manifest_path
from cdec.data.output.parquet import sample_schema, table_of
from cdec.data.output.writer import open_writer, records_path
from cdec.data.prompts.record import BadRecord
from cdec.data.prompts.texts import read_scored

CONFIG = {"seed": 1}
RECORDS: list[dict[str, Any]] = [
    {
        "id": 7 if i % 3 else f"é{i}",
        "index": i,
        "text": "東" * (i % 4) * 30,
        "token_ids": [i, 2],
        "logprob": None if i % 5 == 0 else -0.5 * i,
        "valid": i % 2 == 0,
        "entity_ids": ["a", "b"][: i % 3],
        "input": {"x": [i]},
    }
    for i in range(20)
]
ERROR = {"id": 9, "error": {"code": "E_JSON", "message": "bad", "line": 3}}


def write(path: Path, *records: dict[str, Any], **options: Any) -> Any:
    with open_writer(path, **({"config": CONFIG} | options)) as writer:
        for record in records:
            writer.write(record)
    return writer


def rows(path: Path) -> list[dict[str, Any]]:
    """Return what a file says, as JSON lines would say it."""
    found = []
    for row in pq.read_table(path).to_pylist():
        row = {name: value for name, value in row.items() if value is not None}
        if row.pop("id_is_number"):
            row["id"] = int(row["id"])
        for name in ("input", "details"):
            if name in row:
                row[name] = json.loads(row[name])
        found.append(row)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 6)


def test_parquet_holds_the_records(tmp_path: Path, small_groups: None) -> None:
    path = tmp_path / "o.parquet"
    write(path, *RECORDS, ERROR)
    *samples, error = rows(path)
    assert samples == [without_nulls(record) for record in RECORDS]
    assert error["error"] == {
        "code": "E_JSON",
        "message": "bad",
        "hint": None,
        "details": '{"line":3}',
    }
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 4
    filled = {*RECORDS[0], *RECORDS[1], "id_is_number", "error"}
    assert file.schema_arrow.names == [name for name in sample_schema().names if name in filled]
    assert names(tmp_path) == ["o.parquet", "o.parquet.manifest.json"]


def test_columns_are_the_fields_of_samples(tmp_path: Path) -> None:
    assert set(sample_schema().names) == {*fields_of("sample"), "id_is_number", "error"}
    assert sample_schema(["text", "id"]).names == ["text", "id", "id_is_number", "error"]
    write(tmp_path / "o.parquet", {"id": 1, "text": "a"}, fields=["id", "text"])
    assert pq.read_table(tmp_path / "o.parquet").column_names == [
        "id",
        "id_is_number",
        "text",
        "error",
    ]
    with pytest.raises(FieldError, match="'text'"):
        write(tmp_path / "p.parquet", {"id": 1, "text": "a"}, fields=["id"])
    table = table_of([{"id": "1"}, {"id": 1}], sample_schema(["id"]))
    assert table["id"].to_pylist() == ["1", "1"]
    assert table["id_is_number"].to_pylist() == [False, True]


def test_columns_without_a_value_are_left_out_where_they_were_not_asked_for(
    tmp_path: Path, small_groups: None
) -> None:
    def columns(name: str, *records: dict[str, Any], **options: Any) -> list[str]:
        write(tmp_path / name, *records, **options)
        return pq.read_table(tmp_path / name).column_names

    few, key = RECORDS[:1], ["id", "id_is_number", "index"]
    assert columns("few.parquet", *few) == [*key, *columns_of(few[0]), "error"]
    later = [*RECORDS[:9], RECORDS[9] | {"prefill": "x"}]
    assert "prefill" in columns("later.parquet", *later), "of the second row group alone"
    more = columns("few.parquet", {"id": 1, "index": 0, "prefill": "x"}, resume=True)
    assert {*more} == {*key, *columns_of(few[0]), "prefill", "error"}
    assert columns("asked.parquet", *few, fields=[*few[0], "prefill"])[-2:] == ["prefill", "error"]
    assert columns("part.parquet", *few, is_part=True) == sample_schema().names


def columns_of(record: dict[str, Any]) -> list[str]:
    filled = {name for name, value in record.items() if value is not None}
    return [name for name in fields_of("sample") if name in filled - {"id", "index"}]


def test_an_empty_output_is_an_empty_table(tmp_path: Path) -> None:
    write(tmp_path / "o.pq")
    assert pq.read_table(tmp_path / "o.pq").num_rows == 0


def test_finished_row_groups_can_be_read_while_the_run_goes_on(
    tmp_path: Path, small_groups: None
) -> None:
    path = tmp_path / "o.parquet"
    with open_writer(path, config=CONFIG) as writer:
        for record in RECORDS[:15]:
            writer.write(record)
        assert not path.exists()
        folder = records_path(path)
        assert names(folder) == ["000000.parquet", "000001.parquet", "000002.jsonl"]
        parts = [row for i in range(2) for row in rows(folder / f"00000{i}.parquet")]
        assert parts == [without_nulls(record) for record in RECORDS[:12]]
        left = [json.loads(line) for line in (folder / "000002.jsonl").read_bytes().splitlines()]
        assert left == RECORDS[12:15]


def test_a_finished_file_is_gone_on_with(tmp_path: Path, small_groups: None) -> None:
    path = tmp_path / "o.parquet"
    write(path, *RECORDS[:8], ERROR)
    inode = path.stat().st_ino
    writer = write(path, resume=True)
    assert path.stat().st_ino == inode, "nothing new: nothing is written"
    assert (writer.finished.records, writer.finished.errors) == (9, 1)
    assert writer.finished.missing(7, 9) == [0, 3, 6, 8]
    assert writer.finished.missing("7", 1) == [0]
    assert writer.finished.missing("é3", 5) == [0, 1, 2, 4]
    assert writer.finished.missing(9, 5) == []
    write(path, *RECORDS[8:], resume=True)
    assert [row["index"] for row in rows(path) if "index" in row] == list(range(20))
    assert not records_path(path).exists()


def test_existing_outputs_and_unfinished_ones_are_kept_without_force_or_resume(
    tmp_path: Path, small_groups: None
) -> None:
    path = tmp_path / "o.parquet"
    writer = open_writer(path, config=CONFIG)
    writer.write(RECORDS[0])
    with pytest.raises(LockedError):
        open_writer(path, config=CONFIG, resume=True)
    writer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not path.exists()
    with pytest.raises(OutputExistsError, match="parts"):
        open_writer(path, config=CONFIG)
    with pytest.raises(ResumeMismatchError):
        open_writer(path, config={"seed": 2}, resume=True)
    assert write(path, resume=True).finished.records == 1
    with pytest.raises(OutputExistsError, match="exists"):
        open_writer(path, config=CONFIG)
    write(path, RECORDS[3], force=True, config={"seed": 2})
    assert rows(path) == [without_nulls(RECORDS[3])]
    assert json.loads(manifest_path(path).read_bytes())["config"] == {"seed": 2}


def test_a_run_that_ends_with_an_error_has_an_output(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    with pytest.raises(DataError), open_writer(path, config=CONFIG) as writer:
        writer.write(RECORDS[1])
        raise DataError("bad")
    assert rows(path) == [without_nulls(RECORDS[1])]


def test_what_is_no_output_of_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    write(path)
    path.write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(DataError):
        open_writer(path, config=CONFIG, resume=True)
    pq.write_table(pa.table({"id": ["a"]}), path)
    with pytest.raises(FieldError, match="resumed"):
        open_writer(path, config=CONFIG, resume=True)
    assert not records_path(path).exists()
    for url in ("s3://bucket/o.parquet", Path("s3://bucket/o.jsonl")):
        with pytest.raises(UsageError, match="URL"):
            open_writer(url)
    with pytest.raises(UsageError, match="regular"):
        open_writer(tmp_path.joinpath("d.parquet").mkdir() or tmp_path / "d.parquet")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("text", pa.array([1]), "column 'text' of int64; samples have one of string"),
        ("foreign", pa.array(["x"]), "column 'foreign' of string; samples have none"),
        ("index", pa.array([None], pa.int64()), "the index None"),
        ("index", pa.array([-1], pa.int64()), "the index -1"),
        ("id", pa.array([None], pa.string()), "the id None"),
        ("id_is_number", pa.array([True]), "the id 'x'"),
    ],
)
def test_rows_that_no_run_wrote_are_told_before_the_run(
    tmp_path: Path, name: str, values: Any, said: str
) -> None:
    path = tmp_path / "o.parquet"
    with open_writer(path, config={}) as writer:
        writer.write({"id": "x", "index": 0, "text": "y"})
    table = pq.ParquetFile(path).read()
    if name in table.column_names:
        table = table.drop_columns([name])
    pq.write_table(table.append_column(name, values), path)
    before = path.read_bytes()
    with pytest.raises(FieldError, match=said):
        open_writer(path, config={}, resume=True)
    assert path.read_bytes() == before


def test_samples_in_parquet_are_read_to_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    write(path, *RECORDS[:3], ERROR)
    *samples, error = read_scored(path)
    assert [(s.id, s.index, s.token_ids) for s in samples if not isinstance(s, BadRecord)] == [
        (record["id"], record["index"], tuple(record["token_ids"])) for record in RECORDS[:3]
    ]
    assert isinstance(error, BadRecord)
    assert error.id == 9


def test_a_folder_of_parts_that_no_run_left_is_not_emptied(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    folder = records_path(path)
    folder.mkdir()
    (folder / "000000.parquet").write_bytes(b"precious")
    with pytest.raises(OutputExistsError, match=r"no o\.parquet\.manifest\.json says"):
        open_writer(path, config=CONFIG, force=True)
    assert (folder / "000000.parquet").read_bytes() == b"precious"
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    manifest_path(path).write_text("{}")
    for options in ({"force": True}, {"resume": True}):
        with pytest.raises(CdecError):
            open_writer(path, config=CONFIG, **options)
    assert (elsewhere / "000000.parquet").read_bytes() == b"precious"
