"""IdColumns: ids 0, 1, 2, ... that are used again once freed, and arrays of one value an id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError

MOST_IDS = 2**31 - 1
"""Ids fit int32 columns."""


class IdColumns:
    """Arrays that grow together with the ids they are indexed by.

    Args:
        noun: What the ids number, for messages.
        capacity: Ids that fit at first, and by which the arrays grow at least.

    Attributes:
        arrays: Arrays of one length by name. subtle: growing replaces them, so read them anew
            after ``allocate``.
        used: Ids below this are in use or free; those from here on were never given out.
    """

    def __init__(self, noun: str, capacity: int) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.used = 0
        self._noun = noun
        self._step = capacity
        self._capacity = capacity
        self._fills: dict[str, int] = {}
        self._free = np.empty(0, np.int32)

    @property
    def live(self) -> int:
        """Number of ids in use."""
        return self.used - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and of the list of free ids."""
        return sum(array.nbytes for array in self.arrays.values()) + self._free.nbytes

    def add(self, name: str, dtype: Any, fill: int) -> None:
        """Attach an array, ``fill`` at new ids."""
        self.arrays[name] = np.full(self._capacity, fill, dtype)
        self._fills[name] = fill

    def allocate(self, n: int) -> NDArray[np.int64]:
        """Take ``n`` ids, int64[n] ascending; what was freed last is used again first.

        Raises:
            LimitError: More ids than int32 columns can hold.
        """
        # Ascending, so that children stand in their parents' order and batches keep theirs.
        kept = max(len(self._free) - n, 0)
        reused = np.sort(self._free[kept:])
        fresh = n - len(reused)
        if self.used + fresh > MOST_IDS:
            raise LimitError(
                f"{self.live + n} {self._noun} are alive at once, at most {MOST_IDS} fit",
                hint="Draw fewer samples at once, or release prompts that are done.",
                limit=MOST_IDS,
            )
        if self.used + fresh > self._capacity:
            # subtle: by an eighth, not by doubling: the nodes of a large tree are what takes its
            # memory, and copying them 9 times over costs less than making them.
            more = max(self._capacity // 8, self._step)
            self._grow(max(self._capacity + more, self.used + fresh))
        ids = np.arange(self.used, self.used + fresh)
        if reused.size:
            ids = np.concatenate([reused, ids])
            self._free = self._free[:kept]
        self.used += fresh
        return ids

    def free(self, ids: NDArray[np.int64]) -> None:
        """Give back distinct ``ids`` in use."""
        for name, array in self.arrays.items():
            array[ids] = self._fills[name]
        self._free = np.concatenate([self._free, ids.astype(np.int32)])
        if not self.live:
            # Ids begin anew: a release costs what is alive, not what once was.
            self._free = self._free[:0].copy()
            self.used = 0

    def _grow(self, capacity: int) -> None:
        for name, array in self.arrays.items():
            grown = np.full(capacity, self._fills[name], array.dtype)
            grown[: len(array)] = array
            self.arrays[name] = grown
        self._capacity = capacity
