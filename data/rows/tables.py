"""Rows of tables in columns: Parquet, Arrow files and streams, saved datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from cdec.core.errors import DataError, UsageError
from cdec.core.files.remote import is_url
from cdec.data.input.decompress import compression_of
from cdec.data.input.source import hash_whole, open_source, read_chunks
from cdec.data.rows.dataset import read_dataset
from cdec.data.rows.formats import FORMATS
from cdec.data.rows.row import Rows, TableRows
from cdec.data.rows.table_process import TableBytes

if TYPE_CHECKING:
    from cdec.data.rows.row import Reading

_ARROW_FILE, _ARROW_STREAM = FORMATS["arrow"].magics
_HEAD_BYTES = 16
_ROWS = 1 << 16
"""Most rows of a table that come together."""


def read_parquet(reading: Reading) -> Iterator[Rows]:
    """Yield the rows of a Parquet file, which is read from its end.

    Raises:
        UsageError: A pipe, or a stream that cannot seek.
        FieldError: The columns cannot be chosen.
        DataError, LimitError: As ``TableProcess.open``; it is compressed.
    """
    name, stream = reading.name, cast(BinaryIO, reading.stream)
    if not stream.seekable():
        raise UsageError(
            f"{name} cannot be read as Parquet, which is read from the file's end",
            hint="save it to a file first",
        )
    stream.seek(0)
    if compression_of(stream.read(8)) is not None:
        raise DataError(
            f"{name} is a compressed Parquet file, which cannot be read from its end",
            hint="decompress it first: its columns are compressed already",
        )
    data = TableBytes(iter(()), stream)
    yield from _table(reading, "Parquet", data, 1)
    source = reading.source
    if reading.stats.digest is not None:
        hash_whole(source, limits=reading.limits, stats=reading.stats)
    if isinstance(source, str | Path) and not is_url(source):
        reading.stats.bytes_read = data.file_bytes


def read_arrow(reading: Reading) -> Iterator[Rows]:
    """Yield the rows of an Arrow file or stream, or of a saved dataset's files.

    A file is read from its beginning where it is a stream there. Some writers (polars is one) leave
    the schema's message out, so that only its footer says where the batches are.

    Raises:
        InputMissingError: A dataset of several splits, or one that lacks a file.
        FieldError: The columns cannot be chosen.
        DataError, LimitError: As ``TableProcess.open``; it ends early.
    """
    if reading.stream is not None:
        yield from _arrow(reading, 1)
        return
    dataset = read_dataset(cast("str | Path", reading.source))
    choose, row = reading.columns, 1
    for path in dataset.files:
        with open_source(path) as stream:
            limits, stats = reading.limits, reading.stats
            file = replace(
                reading,
                source=path,
                stream=stream,
                chunks=read_chunks(stream, str(path), limits=limits, stats=stats),
                columns=lambda names, schema: choose(dataset.columns or names, schema),
            )
            for rows in _arrow(file, row):
                row = rows.first + rows.batch.num_rows
                yield rows


def _arrow(reading: Reading, first: int) -> Iterator[TableRows]:
    chunks, head = reading.chunks, b""
    while len(head) < _HEAD_BYTES and (chunk := next(chunks, b"")):
        head += chunk
    size = _size(reading.stream)
    is_file = head.startswith(_ARROW_FILE)
    if is_file and not head.startswith(_ARROW_STREAM, len(_ARROW_FILE)):
        yield from _arrow_file(reading, first)
        return
    begun = chain([head[len(_ARROW_FILE) :] if is_file else head], chunks)
    data = TableBytes(begun, None, size)
    yield from _table(reading, "Arrow", data, first)
    # What follows the batches says whether a file is whole.
    if not data.drain().endswith(_ARROW_FILE[:6]) and is_file:
        raise DataError(
            f"{reading.name} is an Arrow file that ends early",
            hint="write it again, or fetch it again",
        )


def _arrow_file(reading: Reading, first: int) -> Iterator[TableRows]:
    """Yield the rows of a file that only its footer describes."""
    stream = cast(BinaryIO, reading.stream)
    at = stream.tell() if stream.seekable() else 0
    if not stream.seekable() or stream.seek(0) or not stream.read(8).startswith(_ARROW_FILE):
        raise DataError(
            f"{reading.name} is an Arrow file that is read from its end",
            hint="save it to a file, decompressed",
        )
    yield from _table(reading, "Arrow file", TableBytes(iter(()), stream), first)
    stream.seek(at)
    for _ in reading.chunks:
        pass  # they are counted, and hashed


def _table(reading: Reading, form: str, data: TableBytes, first: int) -> Iterator[TableRows]:
    table = reading.tables.open(form, data, reading.name, reading.limits)
    columns = [*dict.fromkeys(reading.columns(table.schema.names, table.schema))]
    for batch in table.batches(columns, _ROWS):
        yield TableRows(batch, columns, first, reading)
        first += batch.num_rows


def _size(stream: BinaryIO | None) -> int:
    """Return the bytes of what can seek, which stays where it is; 0 for anything else."""
    try:
        if stream is None or not stream.seekable():
            return 0
        at = stream.tell()
        size = stream.seek(0, 2)
        stream.seek(at)
    except (OSError, ValueError):
        return 0
    return size
