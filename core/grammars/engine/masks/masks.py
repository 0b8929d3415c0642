"""Exact masks: of one reading by the automaton over its stack, of a decoding state by its readings.

The automaton of a tree (``automaton``) reads the stack until nothing waits; a stack that forks is
read along every way, each pair of state and stack once. Tokens with too many readings to stand in
a tree are stepped byte by byte, once for a scanner state and stack.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import beneath
from cdec.core.grammars.engine.masks.allowed import mask_of
from cdec.core.grammars.engine.masks.automaton import is_final, step
from cdec.core.grammars.engine.masks.going_on import steps_partially
from cdec.core.grammars.engine.masks.roots import first_state
from cdec.core.grammars.engine.masks.stepping import verify_tokens
from cdec.core.grammars.engine.masks.store import join, keep_row, mask_row, new_row
from cdec.core.grammars.engine.masks.trees import groups_of
from cdec.core.grammars.engine.masks.wide import add_groups, is_wide
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    NEED,
    STOPPED,
    Pointer,
    call3,
    get,
    insert,
    int32s,
    int64s,
    lookup,
    put,
    size,
    span,
    use,
    used,
)
from cdec.core.grammars.engine.readings import row_of
from cdec.core.grammars.engine.stacks import failed, member, members, push_pair
from cdec.core.grammars.engine.work import begin_trial, end_trial, pause, spend
from cdec.core.kernels import inner

__all__ = ["compute_run", "compute_stepped", "readings_mask"]

_OPEN, _STEPPED = -2, -3
_WORK = 1 << 17
"""Work on an automaton for one mask, for every segmentation; a mask that takes more is stepped."""


@inner
def readings_mask(e: int, items: Pointer, start: int, n: int) -> int:
    """Return the mask of n readings (scanner state, stack): two int32 each from ``items[start]``.

    Deterministic parser: a later reading allows only tokens within which no earlier reading
    completes its terminal. Generalised parser: the union. -1 after a lack of room.
    """
    states, mask = get(e, f.SCANNER_STATES), -1
    for i in range(n - 1, -1, -1):
        at, stack = items[start + 2 * i], items[start + 2 * i + 1]
        at = at - states if at >= states else at
        own = _mask_of_reading(e, at, stack)
        if mask >= 0 and own >= 0:
            own = join(e, own, int32s(e, f.TREE_TAKEN)[_tree(e, at)], mask)
        if own < 0:
            return -1
        mask = own
    return mask


@inner
def _tree(e: int, at: int) -> int:
    """Return the tree of a scanner state; 0 where the artifact is damaged."""
    if at < 0 or at >= get(e, f.SCANNER_STATES):
        return 0
    tree = int32s(e, f.TREE_OF_STATE)[row_of(e, at)]
    return tree if 0 <= tree < size(e, f.TREE_TAKEN) else 0


@inner
def _mask_of_reading(e: int, at: int, stack: int) -> int:
    """Return the mask of one reading; -1 after a lack of room."""
    tree = _tree(e, at)
    if steps_partially(e):
        return _mask_or_stepped(e, at, tree, stack)
    mask = _follow(e, first_state(e, at, tree, stack), beneath(e, stack))
    if mask == _OPEN:
        mask = call3(get(e, f.CALL_RUN), e, get(e, f.RUN_STATE), get(e, f.RUN_STACK))
    low, high = span(int64s(e, f.TREE_VERIFY), tree, size(e, f.VERIFY_TOKENS))
    if mask < 0 or low == high:
        return mask
    return join(e, mask, -1, _stepped(e, at, stack))


@inner
def _mask_or_stepped(e: int, at: int, tree: int, stack: int) -> int:
    """Return the mask of one reading for every segmentation; -1 after a lack of room.

    It is stepped where the stack forks into very many, and where the automaton needs too much work:
    what all stacks have in common can be far more than what this one needs.
    """
    stop_at = get(e, f.STOP_AT)
    if get(e, f.STEPPED_KEY) == _key(at, stack):
        return _stepped(e, at, stack)
    put(e, f.STOP_AT, min(stop_at, get(e, f.WORK) + min(_WORK, stop_at >> 3)))
    mask = _follow(e, first_state(e, at, tree, stack), beneath(e, stack))
    if mask == _OPEN and is_wide(e, get(e, f.RUN_STACK)):
        mask = _STEPPED
    elif mask == _OPEN:
        mask = call3(get(e, f.CALL_RUN), e, get(e, f.RUN_STATE), get(e, f.RUN_STACK))
    put(e, f.STOP_AT, stop_at)
    if get(e, NEED) == STOPPED and get(e, f.WORK) <= stop_at:
        put(e, NEED, 0)
        mask = _STEPPED
    return _stepped(e, at, stack) if mask == _STEPPED else mask


@inner
def _key(at: int, stack: int) -> int:
    return (at << 32) | (stack & 0xFFFFFFFF)


@inner
def _stepped(e: int, at: int, stack: int) -> int:
    """Return the mask of the tokens that are stepped; -1 after a lack of room."""
    known = lookup(e, f.STEPPED_TABLE, _key(at, stack))
    return known if known != ABSENT else call3(get(e, f.CALL_STEPPED), e, at, stack)


@inner
def _follow(e: int, state: int, stack: int) -> int:
    """Read a stack; return the mask, -1 after a lack of room, or _OPEN.

    _OPEN: the stack forks, or has more than AT_ONCE LR states that matter; what is left of it
    stands in RUN_STATE and RUN_STACK.
    """
    states, belows, left = int32s(e, f.VERTEX_STATE), int32s(e, f.VERTEX_BELOW), get(e, f.AT_ONCE)
    if state < 0:
        return -1
    while stack != f.NONE and not is_final(e, state):
        if stack < 0 or left == 0:
            return _left_open(e, state, stack)
        state = step(e, state, states[stack])
        if state < 0:
            return -1
        stack, left = belows[stack], left - 1
    return mask_of(e, state)


@inner
def _left_open(e: int, state: int, stack: int) -> int:
    """Return the mask of a state and what is left of a stack if it is known, else _OPEN."""
    known = lookup(e, f.RUN_TABLE, (state << 32) | (stack & 0xFFFFFFFF))
    if known != ABSENT:
        return known
    put(e, f.RUN_STATE, state)
    put(e, f.RUN_STACK, stack)
    return _OPEN


@inner
def compute_run(e: int, state: int, stack: int) -> int:
    """Return the mask of a state and what is left of a stack, and note it; -1: a lack of room.

    Pairs that wait for others stand in RUN_WORK, so that deep stacks need no recursion.
    """
    use(e, f.RUN_WORK, 0)
    push_pair(e, f.RUN_WORK, state, stack)
    mask = -1
    while used(e, f.RUN_WORK) > 0 and not failed(e):
        top = used(e, f.RUN_WORK) - 2
        work = int32s(e, f.RUN_WORK)
        here, left = work[top], work[top + 1]
        mask = _union_of_ways(e, here, left)
        if mask >= 0:
            insert(e, f.RUN_TABLE, (here << 32) | (left & 0xFFFFFFFF), mask)
            use(e, f.RUN_WORK, top)
            spend(e, 1 + members(e, left))
            pause(e)
        elif mask != _OPEN:
            return -1
    return -1 if failed(e) else mask


@inner
def _union_of_ways(e: int, state: int, stack: int) -> int:
    """Read a stack along all its ways; _OPEN if one of them waits for a pair put on RUN_WORK."""
    mask, is_open = -1, False
    for i in range(members(e, stack)):
        top = member(e, stack, i)
        following = step(e, state, int32s(e, f.VERTEX_STATE)[top])
        own = _follow(e, following, int32s(e, f.VERTEX_BELOW)[top]) if following >= 0 else -1
        if own == _OPEN:
            is_open = True
            push_pair(e, f.RUN_WORK, get(e, f.RUN_STATE), get(e, f.RUN_STACK))
            continue
        if mask >= 0 and own >= 0:
            own = join(e, mask, -1, own)
        if own < 0:
            return -1
        mask = own
    return _OPEN if is_open else mask


@inner
def compute_stepped(e: int, at: int, stack: int) -> int:
    """Return the mask of the tokens that are stepped, and note it; -1: a lack of room.

    For every segmentation the automaton reads long tokens as well, and it asks here for all of the
    tokens of a stack that is very wide. What was done when the call had to end is not done again,
    unless another row was written meanwhile.
    """
    key, tree = _key(at, stack), _tree(e, at)
    done = get(e, f.STEPPED_NEXT) if get(e, f.STEPPED_KEY) == key else 0
    row = mask_row(e, used(e, f.MASK_COUNT)) if done > 0 else new_row(e)
    if row == 0:
        return -1
    put(e, f.STEPPED_NEXT, 0)
    groups = groups_of(e, tree)[1] - groups_of(e, tree)[0] if steps_partially(e) else 0
    before = begin_trial(e)
    if done < groups:
        done = add_groups(e, row, tree, at, stack, done)
    if done >= groups:
        done = groups + verify_tokens(e, row, tree, at, stack, done - groups)
    end_trial(e, before)
    if failed(e):
        put(e, f.STEPPED_KEY, key)
        put(e, f.STEPPED_NEXT, done)
        return -1
    mask = keep_row(e)
    return mask if insert(e, f.STEPPED_TABLE, key, mask) else -1
