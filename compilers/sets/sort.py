"""Sorting token rows: lexicographically by token id, a prefix before its continuations.

Several tokens are packed into one 64-bit key (token + 1, so that 0 says "the row ends here"). All
rows are sorted by the key of their first tokens; rows whose keys are equal are sorted again by the
key of the next tokens, level by level, small groups directly. Equal rows keep their input order.
Sorted runs are merged by a k-way merge with a heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

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
    depth = _shared_prefix(tokens, offsets)
    keys = np.empty(n, np.uint64)
    _first_keys(tokens, offsets, depth, bits, keys)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts, stops = _equal_runs(keys, np.zeros(1, np.int64), np.full(1, n, np.int64), bits)
    while len(starts):
        depth += 64 // bits
        is_small = stops - starts <= _SMALL
        _finish(tokens, offsets, order, starts[is_small], stops[is_small], depth)
        starts, stops = starts[~is_small], stops[~is_small]
        _next_keys(tokens, offsets, order, starts, stops, depth, bits, keys)
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
    _merge(tokens, offsets, run_offsets, order)
    return order


@kernel
def _shared_prefix(tokens: NDArray[np.int32], offsets: NDArray[np.int64]) -> int:
    """Return how many leading tokens all rows have in common."""
    shared = offsets[1] - offsets[0]
    for i in range(1, len(offsets) - 1):
        limit = min(shared, offsets[i + 1] - offsets[i])
        k = 0
        while k < limit and tokens[offsets[i] + k] == tokens[offsets[0] + k]:
            k += 1
        shared = k
        if shared == 0:
            break
    return int(shared)


@inner(inline="always")
def _key(tokens: NDArray[np.int32], at: int, stop: int, bits: int) -> Any:
    """Pack the tokens at ``at`` into one key, the first in the highest bits, 0 past the end."""
    key = np.uint64(0)
    for k in range(64 // bits):
        value = tokens[at + k] + 1 if at + k < stop else 0
        key = (key << np.uint64(bits)) | np.uint64(value)
    return key


@kernel
def _first_keys(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    depth: int,
    bits: int,
    keys: NDArray[np.uint64],
) -> None:
    for i in range(len(keys)):
        keys[i] = _key(tokens, offsets[i] + depth, offsets[i + 1], bits)


@kernel
def _next_keys(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    depth: int,
    bits: int,
    keys: NDArray[np.uint64],
) -> None:
    """Write the keys of the tokens from ``depth`` on, of the rows of every group."""
    for g in range(len(starts)):
        for i in range(starts[g], stops[g]):
            stop = offsets[order[i] + 1]
            keys[i] = _key(tokens, min(offsets[order[i]] + depth, stop), stop, bits)


@kernel
def _equal_runs(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], stops: NDArray[np.int64], bits: int
) -> Any:
    """Return starts and stops of the runs of two or more equal keys within groups.

    Rows that end within their key are equal, and a run of those is left out.
    """
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    next_starts = next_stops = np.empty(0, np.int64)
    for is_written in (False, True):
        found = 0
        for g in range(len(starts)):
            begin = starts[g]
            for i in range(begin + 1, stops[g] + 1):
                if i < stops[g] and keys[i] == keys[begin]:
                    continue
                if i - begin > 1 and keys[begin] & last != np.uint64(0):
                    if is_written:
                        next_starts[found], next_stops[found] = begin, i
                    found += 1
                begin = i
        if not is_written:
            next_starts, next_stops = np.empty(found, np.int64), np.empty(found, np.int64)
    return next_starts, next_stops


@inner
def _precedes(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], a: int, b: int, depth: int
) -> bool:
    """Say whether row a sorts before row b; both share ``depth`` tokens. Equal rows by number."""
    at, bt = offsets[a] + depth, offsets[b] + depth
    a_stop, b_stop = offsets[a + 1], offsets[b + 1]
    while at < a_stop and bt < b_stop:
        if tokens[at] != tokens[bt]:
            return bool(tokens[at] < tokens[bt])
        at += 1
        bt += 1
    if at < a_stop:
        return False
    return bt < b_stop or a < b


@kernel
def _finish(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    depth: int,
) -> None:
    """Sort the rows of small groups by insertion; they share ``depth`` tokens."""
    for g in range(len(starts)):
        for i in range(starts[g] + 1, stops[g]):
            row = order[i]
            k = i
            while k > starts[g] and _precedes(tokens, offsets, row, order[k - 1], depth):
                order[k] = order[k - 1]
                k -= 1
            order[k] = row


@kernel
def _merge(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    run_offsets: NDArray[np.int64],
    order: NDArray[np.int64],
) -> None:
    """Merge with a binary heap of the runs' next rows."""
    heap = np.empty(len(run_offsets), np.int64)
    ends = np.empty(len(run_offsets), np.int64)
    size = 0
    for run in range(len(run_offsets) - 1):
        if run_offsets[run] < run_offsets[run + 1]:
            heap[size], ends[size] = run_offsets[run], run_offsets[run + 1]
            size += 1
    for top in range(size // 2 - 1, -1, -1):
        _sift(tokens, offsets, heap, ends, top, size)
    for i in range(len(order)):
        order[i] = heap[0]
        heap[0] += 1
        if heap[0] == ends[0]:
            size -= 1
            heap[0], ends[0] = heap[size], ends[size]
        _sift(tokens, offsets, heap, ends, 0, size)


@inner
def _sift(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    heap: NDArray[np.int64],
    ends: NDArray[np.int64],
    at: int,
    size: int,
) -> None:
    """Move the entry at ``at`` down to its place."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _precedes(tokens, offsets, heap[child + 1], heap[child], 0):
            child += 1
        if not _precedes(tokens, offsets, heap[child], heap[at], 0):
            return
        heap[at], heap[child] = heap[child], heap[at]
        ends[at], ends[child] = ends[child], ends[at]
        at = child
