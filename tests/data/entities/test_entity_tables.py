"""CSV and Parquet: columns by name, rows by number, bad cells named or counted."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import (
    DataError,
    EncodingError,
    FieldError,
    LimitError,
    LineTooLongError,
    UsageError,
)
from cdec.data.input.source import InputLimits
from tests.data.entities.entity_files import entities, file_of, parquet_of

# CSV


def test_csv_cells_may_hold_newlines_and_rows_are_numbered_from_the_header() -> None:
    data = b'\xef\xbb\xbfid,text\r\n1,"x\ny"\r\n2,\r\n'
    found, stats = entities(io.BytesIO(data), format="csv", id_field="id")
    assert found == [("x\ny", 2, "1"), ("", 3, "2")]
    assert (stats.lines, stats.blank) == (2, 1)


def test_tsv_is_separated_by_tabs(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.tsv.gz", gzip.compress(b"id\ttext\n1\ta,b\n"))
    assert entities(path, id_field="id")[0] == [("a,b", 2, "1")]


def test_bad_csv_rows_are_named_or_skipped() -> None:
    data = b"id,text\n1,a\nlonely\n3,\xff\n4,d\n"
    with pytest.raises(DataError) as caught:
        entities(io.BytesIO(data), format="csv")
    assert caught.value.details["line"] == 3
    with pytest.raises(EncodingError) as bad_cell:
        entities(io.BytesIO(data.replace(b"lonely", b"2,b")), format="csv")
    assert bad_cell.value.details["line"] == 4
    found, stats = entities(io.BytesIO(data), format="csv", bad_lines="skip", id_field="id")
    assert found == [("a", 2, "1"), ("d", 5, "4")]
    assert (stats.lines, stats.skipped) == (4, 2)


def test_csv_column_must_exist_once() -> None:
    with pytest.raises(FieldError, match="its columns are 'id', 'name'"):
        entities(io.BytesIO(b"id,name\n1,a\n"), format="csv")
    with pytest.raises(FieldError, match="2 columns 'text'"):
        entities(io.BytesIO(b"text,text\n1,a\n"), format="csv")
    assert entities(io.BytesIO(b""), format="csv")[0] == []
    assert entities(io.BytesIO(b"text\n"), format="csv")[0] == []


def test_csv_rows_and_cells_have_a_limit(tmp_path: Path) -> None:
    limits = InputLimits(max_line_bytes=10)
    with pytest.raises(LineTooLongError) as caught:
        entities(io.BytesIO(b"text\nshort\n" + b"x" * 11 + b"\n"), format="csv", limits=limits)
    assert caught.value.details["line"] == 3
    with pytest.raises(LineTooLongError):
        entities(io.BytesIO(b"a" * 3_000_000), format="csv")
    with pytest.raises(LineTooLongError):
        entities(io.BytesIO(b'text\nq\n"' + b"a\n" * 3_000_000), format="csv")


def test_errors_of_the_source_reach_the_reader_of_a_csv() -> None:
    bomb = gzip.compress(b"text\n") + gzip.compress(b"a\n" * 5_000_000) * 10
    with pytest.raises(LimitError):
        entities(io.BytesIO(bomb), format="csv")


def test_large_csv_keeps_order_and_numbers() -> None:
    data = b"text,n\n" + b"".join(b"entity %d,%d\n" % (i, i) for i in range(120_000))
    found, _ = entities(io.BytesIO(data), format="csv", id_field="n")
    assert found == [(f"entity {i}", i + 2, str(i)) for i in range(120_000)]


# Parquet


def test_parquet_reads_only_the_columns_asked_for(tmp_path: Path) -> None:
    path = parquet_of(
        tmp_path,
        key=pa.array([1, 2, 3], pa.int32()),
        other=[[1], [2], [3]],
        text=pa.array(["a", "b", "a"]).dictionary_encode(),
    )
    found, _ = entities(path, id_field="key")
    assert found == [("a", 1, "1"), ("b", 2, "2"), ("a", 3, "3")]


def test_parquet_nulls_and_bad_utf8_are_named_or_skipped(tmp_path: Path) -> None:
    path = parquet_of(tmp_path, text=pa.array([b"a", None, b"\xff", b"d"], pa.binary()))
    with pytest.raises(FieldError) as caught:
        entities(path)
    assert caught.value.details["line"] == 2
    found, stats = entities(path, bad_lines="skip")
    assert found == [("a", 1, None), ("d", 4, None)]
    assert stats.skipped == 2


def test_parquet_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Parquet"):
        entities(file_of(tmp_path, "x.parquet", b"hello" * 100))
    with pytest.raises(DataError, match="Parquet"):
        entities(io.BytesIO(b""), format="parquet")
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe, pytest.raises(UsageError, match="file's end"):
        entities(pipe, format="parquet")
    with pytest.raises(FieldError, match="holds double"):
        entities(parquet_of(tmp_path, text=[1.5]))
    with pytest.raises(LimitError):
        entities(parquet_of(tmp_path, text=["x" * 1000]), limits=InputLimits(max_input_bytes=100))


def arrow_of(folder: Path, table: pa.Table, *, stream: bool, packed: str | None = None) -> Path:
    path = folder / "x.arrow"
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=packed)
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("packed", [None, "zstd"])
def test_arrow_is_read_by_column(tmp_path: Path, stream: bool, packed: str | None) -> None:
    table = pa.table(
        {
            "name": pa.array(["é", "b", "b"]).dictionary_encode(),
            "id": [7, 8, 9],
            "view": pa.array(["x", "", "z"], pa.string_view()),
        }
    )
    path = arrow_of(tmp_path, table, stream=stream, packed=packed)
    expected = [("é", 1, "7"), ("b", 2, "8"), ("b", 3, "9")]
    assert entities(path, field="name", id_field="id")[0] == expected
    found, stats = entities(path, field="view")
    assert found == [("x", 1, None), ("", 2, None), ("z", 3, None)]
    assert (stats.lines, stats.blank) == (3, 1)
    assert stats.bytes_read == path.stat().st_size
    with pytest.raises(FieldError, match="no column 'text'"):
        entities(path)
    with pytest.raises(FieldError, match="holds int64"):
        entities(path, field="id")


def test_bad_rows_of_arrow_are_errors_or_skipped(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array([b"a", None, b"\xff", b"d"], pa.binary())})
    path = arrow_of(tmp_path, table, stream=False)
    with pytest.raises(FieldError) as caught:
        entities(path)
    assert caught.value.details["line"] == 2
    found, stats = entities(path, bad_lines="skip")
    assert found == [("a", 1, None), ("d", 4, None)]
    assert stats.skipped == 2
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="ends early"):
        entities(path, bad_lines="skip")


def test_a_saved_dataset_is_a_list_of_entities(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pa.table({"text": ["a", "b", "c"]})
    for number, part in enumerate((table.slice(0, 1), table.slice(1))):
        arrow_of(folder, part, stream=True).rename(folder / f"data-{number}.arrow")
    listed = ",".join(f'{{"filename": "data-{number}.arrow"}}' for number in range(2))
    (folder / "state.json").write_text(f'{{"_data_files": [{listed}]}}')
    assert entities(folder)[0] == [("a", 1, None), ("b", 2, None), ("c", 3, None)]
