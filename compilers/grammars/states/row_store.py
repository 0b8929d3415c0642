"""Numbering of rows of integers, equal rows once: the states of every subset construction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

_LENGTH_ALLOWED = 64
"""Numbers in all rows together for each row that is allowed: a bound on memory."""
_WIDTH_ALLOWED = 256
"""Cells of a table for each row that is allowed: as many as a table over bytes has."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Rows(NamedTuple):
    """Rows as kernels read and extend them.

    Attributes:
        pool: int32, the rows one after another.
        offsets: int64[capacity + 1] where they begin.
        table: int32, a power of two and at least twice the capacity, -1 where free: numbers of
            rows by hash, open addressing.
        used: int64[1] number of rows.
    """

    pool: NDArray[np.int32]
    offsets: NDArray[np.int64]
    table: NDArray[np.int32]
    used: NDArray[np.int64]


@inner
def hash_row(row: Any, length: int) -> Any:
    """Return a 64-bit hash of ``row[:length]``."""
    value = np.uint64(length + 1)
    for i in range(length):
        value = (value ^ np.uint64(row[i] + 1)) * _MULTIPLIER
        value ^= value >> np.uint64(29)
    return value


@inner
def _slot(row: Any, length: int, rows: Rows) -> Any:
    """Return the place in the table of ``row[:length]``, or of where it would go."""
    pool, offsets, table, _ = rows
    mask = np.uint64(len(table) - 1)
    slot = hash_row(row, length) & mask
    while table[slot] >= 0:
        found = table[slot]
        begin = offsets[found]
        if offsets[found + 1] - begin == length:
            same = True
            for i in range(length):
                if pool[begin + i] != row[i]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def intern_row(row: Any, length: int, rows: Rows) -> int:
    """Return the number of ``row[:length]`` int32, adding it if it is new; the caller made room."""
    pool, offsets, table, used = rows
    slot = _slot(row, length, rows)
    if table[slot] >= 0:
        return int(table[slot])
    number = used[0]
    begin = offsets[number]
    for i in range(length):
        pool[begin + i] = row[i]
    offsets[number + 1] = begin + length
    table[slot] = number
    used[0] = number + 1
    return int(number)


@inner
def sort_row(row: Any, length: int) -> None:
    """Sort ``row[:length]`` in place (Shell 1959); much sooner compiled than numba's own sort."""
    gap = length // 2
    while gap > 0:
        for i in range(gap, length):
            value, at = row[i], i
            while at >= gap and row[at - gap] > value:
                row[at] = row[at - gap]
                at -= gap
            row[at] = value
        gap = 1 if gap == 2 else gap * 5 // 11


@kernel
def _fill_table(pool: Any, offsets: Any, count: int, table: Any) -> None:
    mask = np.uint64(len(table) - 1)
    for number in range(count):
        begin = offsets[number]
        slot = hash_row(pool[begin:], offsets[number + 1] - begin) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = number


class RowStore:
    """Growing storage of rows.

    Attributes:
        rows: The arrays, replaced when they grow.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: int = 256, values: int = 2048) -> None:
        self.rows = Rows(
            np.empty(values, np.int32),
            np.zeros(rows + 1, np.int64),
            np.full(_table_size(rows), -1, np.int32),
            np.zeros(1, np.int64),
        )

    def __len__(self) -> int:
        return int(self.rows.used[0])

    def reserve(self, rows: int, values: int) -> None:
        """Make room for ``rows`` more rows with ``values`` numbers in all; amortised constant."""
        count, (pool, offsets, table, used) = len(self), self.rows
        filled = int(offsets[count])
        if filled + values > len(pool):
            pool = _grown(pool, filled, max(2 * len(pool), filled + values))
        if count + rows + 1 > len(offsets):
            capacity = max(2 * len(offsets), count + rows + 1)
            offsets = _grown(offsets, count + 1, capacity)
            table = np.full(_table_size(capacity), -1, np.int32)
            _fill_table(pool, offsets, count, table)
        self.rows = Rows(pool, offsets, table, used)

    def exceeds(self, max_rows: int) -> bool:
        """Say whether there are more than ``max_rows`` rows, or as much data as very long ones."""
        count = len(self)
        return count > max_rows or int(self.rows.offsets[count]) > _LENGTH_ALLOWED * max_rows

    def add(self, row: NDArray[np.int32]) -> int:
        """Return the number of ``row`` int32[n], adding it if it is new."""
        self.reserve(1, len(row))
        return int(intern_row(row, len(row), self.rows))

    def holding(self, *values: int) -> NDArray[np.bool_]:
        """Say of each row whether one of some numbers is in it."""
        offsets, content = self.content()
        found = np.zeros(len(self), np.bool_)
        for value in values:
            places = np.flatnonzero(content == value)
            found[np.searchsorted(offsets, places, "right") - 1] = True
        return found

    def content(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return (offsets int64[n + 1], values int32) of all rows."""
        offsets = self.rows.offsets[: len(self) + 1]
        return offsets, self.rows.pool[: int(offsets[-1])]


def grown_rows(matrix: NDArray[np.int32], rows: int, most: int | None = None) -> NDArray[np.int32]:
    """Return ``matrix`` int32[n, K] with ``rows`` rows or more, new ones -1; amortised constant.

    ``most``: rows that are allowed; beyond them, and beyond ``exceeds_cells``, no more are made
    than are asked for.
    """
    if rows <= len(matrix):
        return matrix
    doubled = 2 * len(matrix)
    if most is not None:
        doubled = min(doubled, most, _WIDTH_ALLOWED * most // max(matrix.shape[1], 1))
    larger = np.full((max(rows, doubled), matrix.shape[1]), -1, np.int32)
    larger[: len(matrix)] = matrix
    return larger


def exceeds_cells(rows: int, columns: int, max_rows: int) -> bool:
    """Say whether a table is larger than one of ``max_rows`` rows may be."""
    return rows * columns > _WIDTH_ALLOWED * max_rows


def _table_size(rows: int) -> int:
    return 1 << max(4, (2 * rows).bit_length())


def _grown(array: NDArray[Any], filled: int, size: int) -> NDArray[Any]:
    larger = np.zeros(size, array.dtype)
    larger[:filled] = array[:filled]
    return larger
