"""What the engine counts of a program once: slots of objects, required ones, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.schemas.program import REGION_RANK, SchemaArrays

__all__ = ["counted_slots"]


def counted_slots(arrays: SchemaArrays) -> list[NDArray[np.int32]]:
    """Return the fields from OBJECT_SINGLES to SLOT_NEXT (``fields``), int32; O(slots log slots).

    Args:
        arrays: Of objects O and slots N.
    """
    offsets = arrays.object_slot_offsets
    single = arrays.slot_single.astype(np.int64)
    needed = single * arrays.slot_required
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    singles, required = _sums(single, offsets), _sums(needed, offsets)
    # Slots by rank, from the last to the first; a slot's own rank does not count.
    order = np.lexsort((-arrays.slot_rank.astype(np.int64), owner))
    rank, held = arrays.slot_rank[order].astype(np.int64), owner[order]
    left, more = _before(single[order]), _before(needed[order])
    starts = offsets[:-1][held]
    group = np.arange(len(order))
    new = np.ones(len(order), np.bool_)
    new[1:] = (rank[1:] != rank[:-1]) | (held[1:] != held[:-1])
    first = np.maximum.accumulate(np.where(new, group, 0))
    left, more = left[first] - left[starts], more[first] - more[starts]
    least = _least_rank(rank, needed[order], first, starts)
    columns = [np.zeros(len(order), np.int32) for _ in range(3)]
    for column, values in zip(columns, (left, more, least), strict=True):
        column[order] = values
    lowest = np.full(len(offsets) - 1, REGION_RANK, np.int64)
    chosen = needed.astype(np.bool_)
    np.minimum.at(lowest, owner[chosen], arrays.slot_rank[chosen])
    return [np.ascontiguousarray(v, np.int32) for v in (singles, required, lowest, *columns)]


def _sums(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def _before(values: NDArray[Any]) -> NDArray[np.int64]:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total[:-1]


def _least_rank(
    rank: NDArray[np.int64],
    needed: NDArray[np.int64],
    first: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rank of the last required slot before each place's group, in its object."""
    places = np.where(needed > 0, np.arange(len(rank)), -1)
    last = np.full(len(rank) + 1, -1, np.int64)
    np.maximum.accumulate(places, out=last[1:])
    found = last[first]
    return np.where(found >= starts, rank[np.maximum(found, 0)], REGION_RANK)
