"""Prompts from Parquet, Arrow, CSV and saved datasets: the records of the same JSON lines."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cdec.core.errors import (
    CdecError,
    DataError,
    DuplicateIdError,
    FieldError,
    InputMissingError,
    LimitError,
    LineTooLongError,
    UsageError,
)
from cdec.data.input.source import InputLimits, SourceStats
from cdec.data.prompts.read import BadRecord, PromptRecord, read_prompts
from cdec.data.prompts.templates import PromptTemplate
from cdec.data.prompts.texts import read_scored, read_texts
from tests.data.input.packed import KINDS, pack
from tests.laws.sizes import heavy_or

pytestmark = pytest.mark.usefixtures("kept_tables")

RECORDS: list[dict[str, Any]] = [
    {"id": "é1", "prompt": "Where?\nThere.", "n": 3, "temperature": 0.5},
    {"prompt": "Who?", "seed": 7, "country": "Perú"},
    {"id": "c", "messages": [{"role": "user", "content": "Hi"}], "candidates": ["a", "b"]},
    {"prompt": "", "max_tokens": 4, "country": "Chad"},
    {"prompt": "Who?", "seed": 7, "country": "Perú"},
]
FORMATS = ("parquet", "arrow", "arrows", "lz4.arrow", "csv", "tsv", "dataset")


def table_of(records: list[dict[str, Any]]) -> pa.Table:
    names = {name: None for record in records for name in record}
    return pa.table({name: [record.get(name) for record in records] for name in names})


def jsonl(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def write_arrow(path: Path, table: pa.Table, *, stream: bool, packed: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=packed)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=2)


def write_csv(path: Path, records: list[dict[str, Any]], separator: str) -> None:
    import csv

    names = list({name: None for record in records for name in record})
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(names)
        for record in records:
            cells = [record.get(name, "") for name in names]
            writer.writerow(cell if isinstance(cell, str) else json.dumps(cell) for cell in cells)


def write_dataset(folder: Path, table: pa.Table, **state: Any) -> None:
    """Write what ``Dataset.save_to_disk`` writes: streams, and which they are."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-00002.arrow" for i in range(2)]
    write_arrow(folder / names[0], table.slice(0, 2), stream=True)
    write_arrow(folder / names[1], table.slice(2), stream=True)
    listed = {"_data_files": [{"filename": name} for name in names], "_format_columns": None}
    (folder / "state.json").write_text(json.dumps(listed | state))
    (folder / "dataset_info.json").write_text("{}")


def write(folder: Path, kind: str, records: list[dict[str, Any]] = RECORDS) -> Path:
    path, table = folder / f"prompts.{kind}", table_of(records)
    if kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=2)
    elif kind in ("csv", "tsv"):
        write_csv(path, records, "," if kind == "csv" else "\t")
    elif kind == "dataset":
        write_dataset(path, table)
    else:
        write_arrow(path, table, stream=kind == "arrows", packed="lz4" if "lz4" in kind else None)
    return path


def records(source: Any, **options: Any) -> list[PromptRecord | BadRecord]:
    return list(read_prompts(source, **options))


def said(record: PromptRecord | BadRecord) -> dict[str, Any]:
    """What a record says, wherever it stands."""
    assert isinstance(record, PromptRecord), record.error
    return {name: getattr(record, name) for name in record.__slots__ if name != "line"}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_gives_the_records_and_ids_of_the_same_json_lines(
    tmp_path: Path, kind: str
) -> None:
    # A CSV has no nulls: what is no field of a record is an empty text there.
    filled = [{"country": "", **record} for record in RECORDS] if kind[1:] == "sv" else RECORDS
    expected = [said(record) for record in records(io.BytesIO(jsonl(filled)))]
    path = write(tmp_path, kind, filled)
    found = records(path)
    assert [said(record) for record in found] == expected
    if kind[1:] != "sv":
        assert [record.line for record in found] == [1, 2, 3, 4, 5]
    assert [said(record) for record in records(str(path))] == expected


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "csv"])
def test_tables_come_from_streams_and_redirected_files(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"}])
    form: Any = {"format": "csv"} if kind == "csv" else {}
    with path.open("rb") as stream:
        assert [record.line for record in records(stream, **form)] == (
            [2, 3] if kind == "csv" else [1, 2]
        )
    assert len(records(io.BytesIO(path.read_bytes()), **form)) == 2


@pytest.mark.parametrize("kind", ["arrow", "arrows", "csv"])
@pytest.mark.parametrize("packing", KINDS)
def test_tables_may_be_compressed(tmp_path: Path, kind: str, packing: str) -> None:
    path = write(tmp_path, kind, [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"}])
    suffix = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst"}.get(packing, packing)
    packed = tmp_path / f"{path.name}.{suffix}"
    packed.write_bytes(pack(packing, path.read_bytes()))
    assert [record.id for record in records(packed)] == (["1", "2"] if kind == "csv" else [1, 2])


def test_parquet_from_a_pipe_or_compressed_is_refused_with_a_way_out(tmp_path: Path) -> None:
    data = write(tmp_path, "parquet").read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    feeder = threading.Thread(target=fifo.write_bytes, args=(data,))
    feeder.start()
    with pytest.raises(UsageError, match="the file's end"):
        records(fifo)
    feeder.join()
    (tmp_path / "p.parquet.gz").write_bytes(gzip.compress(data))
    with pytest.raises(DataError, match="compressed Parquet"):
        records(tmp_path / "p.parquet.gz")


def test_text_that_begins_like_a_table_stays_text() -> None:
    assert [
        said(record)["prompt"] for record in records(io.BytesIO(b"PAR1 is a magic\nARROW1\n"))
    ] == [
        "PAR1 is a magic",
        "ARROW1",
    ]


# Bad rows


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "dataset"])
def test_a_bad_row_is_one_error_record_in_its_place(tmp_path: Path, kind: str) -> None:
    prompts = pa.array([b"a", b"\xff", b"c", b"d" * 60, b"e"], pa.binary())
    table = pa.table({"id": [1, 2, 3, 4, 5], "prompt": prompts, "n": [1, 1, 0, 1, 1]})
    path = tmp_path / f"bad.{kind}"
    if kind == "parquet":
        pa.parquet.write_table(table, path)
    elif kind == "dataset":
        write_dataset(path, table)
    else:
        write_arrow(path, table, stream=kind == "arrows")
    found = records(path, limits=InputLimits(max_line_bytes=60))
    codes = [record.error.code if isinstance(record, BadRecord) else "" for record in found]
    assert codes == ["", "E_ENCODING", "E_FIELD", "E_LINE_TOO_LONG", ""]
    for record in found:
        if isinstance(record, BadRecord):
            assert record.error.details["line"] == record.line
            assert f"row {record.line}" in record.error.message
            assert record.error.hint
    assert len({record.id for record in found}) == 5


def test_bad_rows_of_a_csv_are_error_records_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(
        b'id,prompt,n\n1,"two\nlines",2\n2,a\n\n3,\xff,1\n4,"a"b,1\n5,ok,x\n6,'
        + b"y" * 70
        + b',1\n7,"'
        + b"z\n" * 40
        + b'",1\n8,last,\n'
    )
    found = records(path, limits=InputLimits(max_line_bytes=60))
    lines = {record.line: record for record in found}
    codes = {
        line: record.error.code if isinstance(record, BadRecord) else ""
        for line, record in lines.items()
    }
    assert {line: codes[line] for line in (2, 4, 6, 7, 8, 9, 10)} == {
        2: "",
        4: "E_DATA",
        6: "E_ENCODING",
        7: "E_DATA",
        8: "E_FIELD",
        9: "E_LINE_TOO_LONG",
        10: "E_LINE_TOO_LONG",
    }
    assert len(found) == 8
    assert said(lines[2])["prompt"] == "two\nlines"
    assert found[-1].id == "8"


def test_a_line_beyond_the_limit_within_quotes_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b'prompt\na\n"b\n' + b"y" * 70 + b'"\nc\n')
    found = read_prompts(path, limits=InputLimits(max_line_bytes=60))
    with pytest.raises(LineTooLongError):
        list(found)


def test_an_unclosed_quote_is_an_error_and_rows_before_it_are_there(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b'id,prompt\n1,a\n2,"b\n3,c\n')
    first, second = records(path)
    assert isinstance(first, PromptRecord)
    assert isinstance(second, BadRecord)
    assert second.line == 3


def test_errors_of_a_whole_table_name_the_column(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["prompt", "prompt"])
    write_arrow(tmp_path / "a.arrow", twice, stream=False)
    with pytest.raises(FieldError, match="2 columns 'prompt'"):
        records(tmp_path / "a.arrow")
    (tmp_path / "a.csv").write_bytes(b"prompt,prompt\na,b\n")
    with pytest.raises(FieldError, match="2 columns 'prompt'"):
        records(tmp_path / "a.csv")


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "dataset", "csv"])
def test_duplicate_ids_of_a_table_are_found_before_the_first_record(
    tmp_path: Path, kind: str
) -> None:
    path = write(tmp_path, kind, [{"id": i, "prompt": "a"} for i in (1, 2, 3, 1)])
    with pytest.raises(DuplicateIdError) as caught:
        next(read_prompts(path))
    assert caught.value.details["line"] == (5 if kind == "csv" else 4)


def test_values_that_json_lacks_become_texts(tmp_path: Path) -> None:
    import datetime
    import decimal

    table = pa.table(
        {
            "prompt": ["a"],
            "when": pa.array([1], pa.timestamp("ns", "UTC")),
            "day": pa.array([datetime.date(2020, 1, 2)]),
            "sum": pa.array([decimal.Decimal("1.50")]),
            "share": pa.array([float("nan")]),
            "pairs": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "deep": pa.array([{"x": None, "y": [{"z": "é"}]}]),
            "kind": pa.array(["b"]).dictionary_encode(),
            "view": pa.array(["c"], pa.string_view()),
        }
    )
    write_arrow(tmp_path / "a.arrow", table, stream=False)
    (record,) = records(tmp_path / "a.arrow")
    assert said(record)["input"] == {
        "when": "1970-01-01 00:00:00.000000001Z",
        "day": "2020-01-02",
        "sum": "1.50",
        "pairs": {"k": 1},
        "deep": {"y": [{"z": "é"}]},
        "kind": "b",
        "view": "c",
    }


def test_a_template_is_filled_from_rows_and_its_error_names_the_row(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", [{"country": "Chad"}, {"id": 2}])
    template = PromptTemplate.parse("Capital of {country}?")
    first, second = records(path, template=template)
    assert said(first)["prompt"] == "Capital of Chad?"
    assert isinstance(second, BadRecord)
    assert second.error.message.startswith("row 2: ")


# Limits, damage


@pytest.mark.parametrize("packed", ["lz4", "zstd"])
def test_a_bomb_inside_an_arrow_file_is_refused_before_it_expands(
    tmp_path: Path, packed: str
) -> None:
    table = pa.table({"prompt": ["a" * 30_000_000]})
    write_arrow(tmp_path / "a.arrow", table, stream=True, packed=packed)
    with pytest.raises(LimitError) as caught:
        records(tmp_path / "a.arrow", limits=InputLimits(max_line_bytes=1 << 30))
    assert caught.value.details["limit"] == "max_expansion 200"


def test_a_bomb_inside_a_parquet_file_is_refused_before_it_expands(tmp_path: Path) -> None:
    table = pa.table({"prompt": ["a" * 30_000_000]})
    pa.parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(LimitError) as caught:
        records(tmp_path / "a.parquet", limits=InputLimits(max_line_bytes=1 << 30))
    assert caught.value.details["limit"] == "max_expansion 200"


@pytest.mark.parametrize("kind", ["arrow", "arrows", "lz4.arrow"])
def test_an_arrow_file_cut_at_any_byte_never_gives_what_it_does_not_hold(
    tmp_path: Path, kind: str
) -> None:
    whole = write(tmp_path, kind).read_bytes()
    expected = [record.id for record in records(io.BytesIO(whole))]
    for length in range(9, len(whole), heavy_or(397, 7)):
        found: list[Any] = []
        try:
            for record in read_prompts(io.BytesIO(whole[:length])):
                found.append(record.id)
        except DataError:
            pass
        else:
            # Only a stream may end between two batches, without a mark.
            assert kind == "arrows", length
        assert found == expected[: len(found)]


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["arrow", "arrows", "lz4.arrow", "parquet"])
def test_a_damaged_table_is_an_error_and_nothing_worse(tmp_path: Path, kind: str) -> None:
    import numpy as np

    whole = bytearray(write(tmp_path, kind).read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(heavy_or(6, 150)):
        data = bytearray(whole)
        for at in rng.integers(8, len(data), int(rng.integers(1, 4))):
            data[at] = int(rng.integers(256))
        with suppress(CdecError):
            records(io.BytesIO(bytes(data)))


# Saved datasets


def test_splits_are_listed_where_one_must_be_named(tmp_path: Path) -> None:
    write_dataset(tmp_path / "both" / "train", table_of(RECORDS))
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InputMissingError, match="splits train, test") as caught:
        records(tmp_path / "both")
    assert str(tmp_path / "both" / "train") in str(caught.value.hint)
    assert len(records(tmp_path / "both" / "train")) == len(RECORDS)


def test_a_saved_dataset_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    write_arrow(tmp_path / "secret.arrow", table_of(RECORDS), stream=True)
    state = {"_data_files": [{"filename": "../secret.arrow"}]}
    write_dataset(tmp_path / "d", table_of(RECORDS), **state)
    with pytest.raises(DataError, match="outside its folder"):
        records(tmp_path / "d")


def test_a_saved_dataset_shows_the_columns_that_it_was_set_to_show(tmp_path: Path) -> None:
    table = table_of([{"prompt": "a", "other": 1}, {"prompt": "b", "other": 2}])
    write_dataset(tmp_path / "d", table, _format_columns=["prompt"])
    assert [said(record)["input"] for record in records(tmp_path / "d")] == [None, None]


def test_a_missing_file_of_a_saved_dataset_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", table_of(RECORDS))
    (tmp_path / "d" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(InputMissingError, match="data-00001-of-00002"):
        records(tmp_path / "d")


# Texts and samples


@pytest.mark.parametrize("kind", FORMATS)
def test_texts_and_samples_are_read_from_tables(tmp_path: Path, kind: str) -> None:
    rows = [{"id": "a", "text": "x", "prompt": "p"}, {"id": "b", "text": "y", "prompt": "q"}]
    path = write(tmp_path, kind, rows)
    assert [(r.id, r.text, r.prompt) for r in read_texts(path) if not isinstance(r, BadRecord)] == [
        ("a", "x", "p"),
        ("b", "y", "q"),
    ]
    samples = [{"id": "a", "index": i, "token_ids": [i, 2], "prompt": "p"} for i in range(3)]
    (tmp_path / "samples").mkdir()
    path = write(tmp_path / "samples", kind, samples)
    scored = [r for r in read_scored(path) if not isinstance(r, BadRecord)]
    assert [(r.index, r.token_ids) for r in scored] == [(i, (i, 2)) for i in range(3)]


def test_an_empty_table_is_noticed(tmp_path: Path) -> None:
    for kind in ("parquet", "arrow"):
        stats = SourceStats()
        path = tmp_path / f"empty.{kind}"
        table = pa.table({"prompt": pa.array([], pa.string())})
        if kind == "parquet":
            pa.parquet.write_table(table, path)
        else:
            write_arrow(path, table, stream=False)
        assert records(path, stats=stats) == []
        assert [notice.code for notice in stats.notices] == ["W_NO_INPUT"]


# Other writers


@pytest.mark.parametrize("kind", ["parquet", "arrow", "zstd.arrow", "arrows"])
def test_what_polars_writes_is_read(tmp_path: Path, kind: str) -> None:
    polars = pytest.importorskip("polars", reason="writes files as pyarrow does not")
    rows = [{"id": f"r{i}", "prompt": f"é{i}", "tags": [f"t{i}"], "n": 2} for i in range(30)]
    frame = polars.DataFrame(rows).with_columns(kind=polars.lit("k").cast(polars.Categorical))
    path = tmp_path / f"p.{kind}"
    if kind == "parquet":
        frame.write_parquet(path)
    elif kind == "arrows":
        frame.write_ipc_stream(path)
    else:
        frame.write_ipc(path, compression="zstd" if kind == "zstd.arrow" else "uncompressed")
    expected = records(io.BytesIO(jsonl([{**row, "kind": "k"} for row in rows])))
    assert [said(record) for record in records(path)] == [said(record) for record in expected]
    whole = path.read_bytes()
    for length in range(9, len(whole) - 1, heavy_or(397, 97)):
        path.write_bytes(whole[:length])
        with suppress(DataError):
            assert kind == "arrows" or not records(path), length


def test_a_bomb_that_only_a_footer_shows_is_refused(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="writes files as pyarrow does not")
    path = tmp_path / "p.arrow"
    polars.DataFrame({"prompt": ["a" * 30_000_000]}).write_ipc(path, compression="zstd")
    with pytest.raises(LimitError, match="200 times"):
        records(path, limits=InputLimits(max_line_bytes=1 << 30))
    rng = random.Random(0)
    polars.DataFrame({"prompt": ["a", "b"], "id": [1, 2]}).write_ipc(path)
    whole = path.read_bytes()
    for _ in range(heavy_or(12, 100)):
        data = bytearray(whole)
        data[rng.randrange(8, len(data))] = rng.randrange(256)
        path.write_bytes(data)
        with suppress(CdecError):
            records(path)


def test_what_pandas_makes_floats_of_are_integers_again(tmp_path: Path) -> None:
    table = pa.table({"prompt": ["a", "b", "c"], "n": [2.0, None, 1.5]})
    pa.parquet.write_table(
        table.append_column("__index_level_0__", [["x", "y", "z"]]), tmp_path / "p"
    )
    first, second, third = records(tmp_path / "p")
    assert (said(first)["n"], said(second)["n"]) == (2, None)
    assert said(first)["input"] is None
    assert isinstance(third, BadRecord)
