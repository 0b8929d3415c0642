"""Stacks of LR states, each stored once, and their unions.

A *stack value* is an int32: a vertex (>= 0), a set of vertices with distinct LR states (<= -2), or
NONE below the root. A vertex is (LR state, stack value below). As equal ones are stored once and a
set never holds two vertices of one LR state, equal stack values are equal sets of stacks: together
they are a minimal acyclic automaton that reads stacks from the top.

The deterministic parser has single vertices only.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    NEED,
    call3,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    lookup,
    mixed,
    size,
    use,
    used,
)
from cdec.core.grammars.engine.work import spend
from cdec.core.kernels import inner

__all__ = [
    "action_row",
    "compute_union",
    "goto_state",
    "make_set",
    "member",
    "members",
    "push_pair",
    "suspend",
    "union",
    "vertex",
]


@inner
def vertex(e: int, state: int, below: int) -> int:
    """Return the vertex (LR state, stack below); 0 after a lack of room."""
    key = (state << 32) | (below & 0xFFFFFFFF)
    known = lookup(e, f.VERTEX_TABLE, key)
    if known != ABSENT:
        return known
    if not has_room(e, f.VERTEX_STATE, 1):
        return 0
    new = used(e, f.VERTEX_STATE)
    if not insert(e, f.VERTEX_TABLE, key, new):
        return 0
    use(e, f.VERTEX_STATE, new + 1)
    int32s(e, f.VERTEX_STATE)[new] = state
    int32s(e, f.VERTEX_BELOW)[new] = below
    int64s(e, f.VERTEX_MARK)[new] = 0
    return new


@inner
def members(e: int, stack: int) -> int:
    """Count the vertices of a stack value; none in NONE and FAIL."""
    if stack >= 0:
        return 1
    number = -2 - stack
    if stack == f.FAIL or number < 0 or number >= used(e, f.SET_OFFSETS) - 1:
        return 0
    offsets = int64s(e, f.SET_OFFSETS)
    return offsets[number + 1] - offsets[number]


@inner
def member(e: int, stack: int, i: int) -> int:
    """Return the i-th vertex of a stack value, 0 <= i < ``members``."""
    if stack >= 0:
        return stack
    return int32s(e, f.SET_ITEMS)[int64s(e, f.SET_OFFSETS)[-2 - stack] + i]


@inner
def make_set(e: int, n: int) -> int:
    """Intern the n vertices that stand after the items in use, ascending by distinct LR state.

    Returns FAIL for none, the vertex itself for one. Room for them was asked for by the caller.
    """
    start = used(e, f.SET_ITEMS)
    items = int32s(e, f.SET_ITEMS)
    if n == 0:
        return f.FAIL
    if n == 1:
        return items[start]
    key = n
    for i in range(n):
        key = mixed(key ^ items[start + i])
    if key == -1:
        key = 0
    offsets = int64s(e, f.SET_OFFSETS)
    while True:
        number = lookup(e, f.SET_TABLE, key)
        if number == ABSENT:
            break
        if offsets[number + 1] - offsets[number] == n:
            at, same = offsets[number], 0
            while same < n and items[at + same] == items[start + same]:
                same += 1
            if same == n:
                return -2 - number
        key = mixed(key ^ 1)
    number = used(e, f.SET_OFFSETS) - 1
    if not has_room(e, f.SET_OFFSETS, 1) or not insert(e, f.SET_TABLE, key, number):
        return 0
    offsets[number + 1] = start + n
    use(e, f.SET_OFFSETS, number + 2)
    use(e, f.SET_ITEMS, start + n)
    return -2 - number


@inner
def action_row(e: int, state: int, terminal: int) -> int:
    """Return where the first action of a state on a terminal stands, -1 if there is none."""
    return _find(e, f.ACTION_OFFSETS, f.ACTION_TERMINALS, state, terminal)


@inner
def goto_state(e: int, state: int, symbol: int) -> int:
    """Return the LR state after a nonterminal, -1 if there is none."""
    at = _find(e, f.GOTO_OFFSETS, f.GOTO_SYMBOLS, state, symbol)
    target = int32s(e, f.GOTO_STATES)[at] if at >= 0 else -1
    return target if target < get(e, f.LR_STATES) else -1


@inner
def _find(e: int, offsets_field: int, keys_field: int, state: int, key: int) -> int:
    """Return where a key first stands in the ascending row of an LR state, -1 if it does not."""
    if state < 0 or state >= get(e, f.LR_STATES):
        return -1
    offsets, keys = int32s(e, offsets_field), int32s(e, keys_field)
    low, stop = offsets[state], offsets[state + 1]
    if low < 0 or stop > size(e, keys_field):
        return -1
    high = stop
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and keys[low] == key else -1


@inner
def suspend(e: int, nonterminal: int, left: int) -> None:
    """Note a reduction that popped past the hole of a partial stack (``partial``)."""
    n = used(e, f.SUSPENDED)
    if has_room(e, f.SUSPENDED, 1):
        int64s(e, f.SUSPENDED)[n] = (nonterminal << 32) | left
        use(e, f.SUSPENDED, n + 1)


@inner
def failed(e: int) -> bool:
    """Say whether something lacked room in this call."""
    return get(e, NEED) != 0


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
    push_pair(e, f.UNION_WORK, a, b)
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
            spend(e, 1 + members(e, united))
    known = lookup(e, f.UNION_TABLE, _pair(a, b))
    return known if known != ABSENT else f.FAIL


@inner
def _pair(a: int, b: int) -> int:
    return (min(a, b) << 32) | (max(a, b) & 0xFFFFFFFF)


@inner
def push_pair(e: int, field: int, a: int, b: int) -> None:
    """Put a pair that waits on the list of such pairs in a field."""
    n = used(e, field)
    if has_room(e, field, 2):
        work = int32s(e, field)
        work[n], work[n + 1] = a, b
        use(e, field, n + 2)


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
                push_pair(e, f.UNION_WORK, below, other)
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
