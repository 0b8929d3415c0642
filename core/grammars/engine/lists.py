"""Lists of integers, each stored once, so that equal lists have equal numbers.

A list stands in LIST_ITEMS from LIST_OFFSETS[number] on; its first item says what it holds
(SUSPENSIONS and so on, or ``kind | tree << 2`` in ``masks``), the others are counted from 0. The
list that is being written stands behind LIST_ITEMS in use, up to the scalar LIST_END. The first
lists, one a tree, are empty; behind them, up to STORED, stand those of the artifact, which
LIST_TABLE learns of (up to INDEXED) when the first list is written.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    Pointer,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    lack,
    lookup,
    mixed,
    put,
    size,
    use,
    used,
)
from cdec.core.kernels import inner

__all__ = [
    "PART",
    "QUESTIONS",
    "SUSPENSIONS",
    "append",
    "begin_list",
    "end_list",
    "head",
    "item",
    "length",
    "list_in",
    "merged",
    "push_pair64",
    "sort_pairs",
]


SUSPENSIONS, QUESTIONS, PART = -1, -2, -3
"""First items of lists that ``masks.partial`` describes."""


@inner
def begin_list(e: int, first: int) -> None:
    """Begin a list, with what it holds."""
    put(e, f.LIST_END, used(e, f.LIST_ITEMS))
    append(e, first)


@inner
def append(e: int, value: int) -> None:
    """Append an item to the list that is being written."""
    end = get(e, f.LIST_END)
    if has_room(e, f.LIST_ITEMS, end + 1 - used(e, f.LIST_ITEMS)):
        int64s(e, f.LIST_ITEMS)[end] = value
        put(e, f.LIST_END, end + 1)


@inner
def _key(items: Pointer, start: int, n: int) -> int:
    """Hash a list."""
    key = n
    for i in range(n):
        key = mixed(key ^ items[start + i])
    return key if key != -1 else 0


@inner
def _index(e: int) -> bool:
    """Enter the artifact's lists in LIST_TABLE; False after a lack of room."""
    stored, length = get(e, f.STORED), 64
    while length < 4 * stored:
        length *= 2
    if size(e, f.LIST_TABLE) < length:
        lack(e, f.LIST_TABLE, length)
        return False
    offsets, items = int64s(e, f.LIST_OFFSETS), int64s(e, f.LIST_ITEMS)
    for number in range(get(e, f.INDEXED), stored):
        key = _key(items, offsets[number], offsets[number + 1] - offsets[number])
        while lookup(e, f.LIST_TABLE, key) != ABSENT:
            key = mixed(key ^ 1)
        if not insert(e, f.LIST_TABLE, key, number):
            return False
        put(e, f.INDEXED, number + 1)
    return True


@inner
def end_list(e: int) -> int:
    """Return the number of the list that was written, new or known; 0 after a lack of room."""
    if get(e, f.INDEXED) < get(e, f.STORED) and not _index(e):
        return 0
    offsets, items = int64s(e, f.LIST_OFFSETS), int64s(e, f.LIST_ITEMS)
    start = used(e, f.LIST_ITEMS)
    n = get(e, f.LIST_END) - start
    key = _key(items, start, n)
    while True:
        known = lookup(e, f.LIST_TABLE, key)
        if known == ABSENT:
            break
        at, same = offsets[known], 0
        if offsets[known + 1] - at == n:
            while same < n and items[at + same] == items[start + same]:
                same += 1
            if same == n:
                return known
        key = mixed(key ^ 1)
    new = used(e, f.LIST_OFFSETS) - 1
    if not has_room(e, f.LIST_OFFSETS, 1) or not insert(e, f.LIST_TABLE, key, new):
        return 0
    offsets[new + 1] = start + n
    int32s(e, f.LIST_MASK)[new] = -1
    use(e, f.LIST_OFFSETS, new + 2)
    use(e, f.LIST_ITEMS, start + n)
    return new


@inner
def list_in(e: int, number: int, i: int) -> int:
    """Return a list that a list names; 0, which is empty, where an artifact is damaged."""
    if i >= length(e, number):
        return 0
    named = item(e, number, i)
    return named if get(e, f.TREES) <= named < used(e, f.LIST_OFFSETS) - 1 else 0


@inner
def head(e: int, number: int) -> int:
    """Return what a list holds."""
    return int64s(e, f.LIST_ITEMS)[int64s(e, f.LIST_OFFSETS)[number]]


@inner
def length(e: int, number: int) -> int:
    """Return how many items a list has; -1 for one of the first, which are empty."""
    offsets = int64s(e, f.LIST_OFFSETS)
    return offsets[number + 1] - offsets[number] - 1


@inner
def item(e: int, number: int, i: int) -> int:
    """Return the i-th item of a list."""
    return int64s(e, f.LIST_ITEMS)[int64s(e, f.LIST_OFFSETS)[number] + 1 + i]


@inner
def merged(e: int, a: int, b: int) -> int:
    """Return the union of two lists that hold the same, ascending. O(1) if done before."""
    if a == b:
        return a
    key = (min(a, b) << 32) | max(a, b)
    known = lookup(e, f.PAIR_TABLE, key)
    if known != ABSENT:
        return known
    begin_list(e, head(e, a))
    i, j, n, m = 0, 0, length(e, a), length(e, b)
    while i < n or j < m:
        if j >= m or (i < n and item(e, a, i) <= item(e, b, j)):
            if j < m and item(e, a, i) == item(e, b, j):
                j += 1
            append(e, item(e, a, i))
            i += 1
        else:
            append(e, item(e, b, j))
            j += 1
    result = end_list(e)
    insert(e, f.PAIR_TABLE, key, result)
    return result


@inner
def push_pair64(e: int, field: int, a: int, b: int) -> None:
    """Put a pair of int64 behind those in use in a field."""
    n = used(e, field)
    if has_room(e, field, 2):
        pairs = int64s(e, field)
        pairs[n], pairs[n + 1] = a, b
        use(e, field, n + 2)


@inner
def sort_pairs(pairs: Pointer, n: int) -> None:
    """Sort n pairs of int64 in place (Shell's method: no recursion, no memory)."""
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            a, b, at = pairs[2 * i], pairs[2 * i + 1], i - gap
            while at >= 0 and (pairs[2 * at] > a or (pairs[2 * at] == a and pairs[2 * at + 1] > b)):
                pairs[2 * (at + gap)], pairs[2 * (at + gap) + 1] = pairs[2 * at], pairs[2 * at + 1]
                at -= gap
            pairs[2 * (at + gap)], pairs[2 * (at + gap) + 1] = a, b
        gap //= 3
