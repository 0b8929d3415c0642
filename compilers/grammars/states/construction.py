"""Subset constructions of the compiled library, run a part at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_LENGTH_ALLOWED = 64
"""Numbers in all states together for each state that is allowed: a bound on memory."""
_WIDTH_ALLOWED = 256
"""Cells of a table for each row that is allowed: as many as a table over bytes has."""
_UNDER_WAY, _TOO_LARGE = 1, 2
_OPERATIONS = 2_000_000
"""Of one part, some ten milliseconds; in between, Python hears of interruptions."""


class Most(NamedTuple):
    """What a construction may grow to: states, numbers in all of them, cells of the table."""

    states: int = 2**31 - 1
    items: int = 2**62
    cells: int = 2**62


class Construction(NamedTuple):
    """States are lists of integers, in the order in which they were found.

    Attributes:
        offsets: int64[n + 1] where each list begins.
        items: int32, the lists one after another.
        delta: int32[n, K] state after each, -1 dead.
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    delta: NDArray[np.int32]

    def holding(self, *values: int) -> NDArray[np.bool_]:
        """Say in bool[n] which states list one of some numbers."""
        found = np.zeros(len(self.offsets) - 1, np.bool_)
        places = np.flatnonzero(np.isin(self.items, values))
        found[np.searchsorted(self.offsets, places, "right") - 1] = True
        return found


def allowed(max_states: int) -> Most:
    """Return what a construction of so many states may grow to."""
    cells = _WIDTH_ALLOWED * max_states
    return Most(max_states, _LENGTH_ALLOWED * max_states, cells)


def constructed(begun: Any, most: Most = Most()) -> Construction | None:
    """Complete what a function of the library began; None where it grows too large.

    Args:
        begun: The construction.
        most: What it may grow to.
    """
    status = _UNDER_WAY
    while status == _UNDER_WAY:
        status = library.construction_run(begun, most, _OPERATIONS)
    if status == _TOO_LARGE:
        return None
    sizes = np.empty(3, np.int64)
    width = library.construction_sizes(begun, sizes)
    lists, items, rows = sizes.tolist()
    found = Construction(
        np.zeros(lists + 1, np.int64), np.empty(items, np.int32), np.empty((rows, width), np.int32)
    )
    library.construction_read(begun, *found)
    return found
