"""What a state of the automaton of masks allows whatever lies below on the stack, as a mask."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.lists import item, length, list_in
from cdec.core.grammars.engine.masks.roots import tree_of
from cdec.core.grammars.engine.masks.store import add_group, add_token, keep_row, new_row
from cdec.core.grammars.engine.masks.trees import groups_of, tokens_of
from cdec.core.grammars.engine.pointers import int32s
from cdec.core.kernels import inner

__all__ = ["mask_of"]


@inner
def mask_of(e: int, state: int) -> int:
    """Return the mask of what a state allows whatever lies below; -1 after a lack of room.

    Computed at the first call: most states are only passed.
    """
    allowed = list_in(e, state, 0)
    known = int32s(e, f.LIST_MASK)[allowed] if allowed > 0 else -1
    if known >= 0:
        return known
    row = new_row(e)
    if row == 0:
        return -1
    _add_allowed(e, row, tree_of(e, state), allowed)
    mask = keep_row(e)
    if mask >= 0 and allowed > 0:
        int32s(e, f.LIST_MASK)[allowed] = mask
    return mask


@inner
def _add_allowed(e: int, row: int, tree: int, allowed: int) -> None:
    """Add a list of groups and tokens to a row."""
    groups, stop = groups_of(e, tree)
    tokens, end = tokens_of(e, tree)
    for i in range(length(e, allowed)):
        word, number = item(e, allowed, i), 64 * i
        while word != 0:
            if word & 1:
                token = tokens + number - (stop - groups)
                if number < stop - groups:
                    add_group(e, row, groups + number)
                elif token < end:
                    add_token(e, row, int32s(e, f.VERIFY_TOKENS)[token])
            word, number = (word >> 1) & 0x7FFFFFFFFFFFFFFF, number + 1
