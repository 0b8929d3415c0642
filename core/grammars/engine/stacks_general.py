"""Shifting a terminal with the generalised parser: every action counts, over a graph of stacks.

Generalised LR parsing (Tomita 1985). Its later variants (right-nulled, reduction-incorporated) are
not needed: no rule is empty here, so the base of every reduction lies below the *level* at work,
the edges (LR state, vertex below) that reductions before one terminal lead to.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    EMPTY,
    Pointer,
    get,
    has_room,
    int32s,
    int64s,
    lack,
    mixed,
    put,
    size,
    use,
    used,
)
from cdec.core.grammars.engine.stacks import (
    action_row,
    failed,
    goto_state,
    make_set,
    member,
    members,
    suspend,
    union,
    vertex,
)
from cdec.core.kernels import inner

__all__ = ["shift_general"]


@inner
def shift_general(e: int, stack: int, terminal: int, build: bool) -> int:
    """Return the stacks after all ways to reduce and shift; FAIL if there is none.

    Reductions that pop past the hole of a partial stack are SUSPENDED.

    Args:
        e: Engine.
        stack: A stack value.
        terminal: To shift.
        build: Else SHIFTABLE stands for any stack.
    """
    values, terminals = int32s(e, f.ACTION_VALUES), int32s(e, f.ACTION_TERMINALS)
    _begin_level(e)
    for i in range(members(e, stack)):
        top = member(e, stack, i)
        state, below = int32s(e, f.VERTEX_STATE)[top], int32s(e, f.VERTEX_BELOW)[top]
        if below == f.NONE:
            _add_edge(e, state, f.NONE)
        for j in range(members(e, below) if below != f.NONE else 0):
            _add_edge(e, state, member(e, below, j))
    at, shifts = 0, 0
    while at < used(e, f.EDGE_STATE) and not failed(e):
        state, base = int32s(e, f.EDGE_STATE)[at], int32s(e, f.EDGE_BASE)[at]
        at += 1
        row = action_row(e, state, terminal)
        stop = size(e, f.ACTION_TERMINALS)
        while 0 <= row < stop and terminals[row] == terminal and _in_state(e, state, row):
            value = values[row]
            row += 1
            if value >= 0:
                if not build:
                    return f.SHIFTABLE
                shifts += 1
            elif base >= 0:
                _reduce(e, ~value, base)
    if shifts == 0 or failed(e):
        return f.FAIL
    return _shift_level(e, terminal)


@inner
def _in_state(e: int, state: int, row: int) -> bool:
    return row < int32s(e, f.ACTION_OFFSETS)[state + 1]


@inner
def _begin_level(e: int) -> None:
    """Forget the edges of the last level."""
    put(e, f.LEVEL, get(e, f.LEVEL) + 1)
    use(e, f.EDGE_STATE, 0)


@inner
def _add_edge(e: int, state: int, base: int) -> None:
    """Add (LR state, vertex below) to the level, once.

    subtle: the table of edges is emptied by its stamp: an older entry counts as free, in probing
    too, which is right because a level's own entries are always reached before its free places.
    """
    stamp, key = get(e, f.LEVEL), (state << 32) | (base & 0xFFFFFFFF)
    keys, stamps = int64s(e, f.EDGE_TABLE), int64s(e, f.EDGE_TABLE + 1)
    mask = size(e, f.EDGE_TABLE) - 1
    at = mixed(key) & mask
    while keys[at] != EMPTY and stamps[at] == stamp:
        if keys[at] == key:
            return
        at = (at + 1) & mask
    n = used(e, f.EDGE_STATE)
    if not has_room(e, f.EDGE_STATE, 1):
        return
    if 2 * (n + 1) > mask:
        lack(e, f.EDGE_TABLE, 2 * (mask + 1))
        return
    keys[at], stamps[at] = key, stamp
    int32s(e, f.EDGE_STATE)[n] = state
    int32s(e, f.EDGE_BASE)[n] = base
    use(e, f.EDGE_STATE, n + 1)


@inner
def _reduce(e: int, rule: int, base: int) -> None:
    """Add the edges of all ways to reduce a rule whose last symbol stands on ``base``."""
    if rule >= get(e, f.RULES):
        return
    length, lhs = int32s(e, f.RULE_LENGTH)[rule], int32s(e, f.RULE_LHS)[rule]
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    if length == 1:
        _go_on(e, base, lhs)
        return
    if length < 1 or not has_room(e, f.FRONTIER, used(e, f.VERTEX_STATE)):
        return
    here, there = int32s(e, f.FRONTIER), int32s(e, f.FRONTIER_NEXT)
    marks, n = int64s(e, f.VERTEX_MARK), 1
    here[0] = base
    for left in range(length - 1, 0, -1):
        stamp, m = get(e, f.STAMP) + 1, 0
        put(e, f.STAMP, stamp)
        for i in range(n):
            if states[here[i]] == get(e, f.LR_STATES):
                suspend(e, lhs, left)
                continue
            below = belows[here[i]]
            for j in range(members(e, below) if below != f.NONE else 0):
                found = member(e, below, j)
                if marks[found] != stamp:
                    marks[found] = stamp
                    there[m] = found
                    m += 1
        here, there, n = there, here, m
    for i in range(n):
        _go_on(e, here[i], lhs)


@inner
def _go_on(e: int, base: int, lhs: int) -> None:
    """Add the edge of a nonterminal above a vertex; above the hole it must wait."""
    state = int32s(e, f.VERTEX_STATE)[base]
    if state == get(e, f.LR_STATES):
        suspend(e, lhs, 0)
        return
    target = goto_state(e, state, lhs)
    if target >= 0:
        _add_edge(e, target, base)


@inner
def _shift_level(e: int, terminal: int) -> int:
    """Shift the terminal from every LR state of the level that can; return the stacks."""
    n = used(e, f.EDGE_STATE)
    if not has_room(e, f.SORTED, 2 * n):
        return f.FAIL
    edges, tops, m = int64s(e, f.SORTED), 0, 0
    values = int32s(e, f.ACTION_VALUES)
    for i in range(n):
        state = int32s(e, f.EDGE_STATE)[i]
        row = action_row(e, state, terminal)
        if row >= 0 and 0 <= values[row] < get(e, f.LR_STATES):
            edges[m] = (state << 32) | (int32s(e, f.EDGE_BASE)[i] & 0xFFFFFFFF)
            m += 1
    _sort(edges, 0, m)
    i = 0
    while i < m:
        state = edges[i] >> 32
        below = _low_half(edges[i])
        i += 1
        while i < m and (edges[i] >> 32) == state:
            below = union(e, below, _low_half(edges[i]))
            i += 1
        target = values[action_row(e, state, terminal)]
        edges[n + tops] = (target << 32) | vertex(e, state, below)
        tops += 1
    _sort(edges, n, tops)
    return _group(e, n, tops)


@inner
def _group(e: int, start: int, count: int) -> int:
    """Return the stacks whose tops are the targets, and below them the sources, of shifts.

    SORTED holds ``target << 32 | source vertex``; sources of one target have distinct LR states,
    but are sorted by vertex, not by state.
    """
    pairs, states = int64s(e, f.SORTED), int32s(e, f.VERTEX_STATE)
    if not has_room(e, f.SET_ITEMS, 2 * count):
        return f.FAIL
    i, tops = start, 0
    while i < start + count:
        target, n = pairs[i] >> 32, 0
        first = used(e, f.SET_ITEMS)
        items = int32s(e, f.SET_ITEMS)
        while i < start + count and (pairs[i] >> 32) == target:
            place, source = first + n, _low_half(pairs[i])
            while place > first and states[items[place - 1]] > states[source]:
                items[place] = items[place - 1]
                place -= 1
            items[place] = source
            n += 1
            i += 1
        # subtle: below ``start`` the sorted edges are no longer needed.
        pairs[tops] = vertex(e, target, make_set(e, n))
        tops += 1
        states = int32s(e, f.VERTEX_STATE)
    first = used(e, f.SET_ITEMS)
    if not has_room(e, f.SET_ITEMS, tops):
        return f.FAIL
    items = int32s(e, f.SET_ITEMS)
    for j in range(tops):
        items[first + j] = pairs[j]
    return make_set(e, tops)


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
