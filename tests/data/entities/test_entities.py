"""Entity lists from lines, JSON and tables."""

from __future__ import annotations

import gzip
import io
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import (
    CdecError,
    DataError,
    EncodingError,
    FieldError,
    InputMissingError,
    JsonError,
    LimitError,
    LineTooLongError,
    UsageError,
)
from cdec.data.entities.source import read_entities, read_token_rows
from cdec.data.input.source import InputLimits, SourceStats
from tests.data.entities.entity_files import codes, entities, file_of, parquet_of

pytestmark = pytest.mark.usefixtures("kept_tables")

# --- Readers of entities: all formats give the same batches; bad lines are named or counted.

# Text


def test_text_lines_are_entities_with_their_line_numbers() -> None:
    found, stats = entities(io.BytesIO(b"a\n\n b \nc"))
    assert found == [("a", 1, None), ("", 2, None), (" b ", 3, None), ("c", 4, None)]
    assert (stats.lines, stats.blank, stats.skipped, stats.bytes_read) == (4, 1, 0, 8)


def test_only_newlines_end_a_text_entity() -> None:
    text = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg\n"
    assert entities(io.BytesIO(text.encode()))[0] == [(text[:-1], 1, None)]


def test_crlf_is_stripped_and_noticed_once(tmp_path: Path) -> None:
    found, stats = entities(io.BytesIO(b"alpha\r\nbeta\r\n" * 200_000))
    assert {text for text, _, _ in found} == {"alpha", "beta"}
    assert codes(stats) == ["W_CRLF"]


def test_line_numbers_and_offsets_go_on_across_blocks() -> None:
    data = b"".join(b"entity %d\n" % i for i in range(300_000))
    batches = list(read_entities(io.BytesIO(data)))
    assert len(batches) > 2
    assert [line for batch in batches for line in batch.lines] == list(range(1, 300_001))
    for batch in batches:
        assert data[batch.byte_offset :].startswith(batch.texts[0].encode() + b"\n")


def test_bad_encoding_names_line_and_byte_or_is_skipped() -> None:
    data = b"alpha\n" * 200_000 + b"b\xff\xfea\n gamma\n"
    with pytest.raises(EncodingError) as caught:
        entities(io.BytesIO(data))
    assert caught.value.details == {"line": 200_001, "byte_offset": 1_200_002}
    found, stats = entities(io.BytesIO(data), bad_lines="skip")
    assert found[-1] == (" gamma", 200_002, None)
    assert (len(found), stats.skipped, codes(stats)) == (200_001, 1, ["W_BAD_LINES"])


def test_overlong_line_is_refused_or_skipped() -> None:
    limits = InputLimits(max_line_bytes=10)
    with pytest.raises(LineTooLongError) as caught:
        entities(io.BytesIO(b"a\n" + b"b" * 11 + b"\nc\n"), limits=limits)
    assert caught.value.details["line"] == 2
    found, stats = entities(
        io.BytesIO(b"a\n" + b"b" * 11 + b"\nc\n"), limits=limits, bad_lines="skip"
    )
    assert found == [("a", 1, None), ("c", 3, None)]
    assert stats.skipped == 1


@pytest.mark.parametrize(
    ("data", "noticed"),
    [
        (b"id,name\n1,Paris\n", True),
        (b"id\tname\n1\tParis\n", True),
        (b"Paris, Texas\nParis, Ontario\n", False),
        (b"a,b\n", False),
        (b"x,y\nPlain title\n", False),
        (b"alpha\nbeta\n", False),
    ],
)
def test_tables_taken_for_text_are_noticed(data: bytes, noticed: bool) -> None:
    found, stats = entities(io.BytesIO(data))
    assert len(found) == data.count(b"\n")
    assert codes(stats) == (["W_LOOKS_LIKE_CSV"] if noticed else [])


# Formats


def test_every_format_gives_the_same_entities(tmp_path: Path) -> None:
    texts, ids = ["Paris", "New\tYork", "Zürich", "東京", 'a"b'], ["Q1", "Q2", "Q3", "4", "Q5"]
    records = "".join(
        f'{{"key": {id if id.isdigit() else chr(34) + id + chr(34)}, '
        f'"name": "{text.replace(chr(34), chr(92) + chr(34)).replace(chr(9), chr(92) + "t")}"}}\n'
        for text, id in zip(texts, ids, strict=True)
    )
    quoted = [text.replace('"', '""') for text in texts]
    table = "key,name\n" + "".join(f'{i},"{t}"\n' for t, i in zip(quoted, ids, strict=True))
    sources = [
        file_of(tmp_path, "a.jsonl", records.encode()),
        file_of(tmp_path, "b.jsonl.gz", gzip.compress(records.encode())),
        file_of(tmp_path, "c.CSV", table.encode()),
        file_of(tmp_path, "d.csv.xz", lzma.compress(table.encode())),
        parquet_of(tmp_path, key=ids, name=texts),
    ]
    for source in sources:
        found, stats = entities(source, field="name", id_field="key")
        assert [(text, id) for text, _, id in found] == list(zip(texts, ids, strict=True)), source
        assert (stats.lines, stats.skipped, stats.bytes_read) == (5, 0, source.stat().st_size)


def test_format_option_overrides_the_extension(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.jsonl", b'{"text": "x"}\n')
    assert entities(path)[0] == [("x", 1, None)]
    assert entities(path, format="text")[0] == [('{"text": "x"}', 1, None)]


def test_a_field_without_an_extension_means_jsonl(tmp_path: Path) -> None:
    assert entities(io.BytesIO(b'{"name": "x"}\n'), field="name")[0] == [("x", 1, None)]
    with pytest.raises(UsageError, match="no field 'name'"):
        read_entities(io.BytesIO(b""), format="text", field="name")


def test_missing_file_is_an_input_error_in_every_format(tmp_path: Path) -> None:
    for name in ("x.txt", "x.jsonl", "x.csv", "x.parquet"):
        with pytest.raises(InputMissingError):
            entities(tmp_path / name)


# JSON lines


def test_jsonl_ids_that_are_integers_become_decimal_text() -> None:
    data = b'{"text": "a", "id": 7}\n\n{"text": "b", "id": "x"}\n'
    found, stats = entities(io.BytesIO(data), format="jsonl", id_field="id")
    assert found == [("a", 1, "7"), ("b", 3, "x")]
    assert (stats.lines, stats.blank) == (3, 1)


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        (b'{"name": "a"}', FieldError, "its fields are 'name'"),
        (b'{"text": 5}', FieldError, "an integer"),
        (b'{"text": null}', FieldError, "null"),
        (b'{"text": "a", "id": 1.5}', FieldError, "a float"),
        (b'{"text": "a", "id": 1180591620717411303424}', FieldError, "64 bits"),
        (b'{"text": "a"}', FieldError, "no field 'id'"),
        (b'{"text": "a", "text": "b", "id": 1}', JsonError, "twice"),
        (b'{"text": "a", "id": NaN}', JsonError, "line 2"),
        (b'["a"]', JsonError, "is an array"),
        (b'{"text": "\\ud800", "id": 1}', JsonError, "surrogate"),
        (b'{"text": "\xff", "id": 1}', EncodingError, "0xff"),
        (b"{oops", JsonError, "character"),
    ],
)
def test_bad_jsonl_line_is_named_or_skipped(line: bytes, error: type[CdecError], says: str) -> None:
    data = b'{"text": "good", "id": 0}\n' + line + b'\n{"text": "fine", "id": 2}\n'
    with pytest.raises(error, match=says) as caught:
        entities(io.BytesIO(data), format="jsonl", id_field="id")
    assert caught.value.details["line"] == 2
    found, stats = entities(io.BytesIO(data), format="jsonl", id_field="id", bad_lines="skip")
    assert found == [("good", 1, "0"), ("fine", 3, "2")]
    assert (stats.lines, stats.skipped) == (3, 1)


# Token ids


def test_token_rows_are_arrays_of_ids() -> None:
    stats = SourceStats()
    batches = list(read_token_rows(io.BytesIO(b"[5, 17]\n\n[]\n[5]\n"), stats=stats))
    assert [row for batch in batches for row in batch.rows] == [[5, 17], [], [5]]
    assert [line for batch in batches for line in batch.lines] == [1, 3, 4]
    assert (stats.lines, stats.blank) == (4, 1)


@pytest.mark.parametrize("line", [b"[1, true]", b"[-1]", b"[1.0]", b'{"a": 1}', b"7", b"[1", b"x"])
def test_bad_token_row_is_named_or_skipped(line: bytes) -> None:
    data = b"[1]\n" + line + b"\n[2]\n"
    with pytest.raises(DataError) as caught:
        list(read_token_rows(io.BytesIO(data)))
    assert caught.value.details["line"] == 2
    stats = SourceStats()
    batches = list(read_token_rows(io.BytesIO(data), bad_lines="skip", stats=stats))
    assert [row for batch in batches for row in batch.rows] == [[1], [2]]
    assert stats.skipped == 1


# --- CSV and Parquet: columns by name, rows by number, bad cells named or counted.

# CSV


def test_csv_cells_may_hold_newlines_and_rows_are_numbered_by_their_first_line() -> None:
    data = b'\xef\xbb\xbfid,text\r\n1,"x\ny"\r\n2,\r\n'
    found, stats = entities(io.BytesIO(data), format="csv", id_field="id")
    assert found == [("x\ny", 2, "1"), ("", 4, "2")]
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


@pytest.mark.slow
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
    bomb = gzip.compress(b"text\n") + gzip.compress((b"a" * 999 + b"\n") * 10_000) * 10
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


@pytest.mark.share(2)
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
