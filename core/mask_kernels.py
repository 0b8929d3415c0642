"""What packed masks allow, as lists; a session's lists read off its masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_MASK_BYTES = 4 << 20
"""Bytes of masks that are filled at once."""

Fill = Callable[[NDArray[np.int64], NDArray[np.int32]], None]
"""A session's ``fill_mask``."""


def count_bits(mask: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return how many tokens each row of a mask ``int32[n, words]`` allows, int64[n]."""
    counts: NDArray[np.int64] = np.bitwise_count(mask.view(np.uint32)).sum(axis=1, dtype=np.int64)
    return counts


def list_bits(mask: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the tokens that masks allow: offsets int64[n + 1], ids int32[...] ascending by row.

    Args:
        mask: int32[n, words], C-contiguous.
    """
    offsets = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(count_bits(mask), out=offsets[1:])
    ids = np.empty(int(offsets[-1]), np.int32)
    library.list_bits(mask.view(np.uint32), offsets, ids)
    return offsets, ids


def find_only(mask: NDArray[np.int32], end_ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the only event that each row of a mask allows, int32[n]; -1 for none or a choice.

    Args:
        mask: int32[n, words], C-contiguous.
        end_ids: int64[E] ascending: they count as one event, given as the smallest that is set.
    """
    only = np.empty(len(mask), np.int32)
    library.find_only(mask.view(np.uint32), end_ids, only)
    return only


def allowed_of_masks(
    fill: Fill, states: NDArray[np.int64], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what a session's ``allowed`` does, read off its masks of ``words`` int32 each."""
    parts = [list_bits(mask) for mask in _masks(fill, states, words)]
    offsets = np.zeros(len(states) + 1, np.int64)
    np.cumsum([n for starts, _ in parts for n in np.diff(starts).tolist()], out=offsets[1:])
    return offsets, np.concatenate([ids for _, ids in parts] or [np.empty(0, np.int32)])


def forced_of_masks(
    fill: Fill, states: NDArray[np.int64], words: int, end_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what a session's ``forced`` does, read off its masks of ``words`` int32 each."""
    parts = [find_only(mask, end_ids) for mask in _masks(fill, states, words)]
    only = np.concatenate(parts or [np.empty(0, np.int32)])
    offsets = np.zeros(len(states) + 1, np.int64)
    np.cumsum(only >= 0, out=offsets[1:])
    return offsets, only[only >= 0]


def _masks(fill: Fill, states: NDArray[np.int64], words: int) -> Iterator[NDArray[np.int32]]:
    """Yield the masks of the states in their order, some at a time."""
    step = max(1, _MASK_BYTES // (4 * words))
    for first in range(0, len(states), step):
        some = states[first : first + step]
        mask = np.empty((len(some), words), np.int32)
        fill(some, mask)
        yield mask
