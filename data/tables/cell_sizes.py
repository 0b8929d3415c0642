"""What rows take as text, before any cell of them is made: shared texts count where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
