"""Exact masks: of one reading from its subterminal tree, of a decoding state from its readings.

DOMINO (arXiv 2403.06988, section 3.3) walks subterminal trees with the parser. Here tokens with the
same sequences of terminals are one group, and the parser is asked once for every path of a tree.
What the top of a stack decides is kept for all stacks with that top (``shapes``), and masks are
kept by the part of the stack that the parser read (``mask_store``).
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.mask_store import (
    is_single,
    join,
    keep_row,
    known,
    new_row,
    remember,
    shape_node,
)
from cdec.core.grammars.engine.pointers import (
    Pointer,
    call3,
    get,
    int32s,
    put,
    size,
    use,
    used,
)
from cdec.core.grammars.engine.shapes import answer, combine, decide, has_open_steps
from cdec.core.grammars.engine.stacks import begin_trial, end_trial, failed, member, members
from cdec.core.grammars.engine.trees import verify_tokens
from cdec.core.kernels import inner

__all__ = ["compute_mask", "readings_mask"]

_DEPTH = 2
"""LR states from the top of a stack that a shape knows: on C, more share less, fewer ask more."""


@inner
def readings_mask(e: int, items: Pointer, start: int, n: int) -> int:
    """Return the mask of n readings (scanner state, stack): two int32 each from ``items[start]``.

    Deterministic parser: a later reading allows only tokens within which no earlier reading
    completes its terminal. Generalised parser: the union. -1 after a lack of room.
    """
    states, mask = get(e, f.SCANNER_STATES), -1
    for i in range(n - 1, -1, -1):
        at, stack = items[start + 2 * i], items[start + 2 * i + 1]
        at, taken = at - states if at >= states else at, -1
        if mask >= 0:
            taken = int32s(e, f.TREE_TAKEN)[_tree(e, at)]
        for j in range(members(e, stack)):
            own = _mask_of_reading(e, at, member(e, stack, j))
            mask = own if mask < 0 or own < 0 else join(e, own, taken, mask)
            if mask < 0:
                return -1
    return mask


@inner
def _tree(e: int, at: int) -> int:
    """Return the tree of a scanner state; 0 where the artifact is damaged."""
    if at < 0 or at >= get(e, f.SCANNER_STATES):
        return 0
    tree = int32s(e, f.TREE_OF_STATE)[at]
    return tree if 0 <= tree < size(e, f.TREE_TAKEN) else 0


@inner
def _mask_of_reading(e: int, at: int, stack: int) -> int:
    """Return the mask of one reading, computed or known; -1 after a lack of room."""
    mask = known(e, at, stack)
    if mask >= 0:
        put(e, f.SHARED, get(e, f.SHARED) + 1)
        return mask
    return call3(get(e, f.CALL_MASK), e, at, stack)


@inner
def compute_mask(e: int, at: int, stack: int) -> int:
    """Compute the mask of a reading that is not known, and note it; -1 after a lack of room."""
    outer, shape = get(e, f.LOW), known(e, at, stack)
    mask = -1
    if shape >= -1:
        height = int32s(e, f.VERTEX_HEIGHT)[stack]
        limit = height - _DEPTH + 1 if is_single(e, stack, _DEPTH) else f.WHOLE
        shape, mask = _decided(e, at, stack, limit)
    if shape <= -2 and not failed(e):
        before = begin_trial(e)
        answer(e, -2 - shape, stack)
        end_trial(e, before)
        mask = -1 if failed(e) else combine(e, -2 - shape)
        if mask >= 0 and has_open_steps(e, -2 - shape):
            mask = join(e, mask, -1, _stepped(e, at, stack))
    put(e, f.LOW, outer)
    return -1 if failed(e) else mask


@inner
def _decided(e: int, at: int, stack: int, limit: int) -> tuple[int, int]:
    """Ask the whole tree; return a new shape and -1, or -1 and the mask where nothing is open."""
    before = begin_trial(e)
    open_groups = decide(e, _tree(e, at), at, stack, limit)
    end_trial(e, before)
    mask = -1 if failed(e) or open_groups < 0 else keep_row(e)
    if mask < 0:
        return -1, -1
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    if open_groups == 0:
        return -1, mask if remember(e, at, stack, get(e, f.DECIDED_LOW), mask) else -1
    node, place = shape_node(e, at, stack, _DEPTH), used(e, f.SHAPE_ITEMS)
    if node < 0:
        return -1, -1
    int32s(e, f.SHAPE_ITEMS)[place] = mask
    use(e, f.SHAPE_ITEMS, get(e, f.SHAPE_END))
    int32s(e, f.MEMO_MASK)[node] = -2 - place
    return -2 - place, -1


@inner
def _stepped(e: int, at: int, stack: int) -> int:
    """Return the mask of the tokens that are stepped byte by byte; -1 after a lack of room."""
    row = new_row(e)
    if row == 0:
        return -1
    before = begin_trial(e)
    verify_tokens(e, row, _tree(e, at), at, stack)
    end_trial(e, before)
    return -1 if failed(e) else keep_row(e)
