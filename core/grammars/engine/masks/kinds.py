"""Of which tree a state of the automaton is, and what line breaks do there.

With an indenter, line breaks do what the open blocks say, so a tree's automaton is one for every
way in which they can act on it: equal ones are one, however deep a text is indented. Such an
automaton begins with a *head*: a state whose entries are (item, effect), for path nodes, and (item,
live row) for branches. The *kind* of a state (AUTO_TREE) is its tree, or of a head E + its tree, or
of a state that comes after a head 2 E + the head.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import PLAIN, blocks_of
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    call3,
    get,
    int32s,
    int64s,
    lookup,
    put,
)
from cdec.core.kernels import inner

__all__ = [
    "begin_effects",
    "effect_at",
    "first_state",
    "is_before",
    "kind_after",
    "tree_of",
]


@inner
def first_state(e: int, at: int, tree: int, stack: int) -> int:
    """Return the state before the first step; -1 after a lack of room."""
    blocks = blocks_of(e, stack)
    if blocks < 0:
        return tree
    known = lookup(e, f.INDENT_TABLE, (at << 32) | blocks)
    return known if known != ABSENT else call3(get(e, f.CALL_INDENTED), e, at, blocks)


@inner
def is_before(e: int, state: int) -> bool:
    """Say whether nothing of the stack has been read in a state."""
    trees = get(e, f.TREES)
    return state < trees or trees <= int32s(e, f.AUTO_TREE)[state] < 2 * trees


@inner
def _head_of(e: int, state: int) -> int:
    """Return the head that a state is, or comes after; -1 for none."""
    trees = get(e, f.TREES)
    kind = int32s(e, f.AUTO_TREE)[state] if state >= trees else 0
    if kind < trees:
        return -1
    return state if kind < 2 * trees else kind - 2 * trees


@inner
def tree_of(e: int, state: int) -> int:
    """Return the tree of a state."""
    trees, head = get(e, f.TREES), _head_of(e, state)
    if head >= 0:
        return int32s(e, f.AUTO_TREE)[head] - trees
    return state if state < trees else int32s(e, f.AUTO_TREE)[state]


@inner
def kind_after(e: int, state: int) -> int:
    """Return the kind of the states that come after a state."""
    head = _head_of(e, state)
    return tree_of(e, state) if head < 0 else 2 * get(e, f.TREES) + head


@inner
def begin_effects(e: int, state: int) -> None:
    """Begin to look up effects in the head of a state; items must ascend."""
    head = _head_of(e, state)
    offsets = int64s(e, f.AUTO_OFFSETS)
    put(e, f.HEAD_AT, offsets[head] if head >= 0 else 0)
    put(e, f.HEAD_STOP, offsets[head + 1] if head >= 0 else 0)


@inner
def effect_at(e: int, item: int) -> int:
    """Return the effect, or the live row, of an item; PLAIN: what the tree says."""
    at, stop, entries = get(e, f.HEAD_AT), get(e, f.HEAD_STOP), int32s(e, f.AUTO_ENTRIES)
    while at < stop and entries[at] < item:
        at += 2
    put(e, f.HEAD_AT, at)
    return entries[at + 1] if at < stop and entries[at] == item else PLAIN
