"""Heads: what the line breaks and brackets of a tree do above some open blocks (``roots``)."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import DROPPED, FAILS, PLAIN, ROWS, effect
from cdec.core.grammars.engine.lists import (
    PART,
    append,
    begin_list,
    end_list,
    push_pair64,
    sort_pairs,
)
from cdec.core.grammars.engine.masks.roots import HEAD
from cdec.core.grammars.engine.masks.trees import branches_of, nodes_of
from cdec.core.grammars.engine.pointers import get, insert, int32s, int64s, size, span, use, used
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
    use(e, f.FOUND, 0)
    _note_nodes(e, tree, blocks, column)
    if not failed(e):
        _note_branches(e, tree, blocks, column)
    state = tree if used(e, f.FOUND) == 0 else _head(e, tree)
    if failed(e):
        return -1
    return state if insert(e, f.INDENT_TABLE, (at << 32) | blocks, state) else -1


@inner
def _head(e: int, tree: int) -> int:
    """Return the list of what was found."""
    pairs, n = int64s(e, f.FOUND), used(e, f.FOUND) // 2
    sort_pairs(pairs, n)
    begin_list(e, (tree << 2) | HEAD)
    append(e, -1)
    for i in range(n):
        append(e, (pairs[2 * i] << 32) | (pairs[2 * i + 1] & 0xFFFFFFFF))
    return end_list(e)


@inner
def _note_nodes(e: int, tree: int, blocks: int, column: int) -> None:
    """Write the blocks at every path node to NODE_BLOCKS, and find those with effects."""
    first, stop = nodes_of(e, tree)
    parents, terminals = int32s(e, f.PATH_PARENT), int32s(e, f.PATH_TERMINAL)
    for node in range(min(stop - first, size(e, f.NODE_BLOCKS))):
        parent, terminal = parents[first + node], terminals[first + node]
        above = blocks
        if parent >= 0:
            above = int32s(e, f.NODE_BLOCKS)[parent] if parent < node else f.NONE
        code, after = PLAIN, above
        if above >= 0 and terminal >= 0:
            code, after = effect(e, above, terminal, column)
        int32s(e, f.NODE_BLOCKS)[node] = f.NONE if code == FAILS else after
        if code != PLAIN:
            push_pair64(e, f.FOUND, node, code)
        if failed(e):
            return


@inner
def _note_branches(e: int, tree: int, blocks: int, column: int) -> None:
    """Find the branches whose live terminals are others above the blocks."""
    first, stop = nodes_of(e, tree)
    begin, end = branches_of(e, tree)
    known = min(stop - first, size(e, f.NODE_BLOCKS))
    for branch in range(begin, end):
        path, row = int32s(e, f.BRANCH_PATH)[branch], int32s(e, f.BRANCH_LIVE)[branch]
        here = blocks
        if path >= 0:
            here = int32s(e, f.NODE_BLOCKS)[path] if path < known else f.NONE
        if row < 0 or here < 0:
            continue
        code = _row_above(e, row, here, column)
        if code != PLAIN:
            push_pair64(e, f.FOUND, stop - first + branch - begin, code)
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
    listed, is_same, has_line = int32s(e, f.LIVE_TERMINALS), True, False
    for i in range(low, high):
        code = effect(e, blocks, listed[i], column)[0]
        if code == DROPPED:
            return DROPPED
        is_same = is_same and code == PLAIN
        has_line = has_line or code == 1
    return PLAIN if is_same or failed(e) else _part_above(e, low, high, blocks, column, has_line)


@inner
def _part_above(e: int, low: int, high: int, blocks: int, column: int, has_line: bool) -> int:
    """Return the row of the live terminals that can come, and of effects; FAILS: none."""
    listed = int32s(e, f.LIVE_TERMINALS)
    begin_list(e, PART)
    start = used(e, f.LIST_ITEMS) + 1
    for i in range(low, high):
        code = effect(e, blocks, listed[i], column)[0]
        if code == FAILS or (has_line and code > 1):
            continue
        found, known = ROWS - code if code > 0 else listed[i], False
        for j in range(start, get(e, f.LIST_END) if code > 0 else start):
            known = known or int64s(e, f.LIST_ITEMS)[j] == found
        if not known:
            append(e, found)
    if get(e, f.LIST_END) == start:
        return FAILS
    return get(e, f.LIVE_ROWS) + end_list(e)
