"""Turns columns of a table into entities; a bad cell is named by its row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from cdec.core.errors import CdecError, EncodingError, FieldError, LineTooLongError
from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.jsonl import DEFAULT_FIELD
from cdec.data.entities.request import EntityRequest
from cdec.data.near import near_hint
from cdec.data.tables.cell_sizes import row_bytes, slices
from cdec.data.tables.cells import checked_columns


def chosen_columns(names: Sequence[str], request: EntityRequest) -> tuple[str, ...]:
    """Return the columns to read: the texts', then the ids' if there is one.

    A number is that of a column, where none has it as its name.

    Raises:
        FieldError: No such column, or several.
    """
    wanted = [_numbered(request.field or DEFAULT_FIELD, names)]
    ids = None if request.id_field is None else _numbered(request.id_field, names)
    if ids is not None and ids != wanted[0]:
        wanted.append(ids)
    for name, option in zip(wanted, ("`field`", "`id_field`"), strict=False):
        found = list(names).count(name)
        if found != 1:
            problem = f"has no column {name!r}" if found == 0 else f"has {found} columns {name!r}"
            raise FieldError(
                f"{request.name} {problem}; its columns are {', '.join(map(repr, names))}",
                hint=near_hint(name, names if found == 0 else (), _ways(option, request)),
                line=1,
                field=name,
            )
    return tuple(wanted)


def _numbered(name: str, names: Sequence[str]) -> str:
    """Return the column of that name, or of that number."""
    is_number = name not in names and name.isascii() and name.isdecimal()
    return names[int(name) - 1] if is_number and 0 < int(name) <= len(names) else name


def _ways(option: str, request: EntityRequest) -> str:
    """Return how a column is named, and what to do where there are no names."""
    named = f"name the column with {option}, or give its number"
    if request.no_header or not request.is_csv:
        return named
    return f"{named}; where the first row is one of texts, give `no_header` too"


def require_texts(schema: Any, columns: tuple[str, ...], request: EntityRequest) -> None:
    """Refuse columns that hold no texts; ids may be integers.

    Raises:
        FieldError: One does.
    """
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_text = any(getattr(pa.types, f"is_{test}")(kind) for test in tests)
        if not is_text and not (name != columns[0] and pa.types.is_integer(kind)):
            raise FieldError(
                f"{request.name}: column {name!r} holds {kind}, texts were expected",
                hint="name a column of strings",
                field=name,
            )


def entities_in(
    batch: Any, columns: tuple[str, ...], row: int, request: EntityRequest
) -> Iterator[EntityBatch]:
    """Yield the entities of a batch from anywhere, of which rows may share texts.

    Args:
        batch: With these columns alone.
        columns: As ``chosen_columns`` gave them.
        row: Number of its first row, from 1.
        request: What is read.

    Raises:
        DataError: Lengths or offsets of the batch contradict each other.
        LineTooLongError, FieldError, EncodingError: A bad row that is not to be skipped.
    """
    names, checked = checked_columns(batch, request.name, row)
    whole = pa.RecordBatch.from_arrays(checked, names=names)
    sizes = row_bytes(checked, batch.num_rows)
    for start, stop, _ in slices(sizes, math.inf, batch.num_rows):
        lines = range(row + start, row + stop)
        yield entities_of(whole.slice(start, stop - start), columns, lines, request)


def entities_of(
    batch: Any, columns: tuple[str, ...], lines: Sequence[int], request: EntityRequest
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
    batch: Any, columns: tuple[str, ...], lines: Sequence[int], request: EntityRequest
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
        raise row_too_long(request, line)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"{request.name}, row {line}: column {name!r} is not UTF-8: {error.reason}",
            hint="convert the file to UTF-8, or leave such rows out with `bad_lines` skip",
            line=line,
            field=name,
        ) from error


def row_too_long(request: EntityRequest, line: int | None = None) -> LineTooLongError:
    """Return the error of a table's row past the line limit; ``line`` (from 1) where known."""
    limit = request.limits.max_line_bytes
    where = "" if line is None else f", row {line}"
    return LineTooLongError(
        f"{request.name}{where}: a row is longer than {limit} bytes",
        hint="raise `max_line_bytes`, or check that the file is a table",
        limit=f"max_line_bytes {limit}",
        **({} if line is None else {"line": line}),
    )
