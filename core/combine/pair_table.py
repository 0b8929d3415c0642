"""PairTable: pairs of int64 as numbers, equal pairs as equal numbers; compiled loops of its own."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(32)
_FIRST_SIZE = 64


@inner
def _place(left: Any, right: Any, slots: Any) -> Any:
    """Return where a pair's probing begins in a table of a power of two slots."""
    mixed = np.uint64(left) * _MULTIPLIER
    mixed = (mixed ^ (mixed >> _FOLD) ^ np.uint64(right)) * _MULTIPLIER
    # subtle: int() would keep it unsigned here, and numba makes floats of mixed signs.
    return np.int64((mixed ^ (mixed >> _FOLD)) & np.uint64(slots - 1))


@kernel
def _intern(left: Any, right: Any, table: Any, lefts: Any, rights: Any, used: int, out: Any) -> int:
    """Write the numbers of pairs to ``out`` int64[n]; return how many pairs there are now.

    ``table`` int64[power of two] holds numbers, -1 where free, and has room for all that is new.
    """
    slots = len(table)
    for i in range(len(left)):
        at = _place(left[i], right[i], slots)
        while table[at] >= 0:
            number = table[at]
            if lefts[number] == left[i] and rights[number] == right[i]:
                break
            at = (at + 1) & (slots - 1)
        if table[at] < 0:
            table[at] = used
            lefts[used] = left[i]
            rights[used] = right[i]
            used += 1
        out[i] = table[at]
    return used


@kernel
def _fill(table: Any, lefts: Any, rights: Any, used: int) -> None:
    """Enter all pairs into an empty table."""
    slots = len(table)
    for number in range(used):
        at = _place(lefts[number], rights[number], slots)
        while table[at] >= 0:
            at = (at + 1) & (slots - 1)
        table[at] = number


class PairTable:
    """Numbers 0, 1, 2, ... for pairs of int64, in the order in which they are first seen.

    Cost: 16 bytes a pair and 16 to 64 bytes of table; some 20 nanoseconds a look-up. Threads take
    turns.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._used = 0
        self._table = np.full(_FIRST_SIZE, -1, np.int64)
        self._lefts = np.empty(_FIRST_SIZE, np.int64)
        self._rights = np.empty(_FIRST_SIZE, np.int64)

    def __len__(self) -> int:
        return self._used

    def intern(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of pairs, int64[n] each; new pairs get new numbers."""
        out = np.empty(len(left), np.int64)
        with self._lock:
            self._make_room(len(left))
            table, used = self._table, self._used
            self._used = _intern(left, right, table, self._lefts, self._rights, used, out)
        return out

    def pairs(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the left and right halves of pairs, int64[n] each.

        Raises:
            IndexError: A number that no pair has.
        """
        return self._lefts[: self._used][numbers], self._rights[: self._used][numbers]

    def _make_room(self, n: int) -> None:
        """Grow by doubling, so that ``n`` further pairs fill at most half of the table."""
        needed = self._used + n
        if needed > len(self._lefts):
            more = max(needed, 2 * len(self._lefts)) - self._used
            self._lefts = np.append(self._lefts[: self._used], np.empty(more, np.int64))
            self._rights = np.append(self._rights[: self._used], np.empty(more, np.int64))
        if 2 * needed > len(self._table):
            self._table = np.full(1 << (4 * needed - 1).bit_length(), -1, np.int64)
            _fill(self._table, self._lefts, self._rights, self._used)
