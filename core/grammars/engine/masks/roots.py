"""Where the automaton of a tree begins, and of which tree and which beginning a list is.

Without an indenter it begins with the tree's own first state. With one, line breaks do what the
open blocks say, so a tree's automaton is one for every way in which they can act on it: equal ones
are one, however deep a text is indented. Such an automaton begins with a *head*: a list of -1 and
of ``item << 32 | effect`` for path nodes and of ``item << 32 | live row`` for branches, where they
are not what the tree says. The *root* of a list is its tree, or its head.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import PLAIN, blocks_of
from cdec.core.grammars.engine.lists import head, item, length
from cdec.core.grammars.engine.pointers import ABSENT, call3, get, lookup, used
from cdec.core.kernels import inner

__all__ = [
    "ALLOWED",
    "HEAD",
    "STATE",
    "WAITING",
    "effect_at",
    "first_state",
    "is_before",
    "root_of",
    "tree_of",
]

ALLOWED, WAITING, STATE, HEAD = 0, 1, 2, 3
"""Kinds of lists of a tree: ``kind | root << 2`` is their first item."""


@inner
def first_state(e: int, at: int, tree: int, stack: int) -> int:
    """Return the state before the first step; -1 after a lack of room."""
    blocks = blocks_of(e, stack)
    if blocks < 0:
        return tree
    known = lookup(e, f.INDENT_TABLE, (at << 32) | blocks)
    return known if known != ABSENT else call3(get(e, f.CALL_INDENTED), e, at, blocks)


@inner
def is_before(e: int, number: int) -> bool:
    """Say whether a list is a state before the first step: of a tree, or a head."""
    return length(e, number) < 0 or head(e, number) & 3 == HEAD


@inner
def root_of(e: int, number: int) -> int:
    """Return the root of a list."""
    return number if is_before(e, number) else head(e, number) >> 2


@inner
def tree_of(e: int, number: int) -> int:
    """Return the tree of a list, or of a root."""
    trees = get(e, f.TREES)
    while number >= trees and number < used(e, f.LIST_OFFSETS) - 1:
        following = head(e, number) >> 2
        if following >= number:
            break
        number = following
    return number if 0 <= number < trees else 0


@inner
def effect_at(e: int, number: int) -> int:
    """Return the effect, or the live row, of an item in ROOT; PLAIN: what the tree says."""
    root = get(e, f.ROOT)
    if root < get(e, f.TREES):
        return PLAIN
    low, high = 1, length(e, root)
    while low < high:
        middle = (low + high) >> 1
        if item(e, root, middle) >> 32 < number:
            low = middle + 1
        else:
            high = middle
    if low >= length(e, root) or item(e, root, low) >> 32 != number:
        return PLAIN
    return (item(e, root, low) << 32) >> 32
