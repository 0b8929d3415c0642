"""Shifting a terminal: the deterministic LR parser, and the memo that both parsers share.

An outcome is the stack after the shift, or FAIL, or SHIFTABLE where only that was asked.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import (
    DROPPED,
    FAILS,
    PLAIN,
    beneath,
    blocks_of,
    dedents,
    effect,
    next_symbol,
    rest,
    with_blocks,
    without_line,
)
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    call4,
    get,
    insert,
    int32s,
    lookup,
    put,
    size,
    span,
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
    union,
    vertex,
)
from cdec.core.grammars.engine.stacks_general import shift_general
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = [
    "can_shift",
    "can_shift_any",
    "compute_shift",
    "compute_shift_any",
    "shift",
    "shift_partial",
]

_CHECKPOINTS_AFTER = 16
_KEPT_AFTER = 128
_MAX_IDLE = 1 << 17
_MANY = 16
"""Stacks of a set that are shifted together; of fewer, each outcome is worth a note of its own."""


@inner
def shift(e: int, stack: int, terminal: int) -> int:
    """Return the stack after a terminal, FAIL if it cannot be shifted. O(1) if done before."""
    outcome = lookup(e, f.SHIFT_TABLE, (stack << 32) | terminal)
    if outcome == ABSENT or outcome == f.SHIFTABLE:
        return call4(get(e, f.CALL_SHIFT), e, stack, terminal, 1)
    return outcome


@inner
def can_shift(e: int, stack: int, terminal: int) -> bool:
    """Say whether a terminal, or the end of the text, can be shifted. O(1) if done before."""
    outcome = lookup(e, f.SHIFT_TABLE, (stack << 32) | terminal)
    if outcome == ABSENT:
        outcome = call4(get(e, f.CALL_SHIFT), e, stack, terminal, 0)
    return outcome != f.FAIL


@inner
def can_shift_any(e: int, stack: int, row: int) -> bool:
    """Say whether some terminal of a live row can be shifted or is ignored."""
    if row < 0 or row >= get(e, f.LIVE_ROWS):
        return False
    outcome = lookup(e, f.SHIFT_TABLE, (stack << 32) | (get(e, f.TERMINALS) + 1 + row))
    if outcome == ABSENT:
        outcome = call3(get(e, f.CALL_SHIFT_ANY), e, stack, row)
    return outcome != f.FAIL


@inner
def compute_shift_any(e: int, stack: int, row: int) -> int:
    """Try the terminals of a live row in turn, note the outcome; return SHIFTABLE or FAIL."""
    count = get(e, f.TERMINALS)
    offsets, terminals = int32s(e, f.LIVE_OFFSETS), int32s(e, f.LIVE_TERMINALS)
    ignored, result = int32s(e, f.IGNORED), f.FAIL
    low, high = span(offsets, row, size(e, f.LIVE_TERMINALS))
    for i in range(low, high):
        terminal = terminals[i]
        if terminal < 0 or terminal >= count:
            continue
        if ignored[terminal] != 0 or can_shift(e, stack, terminal):
            result = f.SHIFTABLE
            break
    insert(e, f.SHIFT_TABLE, (stack << 32) | (count + 1 + row), result)
    return result


@inner
def compute_shift(e: int, stack: int, terminal: int, build: int) -> int:
    """Compute a shift that is not in the memo, and note it there."""
    if blocks_of(e, stack) >= 0:
        outcome = _shift_pair(e, stack, terminal)
    elif stack >= 0:
        outcome = _shift_top(e, stack, terminal, build != 0, False)
    else:
        outcome = _shift_set(e, stack, terminal, build != 0)
    insert(e, f.SHIFT_TABLE, (stack << 32) | terminal, outcome)
    spend(e, 1)
    pause(e)
    return outcome


@inner
def _shift_pair(e: int, pair: int, terminal: int) -> int:
    """Shift what an indenter makes of a terminal, or of the end of the text."""
    blocks, stack, end = blocks_of(e, pair), beneath(e, pair), get(e, f.TERMINALS)
    if terminal == end:
        code, after = dedents(e, blocks), blocks
    else:
        code, after = effect(e, blocks, terminal, 0)
    if code == DROPPED:
        return with_blocks(e, blocks, without_line(e, stack))
    while code > 0 and stack != f.FAIL:
        stack, code = _shift_symbol(e, stack, next_symbol(e, code)), rest(code)
    if stack == f.FAIL or code == FAILS:
        return f.FAIL
    if code == PLAIN or terminal == end:
        stack = shift(e, stack, terminal)
    return f.FAIL if stack == f.FAIL or failed(e) else with_blocks(e, after, stack)


@inner
def _shift_symbol(e: int, stack: int, terminal: int) -> int:
    """Return the stack after a terminal that the grammar may not have."""
    return shift(e, stack, terminal) if terminal >= 0 else f.FAIL


@inner
def shift_partial(e: int, stack: int, terminal: int, build: bool) -> int:
    """Shift a terminal on a partial stack; what pops past the hole is SUSPENDED, nothing noted."""
    if members(e, stack) > _MANY:
        return shift_general(e, stack, terminal, build, True)
    result = f.FAIL
    for i in range(members(e, stack)):
        after = _shift_top(e, member(e, stack, i), terminal, build, True)
        if after == f.SHIFTABLE:
            return after
        result = union(e, result, after)
    return result


@inner
def _shift_top(e: int, top: int, terminal: int, build: bool, partial: bool) -> int:
    """Shift a terminal on the stacks with one vertex on top.

    Where a single stack meets several actions, or a reduction ends within a set, the generalised
    parser does it.
    """
    before = used(e, f.SUSPENDED)
    outcome = _shift_single(e, top, terminal, build, partial)
    if outcome == f.UNDECIDED:
        use(e, f.SUSPENDED, before)
        outcome = shift_general(e, top, terminal, build, partial)
    return outcome


@inner
def _shift_set(e: int, stack: int, terminal: int, build: bool) -> int:
    """Shift a terminal from every stack of a set that can."""
    if members(e, stack) > _MANY:
        return shift_general(e, stack, terminal, build, False)
    result = f.FAIL
    for i in range(members(e, stack)):
        top = member(e, stack, i)
        if build:
            result = union(e, result, shift(e, top, terminal))
        elif can_shift(e, top, terminal):
            return f.SHIFTABLE
    return result


@inner
def _shift_single(e: int, top: int, terminal: int, build: bool, partial: bool) -> int:
    """Reduce until a shift or a failure, one action an entry; return the outcome, or UNDECIDED.

    LR states that reductions push stand in VIRTUAL, on top of a vertex of the stack, and become
    vertices only if the terminal is shifted. More of them than there are LR states means that one
    repeats and they would grow for ever; reductions onto one place end at ``_MAX_IDLE``. So every
    sequence of reductions ends, at worst in failure.
    """
    states, virtual = int32s(e, f.VERTEX_STATE), int32s(e, f.VIRTUAL)
    lengths, lhs = int32s(e, f.RULE_LENGTH), int32s(e, f.RULE_LHS)
    n, steps, idle, state, outcome = 0, 0, 0, states[top], f.FAIL
    use(e, f.CHECKPOINTS, 0)
    while True:
        row = action_row(e, state, terminal)
        value = int32s(e, f.ACTION_VALUES)[row] if row >= 0 else 0
        length = lengths[~value] if 0 <= ~value < get(e, f.RULES) else 0
        if row < 0 or ~value >= get(e, f.RULES) or length < 0:
            break
        if _has_more(e, state, row, terminal):
            return f.UNDECIDED
        if value >= 0:
            outcome = _pushed(e, top, n, value) if build else f.SHIFTABLE
            break
        if length > n:
            top, left = _pop(e, top, length - n)
            idle = 0
            if top >= 0 and states[top] == get(e, f.LR_STATES):
                suspend(e, lhs[~value], left)
                return f.FAIL
            if top < 0:
                return f.UNDECIDED if top != f.NONE else f.FAIL
        n = max(n - length, 0)
        state = goto_state(e, virtual[n - 1] if n > 0 else states[top], lhs[~value])
        if state < 0 or n > get(e, f.LR_STATES) or idle > _MAX_IDLE:
            break
        virtual[n] = state
        n, steps, idle = n + 1, steps + 1, idle + 1
        if steps >= _CHECKPOINTS_AFTER and n == 1 and not partial:
            known = _checkpoint(e, state, top, terminal)
            if known != ABSENT and not (build and known == f.SHIFTABLE):
                outcome = known
                break
    spend(e, steps)
    return outcome if partial else _conclude(e, terminal, outcome, steps)


@inner
def _pop(e: int, top: int, count: int) -> tuple[int, int]:
    """Return the vertex ``count`` below another, and 0.

    Where the stack is not so deep, NONE, a set or the hole, and how many are left to pop.
    """
    states, belows = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW)
    while count > 0 and top >= 0 and states[top] != get(e, f.LR_STATES):
        top, count = belows[top], count - 1
    return top, count


@inner
def _checkpoint(e: int, state: int, below: int, terminal: int) -> int:
    """Return the known outcome of a stack within a long sequence of reductions, or ABSENT.

    If it is absent, the sequence's outcome will be noted for this stack too: closing a
    right-recursive list then costs its length once, not once at every position.
    """
    mark = vertex(e, state, below)
    if failed(e):
        return f.FAIL
    known = lookup(e, f.SHIFT_TABLE, (mark << 32) | terminal)
    marks = used(e, f.CHECKPOINTS)
    if known == ABSENT and marks < size(e, f.CHECKPOINTS):
        int32s(e, f.CHECKPOINTS)[marks] = mark
        use(e, f.CHECKPOINTS, marks + 1)
    return known


@inner
def _conclude(e: int, terminal: int, outcome: int, steps: int) -> int:
    """Note an outcome for the checkpoints passed; after many steps, keep what a trial made."""
    if steps >= _KEPT_AFTER:
        put(e, f.KEEP, 1)
    for i in range(used(e, f.CHECKPOINTS)):
        insert(e, f.SHIFT_TABLE, (int32s(e, f.CHECKPOINTS)[i] << 32) | terminal, outcome)
    return outcome


@inner
def _has_more(e: int, state: int, row: int, terminal: int) -> bool:
    """Say whether a state has another action on the terminal after a row."""
    if row + 1 >= int32s(e, f.ACTION_OFFSETS)[state + 1]:
        return False
    return int32s(e, f.ACTION_TERMINALS)[row + 1] == terminal


@inner
def _pushed(e: int, base: int, n: int, target: int) -> int:
    """Return the stack of ``base``, the virtual part and the state after the shift."""
    if target >= get(e, f.LR_STATES):
        return f.FAIL
    virtual, stack = int32s(e, f.VIRTUAL), base
    for i in range(n):
        stack = vertex(e, virtual[i], stack)
    return vertex(e, target, stack)
