"""Sorting token rows: lexicographically by token id, a prefix before its continuations.

Several tokens are packed into one 64-bit key (token + 1, so that 0 says "the row ends here"). All
rows are sorted by the key of their first tokens; rows whose keys are equal are sorted again by the
key of the next tokens, level by level, small groups directly. Equal rows keep their input order.
Sorted runs are merged by a k-way merge with a heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
        Memory: 24 bytes a row.
    """
    n = len(offsets) - 1
    bits = max(1, int(vocabulary_size).bit_length())
    depth = _shared_prefix(tokens, offsets)
    keys = np.empty(n, np.uint64)
    _first_keys(tokens, offsets, depth, bits, keys)
    order = np.argsort(keys)
    keys = keys[order]
    starts, stops = _equal_runs(keys)
    while len(starts):
        depth += 64 // bits
        starts, stops = _refine(tokens, offsets, order, keys, starts, stops, depth, bits)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, inline="always")
def _key(tokens: NDArray[np.int32], at: int, stop: int, bits: int) -> Any:
    """Pack the tokens at ``at`` into one key, the first in the highest bits, 0 past the end."""
    key = np.uint64(0)
    for k in range(64 // bits):
        value = tokens[at + k] + 1 if at + k < stop else 0
        key = (key << np.uint64(bits)) | np.uint64(value)
    return key


@njit(cache=True, nogil=True)
def _first_keys(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    depth: int,
    bits: int,
    keys: NDArray[np.uint64],
) -> None:
    for i in range(len(keys)):
        keys[i] = _key(tokens, offsets[i] + depth, offsets[i + 1], bits)


@njit(cache=True, nogil=True)
def _equal_runs(keys: NDArray[np.uint64]) -> Any:
    """Return starts and stops of the runs of two or more equal keys."""
    found = 0
    for i in range(1, len(keys)):
        found += keys[i] == keys[i - 1] and (i == 1 or keys[i - 2] != keys[i])
    starts, stops = np.empty(found, np.int64), np.empty(found, np.int64)
    found = 0
    start = 0
    for i in range(1, len(keys) + 1):
        if i < len(keys) and keys[i] == keys[start]:
            continue
        if i - start > 1:
            starts[found], stops[found] = start, i
            found += 1
        start = i
    return starts, stops


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _refine(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    keys: NDArray[np.uint64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    depth: int,
    bits: int,
) -> Any:
    """Sort every group of rows that share ``depth`` tokens; return the groups still undecided."""
    room = 0
    for g in range(len(starts)):
        room += (stops[g] - starts[g]) // (_SMALL + 1)
    next_starts, next_stops = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for g in range(len(starts)):
        start, stop = starts[g], stops[g]
        if stop - start <= _SMALL:
            _insertion_sort(tokens, offsets, order, start, stop, depth)
            continue
        for i in range(start, stop):
            keys[i] = _key(
                tokens,
                min(offsets[order[i]] + depth, offsets[order[i] + 1]),
                offsets[order[i] + 1],
                bits,
            )
        by_key = np.argsort(keys[start:stop], kind="mergesort")
        keys[start:stop] = keys[start:stop][by_key]
        order[start:stop] = order[start:stop][by_key]
        begin = start
        for i in range(start + 1, stop + 1):
            if i < stop and keys[i] == keys[begin]:
                continue
            found = _close_group(
                tokens, offsets, order, keys, begin, i, depth, bits, next_starts, next_stops, found
            )
            begin = i
    return next_starts[:found], next_stops[:found]


@njit(cache=True, nogil=True)
def _close_group(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    keys: NDArray[np.uint64],
    start: int,
    stop: int,
    depth: int,
    bits: int,
    next_starts: NDArray[np.int64],
    next_stops: NDArray[np.int64],
    found: int,
) -> int:
    """Finish a group of equal keys, or put it off to the next level."""
    if stop - start < 2:
        return found
    last = keys[start] & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
    if last == np.uint64(0):
        # The rows end within the key: they are equal, and stay in input order.
        order[start:stop].sort()
    elif stop - start <= _SMALL:
        _insertion_sort(tokens, offsets, order, start, stop, depth + 64 // bits)
    else:
        next_starts[found], next_stops[found] = start, stop
        found += 1
    return found


@njit(cache=True, nogil=True)
def _insertion_sort(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    start: int,
    stop: int,
    depth: int,
) -> None:
    for i in range(start + 1, stop):
        row = order[i]
        k = i
        while k > start and _precedes(tokens, offsets, row, order[k - 1], depth):
            order[k] = order[k - 1]
            k -= 1
        order[k] = row


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
