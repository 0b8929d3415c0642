"""Shifting a terminal with the generalised parser: every action counts, over a graph of stacks.

Generalised LR parsing (Tomita 1985). Its later variants (right-nulled, reduction-incorporated) are
not needed: no rule is empty here, so the base of every reduction lies below the *level* at work,
the edges (LR state, stacks below) that reductions before one terminal lead to. The stacks below are
a stack value: what reduces alike on a thousand stacks is one edge, not a thousand.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.levels import shift_level, united
from cdec.core.grammars.engine.pointers import (
    EMPTY,
    NEED,
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
    member,
    members,
    suspend,
)
from cdec.core.grammars.engine.work import pause, spend, stop
from cdec.core.kernels import inner

__all__ = ["shift_general"]

_KEPT_AFTER = 128
"""Edges of a level; with more, what a trial has made is kept when the call must end."""
_SETS = 8
"""Sets of stacks below one LR state of a level, and of one reduction; then vertex by vertex.

subtle: so there are at most so many edges as LR states and vertices allow, not as subsets.
"""


@inner
def shift_general(e: int, stack: int, terminal: int, build: bool, partial: bool) -> int:
    """Return the stacks after all ways to reduce and shift; FAIL if there is none.

    Reductions that pop past the hole of a partial stack are SUSPENDED. On a whole stack a call that
    had to end goes on with the edge that comes next, unless another level was begun meanwhile.

    Args:
        e: Engine.
        stack: A stack value.
        terminal: To shift.
        build: Else SHIFTABLE stands for any stack.
        partial: Whether the stack ends in the hole.
    """
    if failed(e):
        return f.FAIL
    key = (stack << 32) | (terminal << 1) | (1 if build else 0)
    at, shifts = _begin_or_go_on(e, stack, key)
    while at < used(e, f.EDGE_STATE) and not failed(e):
        if partial:
            stop(e)
        else:
            pause(e)
        own = 0 if failed(e) else _reduce_edge(e, at, terminal, build)
        if own > 0 and not build:
            return f.SHIFTABLE
        if not failed(e):
            at, shifts = at + 1, shifts + own
    result = f.FAIL if shifts == 0 or failed(e) else shift_level(e, terminal)
    if failed(e) and not partial:
        _remember(e, key, at, shifts)
    return f.FAIL if failed(e) else result


@inner
def _remember(e: int, key: int, at: int, shifts: int) -> None:
    """Note how far a level has come when the call had to end.

    Not where the table of edges lacks room: moved, it would not be right for this level's probing.
    """
    if get(e, NEED) == f.EDGE_TABLE + 1:
        return
    put(e, f.SHIFT_KEY, key)
    put(e, f.SHIFT_LEVEL, get(e, f.LEVEL))
    put(e, f.SHIFT_NEXT, 2 * at + (1 if shifts > 0 else 0))
    if at >= _KEPT_AFTER:
        put(e, f.KEEP, 1)


@inner
def _begin_or_go_on(e: int, stack: int, key: int) -> tuple[int, int]:
    """Return the first edge to look at, and whether some before it could be shifted."""
    if get(e, f.SHIFT_KEY) == key and get(e, f.SHIFT_LEVEL) == get(e, f.LEVEL):
        put(e, f.SHIFT_LEVEL, -1)
        return get(e, f.SHIFT_NEXT) >> 1, get(e, f.SHIFT_NEXT) & 1
    put(e, f.LEVEL, get(e, f.LEVEL) + 1)
    use(e, f.EDGE_STATE, 0)
    for i in range(members(e, stack)):
        top = member(e, stack, i)
        _add_edge(e, int32s(e, f.VERTEX_STATE)[top], int32s(e, f.VERTEX_BELOW)[top])
    return 0, 0


@inner
def _reduce_edge(e: int, at: int, terminal: int, build: bool) -> int:
    """Add the edges of all reductions of an edge; return how many shifts it has.

    Without ``build`` the first shift is enough.
    """
    values, terminals = int32s(e, f.ACTION_VALUES), int32s(e, f.ACTION_TERMINALS)
    state, below = int32s(e, f.EDGE_STATE)[at], int32s(e, f.EDGE_BASE)[at]
    row, shifts = action_row(e, state, terminal), 0
    last = size(e, f.ACTION_TERMINALS)
    while 0 <= row < last and terminals[row] == terminal and _in_state(e, state, row):
        value = values[row]
        row += 1
        if value >= 0:
            shifts += 1
            if not build:
                break
        elif below != f.NONE:
            _reduce(e, ~value, below)
    return shifts


@inner
def _in_state(e: int, state: int, row: int) -> bool:
    return row < int32s(e, f.ACTION_OFFSETS)[state + 1]


@inner
def _add_edge(e: int, state: int, below: int) -> None:
    """Add (LR state, stacks below) to the level."""
    counts, stamp = int64s(e, f.LEVEL_SETS), get(e, f.LEVEL) << 8
    if below >= f.NONE:
        _add_one(e, state, below)
        return
    count = max(counts[state], stamp)
    if count < stamp + _SETS:
        counts[state] = count + _add_one(e, state, below)
        return
    for i in range(members(e, below)):
        _add_one(e, state, member(e, below, i))


@inner
def _add_one(e: int, state: int, below: int) -> int:
    """Add an edge, once; return 1 if it is new.

    subtle: the table of edges is emptied by its stamp: an older entry counts as free, in probing
    too, which is right because a level's own entries are always reached before its free places.
    """
    stamp, key = get(e, f.LEVEL), (state << 32) | (below & 0xFFFFFFFF)
    keys, stamps = int64s(e, f.EDGE_TABLE), int64s(e, f.EDGE_TABLE + 1)
    mask = size(e, f.EDGE_TABLE) - 1
    at = mixed(key) & mask
    while keys[at] != EMPTY and stamps[at] == stamp:
        if keys[at] == key:
            return 0
        at = (at + 1) & mask
    n = used(e, f.EDGE_STATE)
    if not has_room(e, f.EDGE_STATE, 1):
        return 0
    if 2 * (n + 1) > mask:
        lack(e, f.EDGE_TABLE, 4 * (mask + 1))
        return 0
    keys[at], stamps[at] = key, stamp
    int32s(e, f.EDGE_STATE)[n] = state
    int32s(e, f.EDGE_BASE)[n] = below
    use(e, f.EDGE_STATE, n + 1)
    return 1


@inner
def _reduce(e: int, rule: int, below: int) -> None:
    """Add the edges of all ways to reduce a rule whose last symbol stands on ``below``."""
    if rule >= get(e, f.RULES):
        return
    length, lhs = int32s(e, f.RULE_LENGTH)[rule], int32s(e, f.RULE_LHS)[rule]
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    if length < 1 or not has_room(e, f.FRONTIER, used(e, f.VERTEX_STATE)):
        return
    here, there = int32s(e, f.FRONTIER), int32s(e, f.FRONTIER_NEXT)
    marks, n = int64s(e, f.VERTEX_MARK), members(e, below)
    for i in range(n):
        here[i] = member(e, below, i)
    for left in range(length - 1, 0, -1):
        stamp, m = get(e, f.STAMP) + 1, 0
        put(e, f.STAMP, stamp)
        for i in range(n):
            if states[here[i]] == get(e, f.LR_STATES):
                suspend(e, lhs, left)
                continue
            under = belows[here[i]]
            for j in range(members(e, under) if under != f.NONE else 0):
                found = member(e, under, j)
                if marks[found] != stamp:
                    marks[found] = stamp
                    there[m] = found
                    m += 1
        here, there, n = there, here, m
        spend(e, m)
    _go_on(e, here, there, n, lhs)


@inner
def _go_on(e: int, bases: Pointer, targets: Pointer, n: int, lhs: int) -> None:
    """Add the edges of a nonterminal above n vertices; above the hole it must wait.

    ``targets`` has room for n.
    """
    states, groups = int32s(e, f.VERTEX_STATE), 0
    put(e, f.EDGES, get(e, f.EDGES) + n)
    spend(e, 1 + n)
    if not has_room(e, f.SORTED, n):
        return
    for i in range(n):
        state = states[bases[i]]
        if state == get(e, f.LR_STATES):
            suspend(e, lhs, 0)
            targets[i] = -1
        else:
            targets[i] = goto_state(e, state, lhs)
    for first in range(n):
        target, count = targets[first], 0
        if target < 0:
            continue
        groups += 1
        stop = n if groups <= _SETS else first + 1
        for i in range(first, stop):
            if targets[i] == target:
                targets[i] = -1
                int64s(e, f.SORTED)[count] = bases[i]
                count += 1
        below = united(e, 0, count)
        if failed(e):
            return
        _add_edge(e, target, below)
