"""Heads: what the line breaks and brackets of a tree do above some open blocks (``kinds``)."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import DROPPED, FAILS, PLAIN, ROWS, effect
from cdec.core.grammars.engine.masks.allowed import group_item
from cdec.core.grammars.engine.masks.automaton import intern_state
from cdec.core.grammars.engine.masks.entries import add_entry, begin_item, tree_nodes
from cdec.core.grammars.engine.masks.partial import part_of_row
from cdec.core.grammars.engine.pointers import (
    Pointer,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    put,
    size,
    span,
    used,
)
from cdec.core.grammars.engine.readings import row_of
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = ["compute_first"]


@inner
def compute_first(e: int, at: int, blocks: int) -> int:
    """Return the state before the first step from a scanner state above some blocks, and note it.

    It is the tree's own where nothing in the tree asks for blocks. Cost: O(nodes and branches).
    """
    if at < 0 or at >= get(e, f.SCANNER_STATES):
        return 0
    row, column = row_of(e, at), 0
    tree = int32s(e, f.TREE_OF_STATE)[row]
    if tree < 0 or tree >= get(e, f.TREES):
        return 0
    if row < size(e, f.STATE_COLUMN):
        column = int32s(e, f.STATE_COLUMN)[row]
    put(e, f.ENTRY_END, used(e, f.AUTO_ENTRIES))
    _note_nodes(e, tree, blocks, column)
    if not failed(e):
        _note_branches(e, tree, blocks, column)
    state = tree
    if get(e, f.ENTRY_END) > used(e, f.AUTO_ENTRIES) and not failed(e):
        state = intern_state(e, get(e, f.TREES) + tree)
    if failed(e):
        return -1
    return state if insert(e, f.INDENT_TABLE, (at << 32) | blocks, state) else -1


@inner
def _note_nodes(e: int, tree: int, blocks: int, column: int) -> None:
    """Write the blocks at every path node to NODE_BLOCKS, and entries for those with effects."""
    first = max(int64s(e, f.TREE_PATHS)[tree], 0)
    parents, terminals = int32s(e, f.PATH_PARENT), int32s(e, f.PATH_TERMINAL)
    for node in range(tree_nodes(e, tree)):
        parent, terminal = parents[first + node], terminals[first + node]
        above = blocks
        if parent >= 0:
            above = int32s(e, f.NODE_BLOCKS)[parent] if parent < node else f.NONE
        code, after = PLAIN, above
        if above >= 0 and terminal >= 0:
            code, after = effect(e, above, terminal, column)
        int32s(e, f.NODE_BLOCKS)[node] = f.NONE if code == FAILS else after
        if code != PLAIN:
            begin_item(e)
            add_entry(e, node, code)
        if failed(e):
            return


@inner
def _note_branches(e: int, tree: int, blocks: int, column: int) -> None:
    """Write entries for the branches whose live terminals are others above the blocks."""
    low, high = span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))
    for group in range(low, high):
        start, stop = span(int64s(e, f.GROUP_BRANCHES), group, size(e, f.BRANCH_PATH))
        first = group_item(e, tree, group)
        for branch in range(start, stop):
            path, row = int32s(e, f.BRANCH_PATH)[branch], int32s(e, f.BRANCH_LIVE)[branch]
            here = blocks
            if path >= 0:
                here = int32s(e, f.NODE_BLOCKS)[path] if path < tree_nodes(e, tree) else f.NONE
            if row < 0 or here < 0:
                continue
            code = _row_above(e, row, here, column)
            if code != PLAIN:
                begin_item(e)
                add_entry(e, first + branch - start, code)
            if failed(e):
                return


@inner
def _row_above(e: int, row: int, blocks: int, column: int) -> int:
    """Return what of a live row can come above blocks: a part of a row, or an effect.

    PLAIN: the row itself; DROPPED: something that brackets drop, so nothing is asked; FAILS: none.
    Where a line break alone can be one, those with blocks behind them say nothing more.
    """
    if row >= get(e, f.LIVE_ROWS):
        return FAILS
    low, high = span(int32s(e, f.LIVE_OFFSETS), row, size(e, f.LIVE_TERMINALS))
    if not has_room(e, f.PART_TERMINALS, high - low):
        return PLAIN
    listed, kept = int32s(e, f.LIVE_TERMINALS), int32s(e, f.PART_TERMINALS)
    start, count, is_same, has_line = used(e, f.PART_TERMINALS), 0, True, False
    for i in range(low, high):
        code = effect(e, blocks, listed[i], column)[0]
        if code == DROPPED:
            return DROPPED
        is_same = is_same and code == PLAIN
        has_line = has_line or code == 1
        found = ROWS - code if code > 0 else listed[i]
        is_known = code == FAILS
        for j in range(count if code > 0 else 0):
            is_known = is_known or kept[start + j] == found
        if not is_known:
            kept[start + count] = found
            count += 1
    if is_same or failed(e):
        return PLAIN
    if has_line:
        count = _without_blocks(kept, start, count)
    return part_of_row(e, count) if count > 0 else FAILS


@inner
def _without_blocks(kept: Pointer, start: int, count: int) -> int:
    """Drop line breaks that open or close blocks; return how many terminals are left."""
    left = 0
    for i in range(count):
        if kept[start + i] > ROWS - 2:
            kept[start + left] = kept[start + i]
            left += 1
    return left
