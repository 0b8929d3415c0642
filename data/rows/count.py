"""The number of records that a file will give, where that is told cheaply: for progress alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from cdec.data.input.decompress import compression_of
from cdec.data.input.source import CHUNK_BYTES, Source
from cdec.data.rows.formats import FORMATS

MOST_BYTES = 256 << 20
"""Longer files are not counted: a tenth of a second is the price of this much."""
MOST_FILES = 1000
_PARQUET, _ARROW, _JSON = FORMATS["parquet"], FORMATS["arrow"], FORMATS["json"]
_HEAD_BYTES = 16


def count_all(sources: Sequence[Source]) -> int | None:
    """Return the records of several inputs together, where ``count_records`` tells all of them.

    None for more than ``MOST_FILES``, or more than ``MOST_BYTES`` in all.
    """
    total, size = 0, 0
    for number, source in enumerate(sources):
        path = Path(source) if isinstance(source, str | Path) else None
        # Tables say how many rows they have.
        if path is not None and path.is_file() and path.suffix not in _PARQUET.endings:
            size += path.stat().st_size
        is_much = number >= MOST_FILES or (number > 0 and size > MOST_BYTES)
        count = None if is_much else count_records(source)
        if count is None:
            return None
        total += count
    return total


def count_records(source: Source) -> int | None:
    """Return the lines of a regular file that are not blank.

    Args:
        source: A path, or ``"-"`` for stdin, which is read from where it stands and left there.

    Returns:
        The rows of a Parquet file. None where it cannot be told cheaply: a pipe, a URL, a stream,
        JSON that is no lines, a compressed or an Arrow file, more than ``MOST_BYTES``. Where lines
        are not records (the header of a CSV, newlines in its cells) the number is a guess.
    """
    if not isinstance(source, str | Path):
        return None
    try:
        if str(source) == "-":
            return _count(0, os.lseek(0, 0, os.SEEK_CUR))
        # subtle: a named pipe that is opened and closed again ends its writer.
        if not stat.S_ISREG(Path(source).stat().st_mode):
            return None
        with Path(source).open("rb", buffering=0) as file:
            head = os.pread(file.fileno(), _HEAD_BYTES, 0)
            if Path(source).suffix.lower() in _JSON.endings and head.lstrip()[:1] != b"{":
                return None
            return _rows(source) if head.startswith(_PARQUET.magics) else _count(file.fileno(), 0)
    except (OSError, ValueError):
        return None


def _rows(path: str | Path) -> int | None:
    """Return the rows of a Parquet file, as its metadata has them."""
    import pyarrow as pa
    import pyarrow.parquet as arrow_parquet

    try:
        rows: int = arrow_parquet.read_metadata(path).num_rows
    except pa.ArrowException:
        return None  # whoever reads it says why
    return rows


def _count(descriptor: int, start: int) -> int | None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size - start > MOST_BYTES:
        return None
    head = os.pread(descriptor, _HEAD_BYTES, start)
    if compression_of(head) is not None or head.startswith((*_PARQUET.magics, *_ARROW.magics)):
        return None
    count, is_begun = 0, False
    while chunk := os.pread(descriptor, CHUNK_BYTES, start):
        start += len(chunk)
        first, *lines = chunk.split(b"\n")
        is_begun = is_begun or bool(first.strip())
        for line in lines:
            count += is_begun
            is_begun = bool(line.strip())
    return count + is_begun
