"""Shapes: what the top of a stack decides of a mask, kept once for all stacks with that top.

Most groups of a tree ask for a few LR states from the top of the stack; a token like ``}}}}`` asks
for many. So the first mask of a scanner state and a top is split: the groups that the top decides
are a mask of their own, the *base*; those that read deeper are *open*. A shape holds the base, and
the path nodes and branches of the open groups. For another stack with the same top only these are
asked, and the mask is known by their answers.

A shape in SHAPE_ITEMS: base mask, tree, number of nodes, number of open groups, and 1 if the tokens
that are stepped byte by byte are open; the nodes, parents first; for every open group its number,
its number of branches, and these.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.mask_store import child, copy_row, keep_row, new_row
from cdec.core.grammars.engine.pointers import (
    get,
    has_room,
    int32s,
    int64s,
    put,
    size,
    span,
    used,
)
from cdec.core.grammars.engine.stacks import failed
from cdec.core.grammars.engine.trees import add_group, is_branch_allowed, node_stack, verify_tokens
from cdec.core.kernels import inner

__all__ = ["answer", "combine", "decide", "has_open_steps"]

_SHAPES = 0x7FFFFFFE
_HEAD = 5
_CHUNK = 30
"""Answers in one key of a memo node."""


@inner
def decide(e: int, tree: int, at: int, stack: int, limit: int) -> int:
    """Put the tokens that the stack down to height ``limit`` decides into the row of ``new_row``.

    The open groups stand behind SHAPE_ITEMS in use, as a shape that ends at SHAPE_END; DECIDED_LOW
    is the lowest height that the decided ones read.

    Returns:
        The number of open groups, one more if stepped tokens are open; -1 after a lack of room.
    """
    row, steps = new_row(e), 0
    if row == 0 or not _room_for_shape(e, tree):
        return -1
    put(e, f.LOW, f.FAR)
    verify_tokens(e, row, tree, at, stack)
    if get(e, f.LOW) < limit:
        row, steps = new_row(e), 1
        put(e, f.LOW, f.FAR)
    put(e, f.DECIDED_LOW, get(e, f.LOW))
    _walk_paths(e, tree, stack)
    groups, items = int64s(e, f.TREE_GROUPS), int32s(e, f.SHAPE_ITEMS)
    nodes = _tree_nodes(e, tree)
    start = used(e, f.SHAPE_ITEMS) + _HEAD + nodes
    at_item, open_groups = start, 0
    for path in range(nodes):
        int32s(e, f.NODE_MARK)[path] = 0
    low, high = span(groups, tree, size(e, f.GROUP_DENSE))
    for group in range(low, high):
        count = _decide_group(e, tree, group, stack, limit, at_item + 2)
        if failed(e):
            return -1
        if count == -1:
            add_group(e, row, group)
        elif count > 0:
            items[at_item], items[at_item + 1] = group, count
            at_item, open_groups = at_item + 2 + count, open_groups + 1
    _close(e, tree, start, at_item, open_groups)
    items[used(e, f.SHAPE_ITEMS) + 4] = steps
    return open_groups + steps


@inner
def has_open_steps(e: int, shape: int) -> bool:
    """Say whether the tokens that are stepped byte by byte must be asked for every stack."""
    return int32s(e, f.SHAPE_ITEMS)[shape + 4] != 0


@inner
def _room_for_shape(e: int, tree: int) -> bool:
    groups, branches = int64s(e, f.TREE_GROUPS), int64s(e, f.GROUP_BRANCHES)
    first, stop = max(groups[tree], 0), min(groups[tree + 1], size(e, f.GROUP_DENSE))
    if first >= stop:
        return has_room(e, f.SHAPE_ITEMS, _HEAD + _tree_nodes(e, tree))
    asked = max(branches[stop] - branches[first], 0) + 2 * (stop - first)
    return has_room(e, f.SHAPE_ITEMS, _HEAD + 2 * _tree_nodes(e, tree) + asked)


@inner
def _tree_nodes(e: int, tree: int) -> int:
    paths = int64s(e, f.TREE_PATHS)
    first, stop = max(paths[tree], 0), min(paths[tree + 1], size(e, f.PATH_PARENT))
    return max(min(stop - first, size(e, f.NODE_STACK)), 0)


@inner
def _walk_paths(e: int, tree: int, stack: int) -> None:
    """Find the stack at every path node of a tree, and the lowest height that was read for it."""
    stacks, lows = int32s(e, f.NODE_STACK), int32s(e, f.NODE_LOW)
    first, parents = max(int64s(e, f.TREE_PATHS)[tree], 0), int32s(e, f.PATH_PARENT)
    for path in range(_tree_nodes(e, tree)):
        parent = parents[first + path]
        put(e, f.LOW, f.FAR)
        stacks[path] = node_stack(e, first, first + path, stack)
        low = get(e, f.LOW)
        lows[path] = min(low, lows[parent]) if 0 <= parent < path else low


@inner
def _decide_group(e: int, tree: int, group: int, stack: int, limit: int, at_item: int) -> int:
    """Ask the branches of a group; write those that read below ``limit`` behind ``at_item``.

    Returns -1: allowed; 0: not allowed; else open, and the number of branches written.
    """
    branches, items = int64s(e, f.GROUP_BRANCHES), int32s(e, f.SHAPE_ITEMS)
    paths, depths = int32s(e, f.BRANCH_PATH), int32s(e, f.BRANCH_DEPTH)
    nodes, lookahead, count = _tree_nodes(e, tree), get(e, f.LOOKAHEAD), 0
    low, high = span(branches, group, size(e, f.BRANCH_PATH))
    for branch in range(low, high):
        path = paths[branch]
        if depths[branch] > lookahead or path >= nodes:
            continue
        put(e, f.LOW, f.FAR)
        allowed = is_branch_allowed(e, branch, stack)
        low = get(e, f.LOW)
        if path >= 0:
            low = min(low, int32s(e, f.NODE_LOW)[path])
        if low < limit:
            items[at_item + count] = branch
            count += 1
            continue
        if low < get(e, f.DECIDED_LOW):
            put(e, f.DECIDED_LOW, low)
        if allowed:
            return -1
    return count


@inner
def _close(e: int, tree: int, start: int, stop: int, open_groups: int) -> None:
    """Complete the shape behind SHAPE_ITEMS in use: its head and the nodes its branches need."""
    items, marks = int32s(e, f.SHAPE_ITEMS), int32s(e, f.NODE_MARK)
    first, parents = max(int64s(e, f.TREE_PATHS)[tree], 0), int32s(e, f.PATH_PARENT)
    paths, nodes, at = int32s(e, f.BRANCH_PATH), _tree_nodes(e, tree), start
    while at < stop:
        for i in range(at + 2, at + 2 + items[at + 1]):
            path = paths[items[i]]
            while 0 <= path < nodes and marks[path] == 0:
                marks[path], path = 1, parents[first + path]
        at += 2 + items[at + 1]
    head = used(e, f.SHAPE_ITEMS)
    put_at, count = head + _HEAD, 0
    for path in range(nodes):
        if marks[path] != 0:
            items[put_at + count] = path
            count += 1
    for i in range(start, stop):
        items[put_at + count + i - start] = items[i]
    items[head + 1], items[head + 2], items[head + 3] = tree, count, open_groups
    put(e, f.SHAPE_END, put_at + count + stop - start)


@inner
def answer(e: int, shape: int, stack: int) -> None:
    """Ask the open groups of a shape for another stack; answers stand behind SHAPE_ITEMS in use."""
    items = int32s(e, f.SHAPE_ITEMS)
    tree, count, open_groups = items[shape + 1], items[shape + 2], items[shape + 3]
    answers = used(e, f.SHAPE_ITEMS)
    if not has_room(e, f.SHAPE_ITEMS, open_groups):
        return
    first, stacks = max(int64s(e, f.TREE_PATHS)[tree], 0), int32s(e, f.NODE_STACK)
    for i in range(count):
        path = items[shape + _HEAD + i]
        stacks[path] = node_stack(e, first, first + path, stack)
    at = shape + _HEAD + count
    for i in range(open_groups):
        stop = at + 2 + items[at + 1]
        at += 2
        while at < stop and not is_branch_allowed(e, items[at], stack):
            at += 1
        items[answers + i] = at < stop
        at = stop


@inner
def combine(e: int, shape: int) -> int:
    """Return the mask of a shape and the answers behind SHAPE_ITEMS; -1 after a lack of room."""
    items, answers = int32s(e, f.SHAPE_ITEMS), used(e, f.SHAPE_ITEMS)
    node, bits, open_groups = child(e, _SHAPES, shape), 0, items[shape + 3]
    for i in range(open_groups):
        bits |= items[answers + i] << (i % _CHUNK)
        if i % _CHUNK == _CHUNK - 1 or i == open_groups - 1:
            if node < 0:
                return -1
            node, bits = child(e, node, bits), 0
    if node < 0:
        return -1
    mask = int32s(e, f.MEMO_MASK)[node]
    if mask >= 0:
        put(e, f.SHARED, get(e, f.SHARED) + 1)
        return mask
    row = new_row(e)
    if row == 0:
        return -1
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    copy_row(e, row, items[shape])
    at = shape + _HEAD + items[shape + 2]
    for i in range(open_groups):
        if items[answers + i] != 0:
            add_group(e, row, items[at])
        at += 2 + items[at + 1]
    mask = keep_row(e)
    if mask >= 0:
        int32s(e, f.MEMO_MASK)[node] = mask
    return mask
