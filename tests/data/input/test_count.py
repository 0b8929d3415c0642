"""How many records a file will give, for progress: exact where it is cheap, else nothing."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.data.input import count
from cdec.data.input.count import count_records


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b"", 0),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\n\n  \r\nb\r\nc", 3),
        (b"\n" * 9, 0),
        (b"x" * 70 + b"\n" + b" " * 70 + b"\n" + b" " * 70 + b"y", 2),
    ],
)
def test_lines_that_are_not_blank_count(
    tmp_path: Path, data: bytes, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(data)
    assert count_records(path) == records
    monkeypatch.setattr(count, "CHUNK_BYTES", 7)
    assert count_records(str(path)) == records


def test_what_is_not_cheap_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert count_records(path) is None
    path.write_bytes(b"PAR1\x15...")
    assert count_records(path) is None
    path.write_bytes(b"ARROW1\0\0\n\n\n")
    assert count_records(path) is None
    path.write_bytes(b"a\nb\n")
    monkeypatch.setattr(count, "MOST_BYTES", 3)
    assert count_records(path) is None
    assert count_records(tmp_path / "missing") is None
    assert count_records(tmp_path) is None


def test_rows_of_parquet_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pa.parquet.write_table(pa.table({"prompt": ["a", "b", "c"]}), path)
    assert count_records(path) == 3
    assert count_records(str(path)) == 3


def test_a_redirected_file_counts_from_where_it_stands_and_stays_there(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\nthree\n")
    before = os.dup(0)
    with path.open("rb", buffering=0) as file:
        os.dup2(file.fileno(), 0)
        try:
            os.read(0, 4)
            assert count_records("-") == 2
            assert os.read(0, 100) == b"two\nthree\n"
        finally:
            os.dup2(before, 0)
            os.close(before)


def test_a_named_pipe_keeps_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\n",))
    writer.start()
    assert count_records(path) is None
    assert path.read_bytes() == b"a\n"
    writer.join()
