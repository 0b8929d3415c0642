"""Reads the rows of Parquet and Arrow files and of saved datasets as entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from cdec.core.errors import CdecError, DataError, FieldError
from cdec.data.input.source import (
    InputLimits,
    Source,
    SourceStats,
    open_source,
    read_chunks,
    source_name,
)
from cdec.data.prompts.entry import Entry
from cdec.data.tables.arrow import is_arrow, open_arrow
from cdec.data.tables.cells import check_columns, row_too_long, rows_of
from cdec.data.tables.dataset import read_dataset
from cdec.data.tables.parquet import is_parquet, open_parquet, require_seekable

_PARQUET_ROWS = 1024
_WHOLE_NUMBERS = {"n", "seed", "max_tokens", "index"}
"""Fields that are integers; pandas makes floats of them where some rows have none."""
_PANDAS_INDEX = "__index_level_"


def table_entries(
    source: Source,
    stream: BinaryIO,
    chunks: Iterator[bytes],
    limits: InputLimits,
    stats: SourceStats,
    only: str | None,
) -> Iterator[Entry]:
    """Yield the rows of a Parquet or Arrow file.

    Args:
        source: Where it comes from.
        stream: The same, opened.
        chunks: Its bytes from the first one on, decompressed.
        limits: Of rows, and of what all may expand to.
        stats: Counts are kept up to date.
        only: As in ``Entries.read``.

    Raises:
        UsageError: A Parquet file that comes from a pipe.
        DataError, LimitError, FieldError: As ``Entries.read``.
    """
    name = source_name(source)
    head = next(chunks)
    if is_arrow(head):
        rows = _Rows(name, limits, stats, only)
        yield from rows.of_arrow(_again(head, chunks), source)
        return
    require_seekable(stream, name)
    stream.seek(0)
    if not is_parquet(stream.read(8)):
        raise DataError(
            f"{name} is a compressed Parquet file, which cannot be read from its end",
            hint="decompress it first: its columns are compressed already",
        )
    rows = _Rows(name, limits, stats, only)
    with open_parquet(source) as file:
        columns = rows.columns(file.schema)
        for batch in file.batches(columns, name, limits, _PARQUET_ROWS):
            yield from rows.of_batch(batch)


def dataset_entries(
    source: Source, limits: InputLimits, stats: SourceStats, only: str | None
) -> Iterator[Entry]:
    """Yield the rows of a saved dataset, numbered over all its files.

    Raises:
        InputMissingError: It has several splits, or a file is missing.
        DataError, LimitError, FieldError: As ``Entries.read``.
    """
    folder = cast("str | Path", source)
    dataset = read_dataset(folder)
    rows = _Rows(str(folder), limits, stats, only, dataset.columns)
    for path in dataset.files:
        with open_source(path) as stream:
            chunks = read_chunks(stream, str(path), limits=limits, stats=stats)
            yield from rows.of_arrow(chunks, path)


def _again(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from chunks


class _Rows:
    """Numbers rows over batches and files, and turns them into entries."""

    def __init__(
        self,
        name: str,
        limits: InputLimits,
        stats: SourceStats,
        only: str | None,
        shown: Sequence[str] | None = None,
    ) -> None:
        self._name = name
        self._limits = limits
        self._stats = stats
        self._only = only
        self._shown = shown
        self._row = 1

    def columns(self, schema: Any) -> list[str]:
        """Return the columns to read.

        Raises:
            FieldError: One cannot be read, or is not there.
        """
        names = list(schema.names) if self._shown is None else list(self._shown)
        names = [name for name in names if not name.startswith(_PANDAS_INDEX)]
        if self._only is not None:
            names = [name for name in names if name == self._only]
        check_columns(schema, self._name, names)
        return names

    def of_arrow(self, chunks: Iterator[bytes], source: Source) -> Iterator[Entry]:
        """Yield the rows of an Arrow file or stream."""
        with open_arrow(chunks, source, self._name, self._limits) as reader:
            columns = self.columns(reader.schema)
            for batch in reader.batches() if columns else ():
                yield from self.of_batch(batch.select(columns))

    def of_batch(self, batch: Any) -> Iterator[Entry]:
        """Yield the rows of one record batch."""
        most = self._limits.max_line_bytes
        for row, found in rows_of(batch, self._name, self._row, most):
            self._stats.lines += 1
            yield self._entry(row, found)
        self._row += batch.num_rows

    def _entry(self, row: int, found: dict[str, object] | CdecError) -> Entry:
        if isinstance(found, CdecError):
            return Entry(row, f"row {row} {found.code}", error=found, unit="row")
        if found.pop("id_is_number", False) and str(found.get("id")).lstrip("-").isdecimal():
            found["id"] = int(str(found["id"]))  # as cdec's own Parquet outputs write numbers
        for name in _WHOLE_NUMBERS & found.keys():
            value = found[name]
            if isinstance(value, float) and value.is_integer():
                found[name] = int(value)
        try:
            size = len(orjson.dumps(found))
        except (TypeError, ValueError) as problem:
            error: CdecError = FieldError(
                f"{self._name}, row {row}: {problem}", hint="write it as a text", line=row
            )
            return Entry(row, f"row {row} {error.code}", error=error, unit="row")
        limit = self._limits.max_line_bytes
        if size > limit:
            error = row_too_long(self._name, row, size, limit)
            return Entry(row, f"row {row} {error.code}", error=error, unit="row")
        return Entry(row, found, fields=found, unit="row")
