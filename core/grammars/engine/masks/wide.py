"""Masks of stacks with very many ways down: one token of each group is read above the whole stack.

The automaton reads a stack one LR state after another, and computes for every LR state what all
stacks below it have in common. Where hundreds lie side by side, which is rare and where a grammar
is ambiguous in all of its rules, that is far more than this one stack needs.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.allowing import is_allowed
from cdec.core.grammars.engine.masks.store import add_group
from cdec.core.grammars.engine.pointers import address, get, int32s, int64s, size, span
from cdec.core.grammars.engine.stacks import failed, members
from cdec.core.grammars.engine.work import pause, spend
from cdec.core.kernels import inner

__all__ = ["add_groups", "is_wide"]

_WIDE = 64
"""Vertices side by side."""


@inner
def is_wide(e: int, stack: int) -> bool:
    """Say whether a stack, or what is left of one, forks into very many."""
    return members(e, stack) > _WIDE


@inner
def add_groups(e: int, row: int, tree: int, at: int, stack: int, first: int) -> int:
    """Add the groups of a tree to a row, by stepping a token of each: all of it fare alike.

    Args:
        e: The engine's header.
        row: Address of the row.
        tree: Of the scanner state.
        at: The scanner state.
        stack: Before the tokens.
        first: Groups that were added before.

    Returns:
        How many groups were looked at by now; not all where the call must end.
    """
    starts, readings = int64s(e, f.VOCABULARY_OFFSETS), int32s(e, f.READINGS)
    text = address(e, f.VOCABULARY_BYTES)
    low, high = span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))
    for group in range(low + first, high):
        if failed(e):
            return group - low
        token, begin, stop = _one_of(e, group), 0, -1
        if 0 <= token < get(e, f.VOCABULARY):
            begin, stop = starts[token], starts[token + 1]
        if begin < 0 or stop < begin or stop > size(e, f.VOCABULARY_BYTES):
            continue
        readings[0], readings[1], readings[2] = at, stack, 0
        allowed = is_allowed(e, text + begin, stop - begin, 1)
        if failed(e):
            return group - low
        if allowed:
            add_group(e, row, group)
        spend(e, stop - begin)
        pause(e)
    return high - low


@inner
def _one_of(e: int, group: int) -> int:
    """Return a token of a group, -1 if it has none."""
    dense, words = int32s(e, f.GROUP_DENSE)[group], get(e, f.DENSE_WORDS)
    if dense < 0:
        low, high = span(int64s(e, f.GROUP_TOKENS), group, size(e, f.TOKENS))
        return int32s(e, f.TOKENS)[low] if low < high else -1
    if (dense + 1) * words > size(e, f.DENSE_MASKS):
        return -1
    masks = int32s(e, f.DENSE_MASKS)
    for word in range(words):
        for bit in range(32):
            if (masks[dense * words + word] >> bit) & 1:
                return 32 * word + bit
    return -1
