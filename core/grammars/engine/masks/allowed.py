"""What a state of the automaton of masks allows whatever lies below on the stack, and its mask."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.masks.entries import tree_nodes, waits
from cdec.core.grammars.engine.masks.kinds import tree_of
from cdec.core.grammars.engine.masks.store import add_group, add_token, keep_row, new_row
from cdec.core.grammars.engine.pointers import get, int32s, int64s, put, size, span
from cdec.core.kernels import inner

__all__ = ["ALLOWED", "group_item", "is_noted", "mask_of"]

ALLOWED = -1
"""Question of an entry that says: allowed."""


@inner
def mask_of(e: int, state: int) -> int:
    """Return the mask of what a state allows whatever lies below; -1 after a lack of room.

    Computed at the first call: most states are only passed.
    """
    known = int32s(e, f.AUTO_MASK)[state]
    if known >= 0:
        return known
    row = new_row(e)
    if row == 0:
        return -1
    if state >= get(e, f.TREES):
        _add_allowed(e, row, state)
    mask = keep_row(e)
    if mask >= 0:
        int32s(e, f.AUTO_MASK)[state] = mask
    return mask


@inner
def _add_allowed(e: int, row: int, state: int) -> None:
    """Add what is allowed in a state to a row."""
    tree = tree_of(e, state)
    put(e, f.ENTRY_AT, int64s(e, f.AUTO_OFFSETS)[state])
    low, high = span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))
    for group in range(low, high):
        if is_noted(e, state, group_item(e, tree, group)):
            add_group(e, row, group)
    first, tokens = group_item(e, tree, high), int32s(e, f.VERIFY_TOKENS)
    low, high = span(int64s(e, f.TREE_VERIFY), tree, size(e, f.VERIFY_TOKENS))
    for i in range(low, high):
        if is_noted(e, state, first + i - low):
            add_token(e, row, tokens[i])


@inner
def group_item(e: int, tree: int, group: int) -> int:
    """Return the item of a group's first branch; behind the last group, the first token's."""
    groups, branches = int64s(e, f.TREE_GROUPS), int64s(e, f.GROUP_BRANCHES)
    low = span(groups, tree, size(e, f.GROUP_DENSE))[0]
    return tree_nodes(e, tree) + max(branches[group] - max(branches[low], 0), 0)


@inner
def is_noted(e: int, state: int, item: int) -> bool:
    """Say whether an item is allowed by what a state has read."""
    return waits(e, state, item) and int32s(e, f.AUTO_ENTRIES)[get(e, f.ENTRY_AT) + 1] == ALLOWED
