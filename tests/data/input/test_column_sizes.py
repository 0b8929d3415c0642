"""column_sizes: what a Parquet file's pages say of columns, whole or damaged, without pyarrow."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from cdec.core.errors import DataError
from cdec.data.tables.column_sizes import column_sizes

TABLE = pa.table(
    {f"text {i}": [f"{j} and {i}" for j in range(60)] for i in range(17)}
    | {"n": list(range(60)), "x": [0.5] * 60, "is": [True] * 60, "no": [None] * 60}
    | {"listed": [["a", "b"]] * 60, "nested": [{"a": 1, "b": {"c": [2.5]}}] * 60}
)


def written(**options: Any) -> bytes:
    stream = io.BytesIO()
    arrow_parquet.write_table(TABLE, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 7},
        {"compression": "none", "use_dictionary": False, "write_statistics": False},
        {"version": "1.0", "data_page_version": "2.0", "row_group_size": 59},
        {"write_page_index": True, "store_schema": False},
        {"write_page_checksum": True, "sorting_columns": [arrow_parquet.SortingColumn(0)]},
    ],
)
def test_sizes_are_those_that_pyarrow_reads(options: dict[str, Any]) -> None:
    data = written(**options)
    metadata = arrow_parquet.ParquetFile(io.BytesIO(data)).metadata
    columns = [
        metadata.row_group(group).column(index)
        for group in range(metadata.num_row_groups)
        for index in range(metadata.num_columns)
    ]
    found = list(column_sizes(io.BytesIO(data), "x"))
    assert [(each.path, each.unpacked, each.packed, each.values) for each in found] == [
        (
            each.path_in_schema,
            each.total_uncompressed_size,
            each.total_compressed_size,
            each.num_values,
        )
        for each in columns
    ]
    places = [(each.group, each.column) for each in found]
    assert places == [
        (g, c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)
    ]


def mutant(data: bytes, seed: int) -> bytes:
    """Return a file with one to four bytes of its footer changed."""
    draw, changed = random.Random(seed), bytearray(data)
    length = int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.choice((1, 1, 2, 4))):
        changed[len(data) - 8 - draw.randrange(1, length + 1)] = draw.randrange(256)
    return bytes(changed)


def test_a_damaged_footer_is_read_or_refused() -> None:
    data, outcomes = written(), {"read": 0, "refused": 0}
    for seed in range(500):
        try:
            found = list(column_sizes(io.BytesIO(mutant(data, seed)), "x"))
        except DataError as error:
            assert error.hint
            outcomes["refused"] += 1
        else:
            assert all(min(each.unpacked, each.packed, each.values) >= 0 for each in found)
            outcomes["read"] += 1
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("kept", [0, 4, 11, 100, -1])
def test_a_file_that_is_cut_is_refused(kept: int) -> None:
    with pytest.raises(DataError):
        list(column_sizes(io.BytesIO(written()[:kept]), "x"))


def test_a_footer_that_goes_in_circles_ends() -> None:
    deep = b"\x5c" * 100_000  # a struct in the fifth field of a struct, and so on
    lists = b"\x59" + b"\x19" * 100_000  # a list of one list, and so on
    endless = b"\x59\xf3" + b"\xff" * 9 + b"\x01"  # a list of 2**63 bytes
    for footer in (deep, lists, endless, b"\x5b\x00", b"\x52" + b"\xff" * 20):
        data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        with pytest.raises(DataError):
            list(column_sizes(io.BytesIO(data), "x"))


READER = """
import io, sys
import pyarrow as pa, pyarrow.parquet as arrow_parquet
from cdec.core.errors import CdecError
from cdec.data.prompts.read import read_prompts
from tests.data.input.test_column_sizes import mutant
table = pa.table({f"c{i}": [str(j) for j in range(50)] for i in range(6)} | {"l": [["a"]] * 50})
stream = io.BytesIO()
arrow_parquet.write_table(table, stream, row_group_size=25)
read = 0
for seed in range(int(sys.argv[1])):
    try:
        read += len(list(read_prompts(io.BytesIO(mutant(stream.getvalue(), seed)))))
    except CdecError:
        pass
print(read)
"""


def test_no_damaged_file_ends_the_process_that_reads_it() -> None:
    command = [sys.executable, "-c", READER, "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
