"""PairTable: pairs of int64 as numbers, equal pairs as equal numbers."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_FIRST_SIZE = 64


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
            self._used = library.intern_pairs(
                left, right, table, self._lefts, self._rights, used, out
            )
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
            library.fill_pairs(self._table, self._lefts, self._rights, self._used)
