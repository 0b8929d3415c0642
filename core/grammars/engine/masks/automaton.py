"""Masks as an automaton that reads the stack from its top, one LR state a step; made lazily.

The stacks that allow a group of tokens at one scanner state are a regular language: the terminals
of its sequence pop what they read, and push what later ones pop. All groups of a tree together are
one deterministic automaton. It generalises what DOMINO (arXiv 2403.06988, section 3.3) finds by
walking a tree for every stack anew; equal states are one, however they were reached, so the states
of deeply nested texts are those of shallow ones.

A state is a list (``lists``) of the list of what is allowed whatever lies below, and of pairs: a
suspended reduction, and the list of the items that wait for it (``found``). What is before the
first step says ``roots``; everything waits there.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.lists import item, length, list_in, push_pair64
from cdec.core.grammars.engine.masks.found import either, state_of_pairs
from cdec.core.grammars.engine.masks.going_on import evaluate
from cdec.core.grammars.engine.masks.roots import is_before, root_of
from cdec.core.grammars.engine.pointers import (
    ABSENT,
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
from cdec.core.grammars.engine.stacks import failed, goto_state
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = ["compute_step", "is_final", "step"]


@inner
def is_final(e: int, state: int) -> bool:
    """Say whether nothing waits in a state: its mask is that of all stacks below."""
    return length(e, state) == 1


@inner
def step(e: int, state: int, lr_state: int) -> int:
    """Return the state after reading an LR state; -1 after a lack of room. O(1) if done before."""
    known = _stored_step(e, state, lr_state)
    if known < 0:
        known = lookup(e, f.STEP_TABLE, (state << 32) | lr_state)
    return known if known != ABSENT else call3(get(e, f.CALL_STEP), e, state, lr_state)


@inner
def _stored_step(e: int, state: int, lr_state: int) -> int:
    """Return the state after a step that the artifact holds; -1 if it does not."""
    if state >= get(e, f.STORED):
        return -1
    read = int32s(e, f.AUTOMATON_READ)
    low, stop = span(int64s(e, f.AUTOMATON_STEP_OFFSETS), state, size(e, f.AUTOMATON_READ))
    high = stop
    while low < high:
        middle = (low + high) >> 1
        if read[middle] < lr_state:
            low = middle + 1
        else:
            high = middle
    if low >= stop or read[low] != lr_state:
        return -1
    after = int32s(e, f.AUTOMATON_AFTER)[low]
    return after if get(e, f.TREES) <= after < get(e, f.STORED) else -1


@inner
def compute_step(e: int, state: int, lr_state: int) -> int:
    """Compute a step: what waits for this LR state goes on, the rest waits for one less.

    Cost: O(suspensions of the state) if what waits was met above the same gotos before.
    """
    if is_before(e, state):
        following = evaluate(e, state, lr_state)
    else:
        following = _compute_later(e, state, lr_state)
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    if not insert(e, f.STEP_TABLE, (state << 32) | lr_state, following):
        return -1
    spend(e, 1 + length(e, state))
    pause(e)
    return following


@inner
def _compute_later(e: int, state: int, lr_state: int) -> int:
    """Compute a step of a state after others."""
    use(e, f.STEP_PAIRS, 0)
    use(e, f.STEP_READY, 0)
    _sort_out(e, state)
    allowed, at = list_in(e, state, 0), 0
    while at < used(e, f.STEP_READY) and not failed(e):
        ready = int64s(e, f.STEP_READY)
        target = goto_state(e, lr_state, ready[at] >> 32)
        if target >= 0:
            found = evaluate(e, ready[at + 1], target)
            if failed(e):
                return 0
            allowed = either(e, allowed, item(e, found, 0))
            _sort_out(e, found)
        at += 2
    if lr_state == 0:
        # subtle: nothing lies below the first LR state, so nothing is worth waiting for.
        use(e, f.STEP_PAIRS, 0)
    return 0 if failed(e) else state_of_pairs(e, root_of(e, state), allowed, f.STEP_PAIRS)


@inner
def _sort_out(e: int, state: int) -> None:
    """Tell what goes on above the LR state that is read from what waits for those below it."""
    for i in range(1, length(e, state), 2):
        suspension, waiting = item(e, state, i), list_in(e, state, i + 1)
        if suspension & 0xFFFFFFFF:
            push_pair64(e, f.STEP_PAIRS, suspension - 1, waiting)
            continue
        ready, known = int64s(e, f.STEP_READY), False
        for j in range(0, used(e, f.STEP_READY), 2):
            known = known or (ready[j] == suspension and ready[j + 1] == waiting)
        if not known:
            push_pair64(e, f.STEP_READY, suspension, waiting)
