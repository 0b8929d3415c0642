"""Synthetic token rows shaped like titles: Zipfian tokens, shared beginnings, prefix members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LENGTHS = np.array([0.04, 0.14, 0.2, 0.18, 0.13, 0.1, 0.07, 0.05, 0.03, 0.02, 0.015, 0.01, 0.015])
"""Share of rows with 1, 2, ... tokens: about 4.6 on average, as titles have under BPE."""


def title_rows(
    n: int, vocabulary_size: int, seed: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Draw about ``n`` distinct rows, sorted lexicographically.

    A tenth of the rows continue another row, so members are prefixes of members.

    Args:
        n: Rows drawn; duplicates among them are drawn again, a few may be missing in the end.
        vocabulary_size: Token ids are below it.
        seed: Of the generator.

    Returns:
        tokens int32[T], row_offsets int64[R + 1].
    """
    rng = np.random.default_rng(seed)
    ids = rng.permutation(vocabulary_size).astype(np.int32)
    width = len(_LENGTHS)
    padded = np.empty((0, width), np.int32)
    missing = n
    while missing > n // 1000:
        fresh = _draw(missing + missing // 4, width, ids, rng)
        padded = np.concatenate([padded, fresh])
        padded = padded[_distinct_order(padded)]
        missing = n - len(padded)
    if len(padded) > n:
        padded = padded[np.sort(rng.choice(len(padded), n, replace=False))]
    used = padded >= 0
    offsets = np.zeros(len(padded) + 1, np.int64)
    np.cumsum(used.sum(1), out=offsets[1:])
    return padded[used], offsets


def _draw(
    n: int, width: int, ids: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw rows int32[n, width] padded with -1; not distinct."""
    size = len(ids)
    lengths = 1 + rng.choice(width, n, p=_LENGTHS / _LENGTHS.sum())
    # Zipf's law by inversion of its integral: rank = (1 + size) ** u - 1.
    rows = ids[((size + 1.0) ** rng.random((n, width), np.float32) - 1).astype(np.int64) % size]
    continued = rng.integers(0, n, n // 10)
    at = rng.integers(0, n, n // 10)
    rows[at] = rows[continued]
    lengths[at] = np.minimum(lengths[continued] + 1 + rng.integers(0, 3, n // 10), width)
    rows[np.arange(width) >= lengths[:, None]] = -1
    return rows


def _distinct_order(padded: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the places of the distinct rows in lexicographic order; -1 sorts a prefix first."""
    packed = (padded.astype(np.int64) + 1).astype(np.uint64)
    keys = [
        (packed[:, i] << np.uint64(42)) | (packed[:, i + 1] << np.uint64(21)) | packed[:, i + 2]
        for i in range(0, packed.shape[1] - 2, 3)
    ]
    rest = packed.shape[1] % 3
    keys += [packed[:, packed.shape[1] - i] for i in range(rest, 0, -1)]
    order = np.lexsort(keys[::-1])
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    return order[fresh]
