"""Cells of record batches as JSON values, and what they take as text before any of them is made."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cdec.core.errors import CdecError, DataError, EncodingError, FieldError, LineTooLongError

_ROWS = 256
_SLICE_BYTES = 64 << 20
"""What the cells of so many rows may take at once."""
_VIEW_BYTES = 16
"""A text of a view: its length in 4 bytes, and where it stands."""


def row_bytes(columns: Sequence[Any], rows: int) -> NDArray[np.int64]:
    """Return about how many bytes each row takes as JSON, int64[rows]; never more than it does.

    But for nulls in structs, which count a byte each. Cost: one pass over offsets and indices.

    Args:
        columns: Arrays whose offsets and indices are valid; bytes in the place of texts.
        rows: Of each of them.
    """
    total = np.zeros(rows, np.int64)
    for column in columns:
        total += _cells(column)
    return total


def slices(
    sizes: NDArray[np.int64], most: float, rows: int = _ROWS
) -> Iterator[tuple[int, int, bool]]:
    """Yield where rows begin and end that are taken apart at once; and if it is one too long.

    Args:
        sizes: Of the rows, int64[n].
        most: Bytes that a row may have.
        rows: Most that are taken apart at once.
    """
    is_long = sizes > most
    ends = np.cumsum(np.where(is_long, 0, sizes))
    stops = np.append(np.flatnonzero(is_long), len(sizes))
    start = 0
    while start < len(sizes):
        if is_long[start]:
            yield start, start + 1, True
            start += 1
            continue
        before = ends[start] - sizes[start]
        full = int(np.searchsorted(ends, before + _SLICE_BYTES, "right"))
        long = int(stops[np.searchsorted(stops, start)])
        stop = min(start + rows, max(full, start + 1), long)
        yield start, stop, False
        start = stop


def _cells(column: Any) -> NDArray[np.int64] | int:
    """Return the size of each cell; one number where all are as large."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return _picked(_cells(column.dictionary), column.indices)
    if types.is_binary_view(kind) or types.is_string_view(kind):
        start = column.offset * _VIEW_BYTES
        views = np.frombuffer(column.buffers()[1] or b"", np.int32, len(column) * 4, start)
        return _present(views[::4].astype(np.int64), column)
    if types.is_fixed_size_list(kind):
        return _fixed_list(column)
    if types.is_map(kind):
        inner = _sum([_cells(column.keys), _cells(column.items)], 1)
        return _present(_between(column, inner), column)
    if types.is_list(kind) or types.is_large_list(kind):
        return _present(_between(column, _sum([_cells(column.values)], 1)), column)
    if types.is_struct(kind):
        fields = [_sum([_cells(column.field(i))], 1) for i in range(kind.num_fields)]
        return _present(_sum(fields, 1), column)
    if any(getattr(types, f"is_{test}")(kind) for test in _TEXTS):
        lengths = pc.binary_length(column).fill_null(0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
    return kind.byte_width if types.is_fixed_size_binary(kind) else 1


_TEXTS = ("binary", "large_binary", "string", "large_string")


def _sum(sizes: Sequence[NDArray[np.int64] | int], more: int) -> NDArray[np.int64] | int:
    total: NDArray[np.int64] | int = more
    for size in sizes:
        total = total + size
    return total


def _between(column: Any, inner: NDArray[np.int64] | int) -> NDArray[np.int64] | int:
    """Return what lists hold, of items of a size."""
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    if isinstance(inner, int):
        return np.diff(offsets) * inner
    return np.diff(np.concatenate(([0], np.cumsum(inner)))[offsets])


def _fixed_list(column: Any) -> NDArray[np.int64] | int:
    size = column.type.list_size
    # Of the whole array: the items of a slice begin later.
    inner = _sum([_cells(column.values)], 1)
    if isinstance(inner, int):
        each: int = inner * size
        return each
    first = column.offset * size
    own = inner[first : first + len(column) * size].reshape(len(column), size)
    return _present(own.sum(1), column)


def _picked(sizes: NDArray[np.int64] | int, indices: Any) -> NDArray[np.int64] | int:
    if isinstance(sizes, int) or not len(sizes):
        return sizes if isinstance(sizes, int) else 0
    is_null = indices.is_null().to_numpy(zero_copy_only=False)
    picked = sizes[indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return np.where(is_null, 0, picked)


def _present(sizes: NDArray[np.int64] | int, column: Any) -> NDArray[np.int64] | int:
    """Return sizes with 0 for nulls."""
    if not column.null_count:
        return sizes
    return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, sizes)


def objects_of(
    batch: Any, name: str, first_row: int, most: float
) -> Iterator[tuple[int, dict[str, object] | CdecError]]:
    """Yield the rows of a batch as JSON objects; nulls are left out, as JSON lines leave them out.

    Texts and binary cells must be UTF-8. Dates and times become ISO 8601, decimals their text.

    Args:
        batch: Of columns as ``plain_columns`` gives them.
        name: Of the input, for messages.
        first_row: Number of its first row, from 1.
        most: Bytes that a row may have; the cells of one that has more are never made.

    Returns:
        Numbers of rows, with the row or what is wrong with it.
    """
    names, columns = batch.schema.names, batch.columns
    sizes = row_bytes(columns, batch.num_rows)
    for start, stop, is_long in slices(sizes, most):
        if is_long:
            row = first_row + start
            yield row, row_too_long(name, row, int(sizes[start]), most)
            continue
        cells = [_listed(column.slice(start, stop - start)) for column in columns]
        for row, values in enumerate(zip(*cells, strict=True), first_row + start):
            try:
                yield row, _object(names, values, name, row)
            except CdecError as error:
                yield row, error


def plain_columns(batch: Any) -> tuple[list[Any], list[str]]:
    """Return the columns and names of a batch, with bytes in the place of texts, all in bounds.

    Args:
        batch: A record batch from anywhere.

    Raises:
        pyarrow.ArrowException, TypeError, UnicodeDecodeError: Lengths or offsets contradict each
            other, or a name is not UTF-8.
    """
    columns = [_plain(column) for column in batch.columns]
    for column in columns:
        column.validate(full=True)
    return columns, batch.schema.names


def row_too_long(name: str, row: int, size: int, most: float) -> LineTooLongError:
    """Return the error of a row that has more bytes than a row may have."""
    return LineTooLongError(
        f"{name}, row {row} is {size} bytes long; a row may have {most} bytes",
        hint="raise `max_line_bytes`, or leave columns out",
        line=row,
        limit=f"max_line_bytes {most}",
    )


def _listed(column: Any) -> list[Any]:
    if "map<" in str(column.type):
        found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    else:
        found = column.to_pylist()
    return found


def check_columns(schema: Any, name: str, columns: Sequence[str]) -> None:
    """Refuse columns that cannot become fields of records.

    Raises:
        FieldError: Two of one name, or one whose cells are no JSON values.
        DataError: A name that is not UTF-8.
    """
    for column in columns:
        count = schema.names.count(column)
        if count != 1:
            raise FieldError(
                f"{name} has {count} columns {column!r}",
                hint="write the table again with each name once",
                field=column,
            )
        kind = schema.field(column).type
        try:
            is_read = _is_read(kind)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: a name within column {column!r} is not UTF-8",
                hint="write the table again",
                field=column,
            ) from error
        if not is_read:
            raise FieldError(
                f"{name}: column {column!r} holds {kind}, which is not read",
                hint="write the table again without it, or as texts",
                field=column,
            )


def require_texts(schema: Any, columns: Sequence[str], name: str) -> None:
    """Refuse columns that hold no texts; ids may be integers.

    Raises:
        FieldError: One does.
    """
    for column in columns:
        kind = schema.field(column).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not _is_text(kind) and not (column != columns[0] and pa.types.is_integer(kind)):
            raise FieldError(
                f"{name}: column {column!r} holds {kind}, texts were expected",
                hint="name a column of strings",
                field=column,
            )


def _is_read(kind: Any) -> bool:
    """Whether cells of a type become JSON values."""
    types = pa.types
    if types.is_dictionary(kind):
        return _is_read(kind.value_type)
    if types.is_struct(kind):
        # Names are looked at as well: one that is not UTF-8 is an error here.
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return all(field.name is not None and _is_read(field.type) for field in fields)
    if types.is_map(kind):
        keys = kind.key_type
        is_text = _is_text(keys.value_type if types.is_dictionary(keys) else keys)
        return is_text and _is_read(kind.item_type)
    if _is_list(kind):
        return _is_read(kind.value_type)
    if _is_text(kind) or types.is_null(kind) or types.is_primitive(kind):
        return not types.is_interval(kind)
    return bool(
        types.is_boolean(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind)
    )


def _is_text(kind: Any) -> bool:
    tests = ("string", "large_string", "binary", "large_binary", "string_view", "binary_view")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _is_list(kind: Any) -> bool:
    tests = ("list", "large_list", "fixed_size_list")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _plain(column: Any) -> Any:
    """Return a column with bytes in the place of texts, so that each is decoded in its own row."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _compact(pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary)))
    if pa.types.is_temporal(kind):
        # As a text: Python's times have no nanoseconds.
        column.validate(full=True)
        return column.cast(pa.string()).view(pa.binary())
    if any(pa.types.is_dictionary(part) for part in _parts(kind)):
        return _rebuilt(column)
    bare = _bare(kind)
    return column if bare.equals(kind) else column.view(bare)


def _compact(column: Any) -> Any:
    """Return a dictionary as it is where its texts are shared, else each text in its place.

    subtle: pyarrow gives each batch of a row group all texts of the batches before it as well.
    """
    kind = column.type.value_type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return column
    column.validate(full=True)
    lengths = pc.binary_length(column.dictionary).fill_null(0)
    shared, own = pc.sum(lengths).as_py(), pc.sum(lengths.take(column.indices)).as_py()
    return column if (own or 0) > (shared or 0) else column.dictionary_decode()


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the types within a type, at every depth."""
    for number in range(kind.num_fields):
        part = kind.field(number).type
        yield part
        yield from _parts(part)


def _rebuilt(column: Any) -> Any:
    """Return a column of lists or structs of whose parts some are dictionaries, each part plain."""
    column.validate()
    if column.offset:
        column = column.take(pa.array(range(len(column))))  # parts begin where it does
    types, kind = pa.types, column.type
    if types.is_struct(kind):
        parts = [_plain(column.field(i)) for i in range(kind.num_fields)]
        fields = [kind.field(i).with_type(part.type) for i, part in enumerate(parts)]
        bare: Any = pa.struct(fields)
    elif types.is_map(kind):
        keys, items = _plain(column.keys), _plain(column.items)
        bare = pa.map_(keys.type, items.type)
        fields = [bare.key_field, bare.item_field]
        parts = [pa.StructArray.from_arrays([keys, items], fields=fields)]
    else:
        parts = [_plain(column.values)]
        field = kind.value_field.with_type(parts[0].type)
        bare = _list_of(kind, field)
    own = 1 if types.is_struct(kind) or types.is_fixed_size_list(kind) else 2
    return pa.Array.from_buffers(bare, len(column), column.buffers()[:own], children=parts)


def _list_of(kind: Any, field: Any) -> Any:
    """Return a type of lists as another one, of other items."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(field)


def _bare(kind: Any) -> Any:
    """Return a type with bytes in the place of texts, at every depth."""
    types = pa.types
    for test, bare in (
        (types.is_string, pa.binary()),
        (types.is_large_string, pa.large_binary()),
        (types.is_string_view, pa.binary_view()),
    ):
        if test(kind):
            return bare
    if types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([field.with_type(_bare(field.type)) for field in fields])
    if types.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type))
    if _is_list(kind):
        return _list_of(kind, kind.value_field.with_type(_bare(kind.value_type)))
    return kind


def _object(names: Sequence[str], values: Sequence[Any], name: str, row: int) -> dict[str, object]:
    record: dict[str, object] = {}
    for column, cell in zip(names, values, strict=True):
        try:
            value = cell if type(cell) is int else _value(cell)
        except UnicodeDecodeError as error:
            raise EncodingError(
                f"{name}, row {row}: column {column!r} is not UTF-8: {error.reason}",
                hint="convert the file to UTF-8, or leave the column out",
                line=row,
                field=column,
            ) from error
        if value is not None:
            record[column] = value
    return record


def _value(cell: Any) -> object:
    """Return a cell as a JSON value; nulls within structs are left out.

    Raises:
        UnicodeDecodeError: Bytes that are no text.
    """
    if isinstance(cell, bytes):
        return cell.decode()
    if isinstance(cell, dict):
        items = ((_value(key), _value(value)) for key, value in cell.items())
        return {str(key): value for key, value in items if value is not None}
    if isinstance(cell, list):
        return [_value(item) for item in cell]
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, decimal.Decimal | datetime.timedelta):
        return str(cell)
    return cell
