"""Tables of few bytes that stand for many: bounded before anything is made of them."""

from __future__ import annotations

import io
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from cdec.core.errors import LimitError
from cdec.data.prompts.read import BadRecord, read_prompts

pytestmark = pytest.mark.usefixtures("kept_tables")

TEXT = "x" * (1 << 20)
ROOM = 700 << 20
"""Bytes of address space above what the reader has before it reads."""


def shared(count: int, text: str = TEXT) -> Any:
    """Return one text so many times, by index."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


def in_one_list(values: Any) -> Any:
    """Return one list of all values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def in_parquet(columns: dict[str, Any], **options: Any) -> bytes:
    """Return the bytes of a table."""
    stream = io.BytesIO()
    how: dict[str, Any] = {"compression": "zstd", "store_schema": False} | options
    arrow_parquet.write_table(pa.table(columns), stream, **how)
    return stream.getvalue()


def in_arrow(columns: dict[str, Any]) -> bytes:
    """Return the bytes of a stream."""
    stream = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def views(count: int) -> Any:
    """Return views of one text, none of which copies it."""
    one = pa.array([TEXT], pa.string_view())
    _, view, text = one.buffers()
    return pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(view.to_pybytes() * count), text]
    )


def with_footer_of(data: bytes, size: int) -> bytes:
    """Return a Parquet file whose footer says that its last column expands to so many bytes.

    Where another size stands in the same bytes, that would be another file: an AssertionError.
    """
    metadata = arrow_parquet.ParquetFile(io.BytesIO(data)).metadata
    last, packed = metadata.num_columns - 1, _packed_sizes(data)
    told = _varint(metadata.row_group(0).column(last).total_uncompressed_size << 1, 0)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data = data[:start] + data[start:].replace(told, _varint(size << 1, len(told)))
    found = arrow_parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert found.column(last).total_uncompressed_size == size
    assert _packed_sizes(data) == packed
    return data


def _packed_sizes(data: bytes) -> list[int]:
    """Return the bytes that each column takes in the file, as its footer says."""
    group = arrow_parquet.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    return [group.column(i).total_compressed_size for i in range(group.num_columns)]


def _varint(value: int, length: int) -> bytes:
    """Return an unsigned integer of Thrift's compact protocol, of no less than so many bytes."""
    parts = []
    while value >= 128 or len(parts) + 1 < length:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


STRUCTS = pa.StructArray.from_arrays([shared(6_000), shared(6_000)], ["a", "b"])
MAPS = pa.MapArray.from_arrays(
    pa.array([0, 6_000], pa.int32()),
    pa.array([f"k{i}" for i in range(6_000)]),
    shared(6_000),
)
ONE = pa.array(["p"])
BOMBS: dict[str, Callable[[], bytes]] = {
    "candidates": lambda: in_parquet({"prompt": ONE, "candidates": in_one_list(shared(6_000))}),
    "passed through": lambda: in_parquet({"prompt": ONE, "data": in_one_list(shared(6_000))}),
    "schema stored": lambda: in_parquet(
        {"prompt": ONE, "data": in_one_list(shared(6_000))}, store_schema=True
    ),
    "structs": lambda: in_parquet({"prompt": ONE, "data": in_one_list(STRUCTS)}),
    "maps": lambda: in_parquet({"prompt": ONE, "data": MAPS}),
    "lists of lists": lambda: in_parquet(
        {"prompt": ONE, "data": in_one_list(in_one_list(shared(6_000)))}
    ),
    "arrow": lambda: in_arrow({"prompt": ONE, "data": in_one_list(shared(6_000))}),
    "arrow views": lambda: in_arrow({"prompt": ONE, "data": in_one_list(views(6_000))}),
    "arrow nulls": lambda: in_arrow(
        {"prompt": ONE, "data": pa.FixedSizeListArray.from_arrays(pa.nulls(1 << 28), 1 << 28)}
    ),
}


@pytest.mark.slow
def test_a_row_that_shared_texts_make_too_long_is_an_error_before_it_is_made() -> None:
    files = [make() for make in BOMBS.values()]
    assert max(map(len, files)) < 2 << 20
    found = dict(zip(BOMBS, _read_in_little_memory(*files), strict=True))
    assert found == {name: ["E_LINE_TOO_LONG"] for name in BOMBS}


def test_short_rows_that_share_texts_are_read_as_they_are() -> None:
    columns = {
        "prompt": shared(3, "p"),
        "l": pa.array([["a", "é"], None, []], pa.list_(pa.string())),
        "s": pa.array([{"x": "q", "y": None}, None, {"x": None, "y": 1}]),
        "m": pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
        "f": pa.array([["a", "b"], None, ["c", None]], pa.list_(pa.large_string(), 2)),
        "d": pa.array(
            [[{"a": ["x"]}], [], None], pa.list_(pa.struct([("a", pa.list_(pa.string()))]))
        ),
    }
    given = [
        {"l": ["a", "é"], "s": {"x": "q"}, "m": {"k": "v"}, "f": ["a", "b"], "d": [{"a": ["x"]}]},
        {"d": []},
        {"l": [], "s": {"y": 1}, "m": {}, "f": ["c", None]},
    ]
    for write in (in_parquet, in_arrow):
        for stored in (True, False) if write is in_parquet else (None,):
            data = write(columns, **({} if stored is None else {"store_schema": stored}))
            records = [*read_prompts(io.BytesIO(data))]
            assert [r.input for r in records] == given, (write, stored)  # type: ignore[union-attr]


def test_a_nested_text_that_is_not_utf8_is_an_error_of_its_row_alone() -> None:
    texts = pa.array([b"a", b"\xff"]).view(pa.string())
    lists = pa.ListArray.from_arrays([0, 1, 2], pa.DictionaryArray.from_arrays([0, 1], texts))
    first, second = read_prompts(io.BytesIO(in_arrow({"prompt": ["p", "q"], "l": lists})))
    assert not isinstance(first, BadRecord) and isinstance(second, BadRecord)
    assert second.error.code == "E_ENCODING"


def test_what_a_footer_says_of_sizes_binds_nobody() -> None:
    data = in_parquet({"prompt": ["p"], "data": ["a" * 40_000_000]}, use_dictionary=False)
    with pytest.raises(LimitError, match="200 times"):
        list(read_prompts(io.BytesIO(with_footer_of(data, 1_000))))
    assert _read_in_little_memory(with_footer_of(data, 1_000)) == [["E_LIMIT"]]
    # Good bytes whose footer lies are read.
    modest = in_parquet({"prompt": ["p"], "data": ["a" * 1_000]}, use_dictionary=False)
    (record,) = read_prompts(io.BytesIO(with_footer_of(modest, 20)))
    assert not isinstance(record, BadRecord)


@pytest.mark.slow
def test_a_long_cell_is_an_error_before_its_row_is_written_as_json() -> None:
    cell = random.Random(0).randbytes(40_000_000).hex()
    data = in_parquet({"prompt": ["p", "q"], "data": [cell, "b"]}, use_dictionary=False)
    first, second = read_prompts(io.BytesIO(data))
    assert isinstance(first, BadRecord) and first.error.code == "E_LINE_TOO_LONG"
    assert not isinstance(second, BadRecord)


@pytest.mark.slow
def test_values_of_a_list_that_few_bytes_stand_for_are_bounded() -> None:
    def listed(count: int) -> bytes:
        numbers = pa.array(np.full(count, 7))
        return in_parquet({"prompt": ["p"], "data": in_one_list(numbers)})

    (record,) = read_prompts(io.BytesIO(listed(5_000_000)))
    assert not isinstance(record, BadRecord), "60 MB in memory are no bomb"
    with pytest.raises(LimitError, match="200 times"):
        list(read_prompts(io.BytesIO(listed(40_000_000))))


@pytest.mark.slow
def test_texts_that_share_their_beginnings_are_a_bomb_like_any_other() -> None:
    data = in_parquet(
        {"prompt": [TEXT] * 250},
        use_dictionary=False,
        column_encoding={"prompt": "DELTA_BYTE_ARRAY"},
    )
    nested = in_parquet(
        {"prompt": ONE, "data": in_one_list(pa.array([TEXT] * 250))},
        use_dictionary=["prompt"],
        column_encoding={"data.list.element": "DELTA_BYTE_ARRAY"},
    )
    assert _read_in_little_memory(data, nested) == [["E_LIMIT"], ["E_LIMIT"]]


def test_entities_of_a_column_that_shares_texts_come_few_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_bytes(in_parquet({"text": shared(60_000, "y" * 500_000)}))
    command = [sys.executable, "-c", _ENTITIES, str(tmp_path / "e.parquet"), str(ROOM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "500000"), done.stderr[-800:]


_READ = """
import resource, sys
from cdec.core.errors import CdecError
from cdec.data.prompts.read import read_prompts
import pyarrow.parquet, cdec.data.rows.cells
from tests.data.rows.test_table_bombs import limit_memory
limit_memory(int(sys.argv[1]))
for path in sys.argv[2:]:
    codes = []
    try:
        for record in read_prompts(path):
            codes.append(getattr(getattr(record, "error", None), "code", type(record).__name__))
    except CdecError as error:
        codes.append(error.code)
    print(*codes)
"""
_ENTITIES = """
import itertools, sys
import pyarrow.parquet, cdec.data.entities.table_cells
from cdec.data.entities.source import read_entities
from tests.data.rows.test_table_bombs import limit_memory
limit_memory(int(sys.argv[2]))
for batch in itertools.islice(read_entities(sys.argv[1]), 3):
    length = len(batch.texts[-1])
print(length)
"""


def limit_memory(room: int) -> None:
    """Bound the address space to what is in use and some room."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read_in_little_memory(*files: bytes) -> list[list[str]]:
    """Return what the records of tables are, read one after the other in little memory."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(number) for number in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        command = [sys.executable, "-c", _READ, str(ROOM), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-1500:]
    return [line.split() for line in done.stdout.splitlines()]
