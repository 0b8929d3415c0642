"""The edges of a level of the generalised parser, shifted: stacks that are united all at once."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import Pointer, get, has_room, int32s, int64s, used
from cdec.core.grammars.engine.stacks import (
    action_row,
    failed,
    make_set,
    member,
    members,
    union,
    vertex,
)
from cdec.core.grammars.engine.work import spend
from cdec.core.kernels import inner

__all__ = ["shift_level", "united"]


@inner
def shift_level(e: int, terminal: int) -> int:
    """Shift the terminal from every LR state of the level that can; return the stacks."""
    n, room = used(e, f.EDGE_STATE), 0
    spend(e, n)
    for i in range(n):
        room += members(e, int32s(e, f.EDGE_BASE)[i])
    if not has_room(e, f.SORTED, 2 * n + room):
        return f.FAIL
    edges, tops, m = int64s(e, f.SORTED), 0, 0
    values, lr_states = int32s(e, f.ACTION_VALUES), get(e, f.LR_STATES)
    for i in range(n):
        state = int32s(e, f.EDGE_STATE)[i]
        row = action_row(e, state, terminal)
        if row >= 0 and 0 <= values[row] < lr_states:
            edges[m] = (state << 32) | i
            m += 1
    _sort(edges, 0, m)
    i = 0
    while i < m:
        state, start = edges[i] >> 32, i
        while i < m and (edges[i] >> 32) == state:
            i += 1
        below = _below(e, start, i, 2 * n)
        target = values[action_row(e, state, terminal)]
        edges[n + tops] = (target << 32) | vertex(e, state, below)
        tops += 1
    _sort(edges, n, tops)
    return _group(e, n, tops)


@inner
def _below(e: int, start: int, stop: int, room: int) -> int:
    """Return the union of the stacks below the edges in SORTED from ``start`` to ``stop``.

    From ``room`` on SORTED is free.
    """
    edges, bases, count = int64s(e, f.SORTED), int32s(e, f.EDGE_BASE), 0
    if stop == start + 1:
        return bases[_low_half(edges[start])]
    for i in range(start, stop):
        stack = bases[_low_half(edges[i])]
        for j in range(members(e, stack)):
            edges[room + count] = member(e, stack, j)
            count += 1
    return united(e, room, count)


@inner
def _group(e: int, start: int, count: int) -> int:
    """Return the stacks whose tops are the targets, and below them the sources, of shifts.

    SORTED holds ``target << 32 | source vertex``.
    """
    pairs, i, tops = int64s(e, f.SORTED), start, 0
    while i < start + count:
        target, first = pairs[i] >> 32, i
        while i < start + count and (pairs[i] >> 32) == target:
            i += 1
        # subtle: below ``start`` the sorted edges are no longer needed.
        pairs[tops] = vertex(e, target, united(e, first, i - first))
        tops += 1
    return united(e, 0, tops)


@inner
def united(e: int, start: int, count: int) -> int:
    """Return the union of ``count`` vertices, the lower halves of SORTED from ``start`` on.

    All at once: one after the other they would leave a set for each of them behind.
    """
    pairs, states, belows = (
        int64s(e, f.SORTED),
        int32s(e, f.VERTEX_STATE),
        int32s(e, f.VERTEX_BELOW),
    )
    if count == 1:
        return _low_half(pairs[start])
    is_sorted = True
    for i in range(start, start + count):
        source = _low_half(pairs[i])
        pairs[i] = (states[source] << 32) | source
        is_sorted = is_sorted and (i == start or pairs[i] > pairs[i - 1])
    if not is_sorted:
        _sort(pairs, start, count)
    i, n = start, 0
    while i < start + count:
        source = _low_half(pairs[i])
        below, i = belows[source], i + 1
        while i < start + count and (pairs[i] >> 32) == states[source]:
            below, i = union(e, below, belows[_low_half(pairs[i])]), i + 1
        pairs[start + n] = vertex(e, states[source], below)
        n += 1
    if failed(e) or not has_room(e, f.SET_ITEMS, n):
        return f.FAIL
    items, first = int32s(e, f.SET_ITEMS), used(e, f.SET_ITEMS)
    for j in range(n):
        items[first + j] = pairs[start + j]
    return make_set(e, n)


@inner
def _low_half(packed: int) -> int:
    """Return the signed lower 32 bits."""
    return (packed << 32) >> 32


@inner
def _sort(values: Pointer, start: int, count: int) -> None:
    """Sort int64 values in place (heap sort: no recursion, no memory)."""
    for i in range(count // 2 - 1, -1, -1):
        _sift(values, start, i, count)
    for stop in range(count - 1, 0, -1):
        values[start], values[start + stop] = values[start + stop], values[start]
        _sift(values, start, 0, stop)


@inner
def _sift(values: Pointer, start: int, root: int, count: int) -> None:
    while 2 * root + 1 < count:
        child = 2 * root + 1
        if child + 1 < count and values[start + child] < values[start + child + 1]:
            child += 1
        if values[start + root] >= values[start + child]:
            return
        values[start + root], values[start + child] = values[start + child], values[start + root]
        root = child
