"""Entities in the columns of a table; a bad cell is named by its row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdec.core.errors import CdecError, EncodingError, FieldError, LineTooLongError
from cdec.core.sets.entities import EntityBatch
from cdec.data.rows.cells import row_bytes, slices

if TYPE_CHECKING:
    from cdec.data.entities.request import EntityRequest
    from cdec.data.rows.row import TableRows


def entities_in(rows: TableRows, request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield the entities of a batch, of which rows may share texts.

    Raises:
        LineTooLongError, FieldError, EncodingError: A bad row that is not to be skipped.
    """
    batch = rows.batch
    sizes = row_bytes(batch.columns, batch.num_rows)
    for start, stop, _ in slices(sizes, math.inf, batch.num_rows):
        lines = range(rows.first + start, rows.first + stop)
        yield entities_of(batch.slice(start, stop - start), rows.columns, lines, request)


def entities_of(
    batch: Any, columns: Sequence[str], lines: Sequence[int], request: EntityRequest
) -> EntityBatch:
    """Turn a record batch into entities; only a batch with a bad cell is read cell by cell."""
    request.stats.lines += batch.num_rows
    id_column = columns[-1] if request.id_field is not None else None
    texts = _column(batch, columns[0])
    ids = _column(batch, id_column) if id_column is not None else None
    if texts is None or (id_column is not None and ids is None) or _any_long(texts, request):
        texts, ids, lines = _good_rows(batch, columns, lines, request)
        ids = ids if id_column is not None else None
    request.stats.blank += texts.count("")
    return EntityBatch(texts, lines, ids)


def _column(batch: Any, name: str) -> list[str] | None:
    """Return a column as texts; None if a cell is null or not UTF-8."""
    values = _plain(batch.column(name))
    if values.null_count:
        return None
    try:
        texts: list[str] = values.cast(pa.large_string()).to_pylist()
    except pa.ArrowInvalid:
        return None
    return texts


def _plain(values: Any) -> Any:
    """Return integers as they are and all else as bytes, so that a cast to text checks UTF-8."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values if pa.types.is_integer(values.type) else values.cast(pa.large_binary())


def _any_long(texts: list[str], request: EntityRequest) -> bool:
    # A character has at most four bytes: exact lengths only where they may matter.
    limit = request.limits.max_line_bytes
    return any(len(text) > limit // 4 and len(text.encode()) > limit for text in texts)


def _good_rows(
    batch: Any, columns: Sequence[str], lines: Sequence[int], request: EntityRequest
) -> tuple[list[str], list[str], list[int]]:
    texts: list[str] = []
    ids: list[str] = []
    kept: list[int] = []
    cells = [_plain(batch.column(name)).to_pylist() for name in columns]
    for line, row in zip(lines, zip(*cells, strict=True), strict=True):
        try:
            decoded = [
                _cell(value, name, line, request) for value, name in zip(row, columns, strict=True)
            ]
        except CdecError as error:
            request.refuse(error)
            continue
        texts.append(decoded[0])
        ids.append(decoded[-1])
        kept.append(line)
    return texts, ids, kept


def _cell(value: object, name: str, line: int, request: EntityRequest) -> str:
    if value is None:
        raise FieldError(
            f"{request.name}, row {line}: column {name!r} is null",
            hint="leave such rows out with `bad_lines` skip",
            line=line,
            field=name,
        )
    if not isinstance(value, bytes):
        return str(value)
    if len(value) > request.limits.max_line_bytes:
        limit = request.limits.max_line_bytes
        raise LineTooLongError(
            f"{request.name}, row {line}: a row is longer than {limit} bytes",
            hint="raise `max_line_bytes`, or check that the file is a table",
            limit=f"max_line_bytes {limit}",
            line=line,
        )
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"{request.name}, row {line}: column {name!r} is not UTF-8: {error.reason}",
            hint="convert the file to UTF-8, or leave such rows out with `bad_lines` skip",
            line=line,
            field=name,
        ) from error
