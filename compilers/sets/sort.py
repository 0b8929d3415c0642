"""Sorting token rows: lexicographically by token id, a prefix before its continuations.

Several tokens are packed into one 64-bit key (token + 1, so that 0 says "the row ends here"). All
rows are sorted by the key of their first tokens; rows whose keys are equal are sorted again by the
key of the next tokens, level by level, small groups directly. Equal rows keep their input order.
Sorted runs are merged by a k-way merge with a heap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_SMALL = 24
"""Groups up to this size are finished by insertion sort, comparing whole rows."""


def sort_rows(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], vocabulary_size: int
) -> NDArray[np.int64]:
    """Return the order that sorts the rows.

    Args:
        tokens: int32[T] flat token ids, all in [0, vocabulary_size).
        offsets: int64[n + 1]; row i is ``tokens[offsets[i]:offsets[i + 1]]``.
        vocabulary_size: Decides how many tokens fit into one key.

    Returns:
        int64[n] row numbers in sorted order, equal rows in input order. Cost: one sort of 64-bit
        keys, and one more pass for each further ``64 / log2(V)`` tokens that rows share.
        Memory: 28 bytes a row.
    """
    n = len(offsets) - 1
    bits = max(1, int(vocabulary_size).bit_length())
    depth = library.shared_prefix(tokens, offsets)
    keys = np.empty(n, np.uint64)
    library.first_keys(tokens, offsets, depth, bits, keys)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts, stops = _equal_runs(keys, np.zeros(1, np.int64), np.full(1, n, np.int64), bits)
    while len(starts):
        depth += 64 // bits
        is_small = stops - starts <= _SMALL
        library.sort_groups(tokens, offsets, order, starts[is_small], stops[is_small], depth)
        starts, stops = starts[~is_small], stops[~is_small]
        library.next_keys(tokens, offsets, order, starts, stops, depth, bits, keys)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            # subtle: equal rows stay in input order only if every sort is stable.
            by_key = np.argsort(keys[start:stop], kind="stable")
            keys[start:stop] = keys[start:stop][by_key]
            order[start:stop] = order[start:stop][by_key]
        starts, stops = _equal_runs(keys, starts, stops, bits)
    return order


def merge_runs(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], run_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Merge sorted runs of rows.

    Args:
        tokens: int32[T] flat token ids.
        offsets: int64[n + 1].
        run_offsets: int64[k + 1]; run j holds the rows ``run_offsets[j]:run_offsets[j + 1]``,
            sorted; runs in input order.

    Returns:
        int64[n] row numbers in sorted order, equal rows in input order. O(n log k) comparisons.
    """
    order = np.empty(len(offsets) - 1, np.int64)
    library.merge_runs(tokens, offsets, run_offsets, order)
    return order


def _equal_runs(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], stops: NDArray[np.int64], bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and stops of the runs of two or more equal keys within groups.

    Rows that end within their key are equal, and a run of those is left out.
    """
    nothing = np.empty(0, np.int64)
    found = library.equal_runs(keys, starts, stops, bits, nothing, nothing)
    run_starts, run_stops = np.empty(found, np.int64), np.empty(found, np.int64)
    library.equal_runs(keys, starts, stops, bits, run_starts, run_stops)
    return run_starts, run_stops
