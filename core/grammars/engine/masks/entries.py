"""Items of a tree, and entries: which items wait for which suspended reduction.

Entries of the state at work stand behind AUTO_ENTRIES in use, up to ENTRY_END; those of the item at
work from ENTRY_START on. A *question* is a row (of live terminals, or of other meaning to the item;
-1: none) with a suspension: ``nonterminal << 32 | LR states left to read before its goto``.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.masks.partial import question, suspensions
from cdec.core.grammars.engine.pointers import get, has_room, int32s, int64s, put, size, used
from cdec.core.grammars.engine.readings import next_state
from cdec.core.grammars.engine.stacks import failed, goto_state, vertex
from cdec.core.kernels import inner

__all__ = [
    "add_entry",
    "add_questions",
    "begin_item",
    "enters",
    "resume",
    "tree_nodes",
    "waits",
]


@inner
def begin_item(e: int) -> None:
    """Begin the entries of the next item."""
    put(e, f.ENTRY_START, get(e, f.ENTRY_END))


@inner
def add_entry(e: int, item: int, asked: int) -> None:
    """Add an entry to the state at work, sorted among its item's, unless it is there."""
    start, stop = get(e, f.ENTRY_START), get(e, f.ENTRY_END)
    if failed(e) or not has_room(e, f.AUTO_ENTRIES, stop + 2 - used(e, f.AUTO_ENTRIES)):
        return
    entries, at = int32s(e, f.AUTO_ENTRIES), stop
    while at > start and entries[at - 1] > asked:
        at -= 2
    if at > start and entries[at - 1] == asked:
        return
    for i in range(stop, at, -2):
        entries[i], entries[i + 1] = entries[i - 2], entries[i - 1]
    entries[at], entries[at + 1] = item, asked
    put(e, f.ENTRY_END, stop + 2)


@inner
def add_questions(e: int, item: int, number: int) -> None:
    """Add an entry for every question of a list."""
    for i in range(suspensions(e, number)):
        add_entry(e, item, int64s(e, f.SUSPENSIONS)[number + 1 + i])


@inner
def waits(e: int, state: int, item: int) -> bool:
    """Say whether a state's next entry is one of an item; those of earlier items are skipped."""
    at, stop = get(e, f.ENTRY_AT), int64s(e, f.AUTO_OFFSETS)[state + 1]
    entries = int32s(e, f.AUTO_ENTRIES)
    while at < stop and entries[at] < item:
        at += 2
    put(e, f.ENTRY_AT, at)
    return at < stop and entries[at] == item


@inner
def resume(e: int, item: int, base: int) -> int:
    """Take the next entry: return the partial stack on which it goes on, FAIL if it waits further.

    ENTRY_ROW is then its row. ``base``: the vertex of the LR state that was read.
    """
    at = get(e, f.ENTRY_AT)
    asked = int32s(e, f.AUTO_ENTRIES)[at + 1]
    put(e, f.ENTRY_AT, at + 2)
    suspended, row = int64s(e, f.QUESTION_SUSPENSION)[asked], int32s(e, f.QUESTION_ROW)[asked]
    put(e, f.ENTRY_ROW, row)
    if suspended & 0xFFFFFFFF:
        add_entry(e, item, question(e, row, suspended - 1))
        return f.FAIL
    target = goto_state(e, int32s(e, f.VERTEX_STATE)[base], suspended >> 32)
    return vertex(e, target, base) if target >= 0 else f.FAIL


@inner
def tree_nodes(e: int, tree: int) -> int:
    """Return the number of a tree's path nodes."""
    paths = int64s(e, f.TREE_PATHS)
    first, stop = max(paths[tree], 0), min(paths[tree + 1], size(e, f.PATH_PARENT))
    return max(min(stop - first, size(e, f.NODE_STACK)), 0)


@inner
def enters(e: int, stack: int, path: int) -> bool:
    """Say whether the next terminal's first byte leads to the scanner state of an ENTER node."""
    if stack < 0:
        return False
    vertex_state = int32s(e, f.VERTEX_STATE)[stack]
    if vertex_state >= get(e, f.LR_STATES):
        return False
    context, byte_class = int32s(e, f.LR_CONTEXT)[vertex_state], int32s(e, f.PATH_BYTE)[path]
    if context < 0 or context >= get(e, f.CONTEXTS):
        return False
    start = int32s(e, f.CONTEXT_START)[context]
    return next_state(e, start, byte_class) == int32s(e, f.PATH_NEXT)[path]
