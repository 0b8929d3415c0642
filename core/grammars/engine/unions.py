"""Unions of sets of stacks: vertices of one LR state become one vertex (``stacks``)."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    get,
    has_room,
    insert,
    int32s,
    lookup,
    use,
    used,
)
from cdec.core.grammars.engine.stacks import failed, make_set, member, members, vertex
from cdec.core.kernels import inner

__all__ = ["compute_union", "union"]


@inner
def union(e: int, a: int, b: int) -> int:
    """Return the union of two stack values, with one vertex for each LR state."""
    if a == b or b == f.FAIL:
        return a
    if a == f.FAIL:
        return b
    known = lookup(e, f.UNION_TABLE, _pair(a, b))
    return known if known != ABSENT else call3(get(e, f.CALL_UNION), e, a, b)


@inner
def compute_union(e: int, a: int, b: int) -> int:
    """Unite two stack values whose union is not known yet.

    Where both have a vertex of one LR state, the stacks below it are united first. Pairs that wait
    stand in UNION_WORK, so deep stacks need no recursion; each pair is computed once (UNION_TABLE).
    """
    use(e, f.UNION_WORK, 0)
    _push_pair(e, a, b)
    while used(e, f.UNION_WORK) > 0 and not failed(e):
        top = used(e, f.UNION_WORK) - 2
        work = int32s(e, f.UNION_WORK)
        first, second = work[top], work[top + 1]
        if lookup(e, f.UNION_TABLE, _pair(first, second)) != ABSENT:
            use(e, f.UNION_WORK, top)
            continue
        _push_missing(e, first, second)
        if used(e, f.UNION_WORK) == top + 2:
            united = _unite(e, first, second)
            insert(e, f.UNION_TABLE, _pair(first, second), united)
            use(e, f.UNION_WORK, top)
    known = lookup(e, f.UNION_TABLE, _pair(a, b))
    return known if known != ABSENT else f.FAIL


@inner
def _pair(a: int, b: int) -> int:
    return (min(a, b) << 32) | (max(a, b) & 0xFFFFFFFF)


@inner
def _push_pair(e: int, a: int, b: int) -> None:
    n = used(e, f.UNION_WORK)
    if has_room(e, f.UNION_WORK, 2):
        work = int32s(e, f.UNION_WORK)
        work[n], work[n + 1] = a, b
        use(e, f.UNION_WORK, n + 2)


@inner
def _push_missing(e: int, a: int, b: int) -> None:
    """Put the unions of stacks below that a union needs, and that are not known, on UNION_WORK."""
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    i, j, n, m = 0, 0, members(e, a), members(e, b)
    while i < n and j < m:
        v, w = member(e, a, i), member(e, b, j)
        if states[v] == states[w]:
            below, other = belows[v], belows[w]
            if below != other and lookup(e, f.UNION_TABLE, _pair(below, other)) == ABSENT:
                _push_pair(e, below, other)
        i, j = i + (states[v] <= states[w]), j + (states[w] <= states[v])


@inner
def _unite(e: int, a: int, b: int) -> int:
    """Return the union of two stack values; all unions below are known."""
    i, j, n, m, count = 0, 0, members(e, a), members(e, b), 0
    if not has_room(e, f.SET_ITEMS, n + m):
        return f.FAIL
    first = used(e, f.SET_ITEMS)
    items = int32s(e, f.SET_ITEMS)
    while i < n or j < m:
        states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
        v = member(e, a, i) if i < n else f.NONE
        w = member(e, b, j) if j < m else f.NONE
        if w == f.NONE or (v != f.NONE and states[v] < states[w]):
            items[first + count], i = v, i + 1
        elif v == f.NONE or states[w] < states[v]:
            items[first + count], j = w, j + 1
        else:
            below = belows[v]
            if below != belows[w]:
                below = lookup(e, f.UNION_TABLE, _pair(below, belows[w]))
            items[first + count] = vertex(e, states[v], below)
            i, j = i + 1, j + 1
        count += 1
    return make_set(e, count)
