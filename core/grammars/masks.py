"""Exact masks: of one reading from its subterminal tree, of a decoding state from its readings.

DOMINO (arXiv 2403.06988, section 3.3) walks subterminal trees with the parser; here a tree's
distinct ends are groups of tokens, and what the parser says of a tree's path is computed once.
The mask of (scanner state, stack) depends on the part of the stack that was read only: a tree of
*reading nodes*, keyed by LR states from the top, holds the masks that are known.
"""

from __future__ import annotations

from cdec.core.grammars import fields as f
from cdec.core.grammars.chains import after_terminal, read_text
from cdec.core.grammars.mask_rows import add_dense, join, keep_row, new_row
from cdec.core.grammars.raw import (
    ABSENT,
    Pointer,
    address,
    call3,
    get,
    has_room,
    insert,
    int32s,
    int32s_at,
    int64s,
    lookup,
    native,
    put,
    size,
    uint8s,
    use,
    used,
)
from cdec.core.grammars.shifts import can_shift_any
from cdec.core.grammars.stacks import (
    begin_trial,
    end_trial,
    failed,
    lower,
    member,
    members,
)

__all__ = ["chain_mask", "compute_mask"]

_MAX_READ = 64
"""Stack read deeper than this is not shared between stacks."""
_ROOTS = 0x7FFFFFFF


@native
def chain_mask(e: int, items: Pointer, start: int, n: int) -> int:
    """Return the mask of n readings (scanner state, stack): two int32 each from ``items[start]``.

    A chain: a fallback sees only tokens in which nothing before it completes. A set, and a set
    of stacks: the union.
    Returns -1 after a lack of room.
    """
    states, mask = get(e, f.SCANNER_STATES), -1
    for i in range(n - 1, -1, -1):
        at, stack = items[start + 2 * i], items[start + 2 * i + 1]
        at, taken = at - states if at >= states else at, -1
        if mask >= 0:
            taken = int32s(e, f.TREE_TAKEN)[_tree(e, at)]
        for j in range(members(e, stack)):
            own = _reading_mask(e, at, member(e, stack, j))
            mask = own if mask < 0 or own < 0 else join(e, own, taken, mask)
            if mask < 0:
                return -1
    return mask


@native
def _tree(e: int, at: int) -> int:
    """Return the tree of a scanner state; 0 where the artifact is damaged."""
    if at < 0 or at >= get(e, f.SCANNER_STATES):
        return 0
    tree = int32s(e, f.TREE_OF_STATE)[at]
    return tree if 0 <= tree < size(e, f.TREE_TAKEN) else 0


@native
def _reading_mask(e: int, at: int, stack: int) -> int:
    """Return the mask of one reading, computed or known; -1 after a lack of room."""
    mask = _known(e, at, stack)
    if mask >= 0:
        put(e, f.SHARED, get(e, f.SHARED) + 1)
        return mask
    return call3(get(e, f.CALL_MASK), e, at, stack)


@native
def compute_mask(e: int, at: int, stack: int) -> int:
    """Compute the mask of a reading, and note it; -1 after a lack of room."""
    outer = get(e, f.LOW)
    put(e, f.LOW, f.FAR)
    before = begin_trial(e)
    done = _compute(e, at, stack) and not failed(e)
    end_trial(e, before)
    mask = keep_row(e) if done else -1
    low = get(e, f.LOW)
    lower(e, outer)
    if mask < 0 or failed(e):
        return -1
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    return mask if _remember(e, at, stack, low, mask) else -1


@native
def _child(e: int, node: int, key: int) -> int:
    """Return the reading node below another, made if need be; -1 after a lack of room."""
    packed = (node << 32) | (key & 0xFFFFFFFF)
    known = lookup(e, f.READING_TABLE, packed)
    if known != ABSENT:
        return known
    new = used(e, f.READING_MASK)
    if not has_room(e, f.READING_MASK, 1) or not insert(e, f.READING_TABLE, packed, new):
        return -1
    use(e, f.READING_MASK, new + 1)
    int32s(e, f.READING_MASK)[new] = -1
    return new


@native
def _known(e: int, at: int, stack: int) -> int:
    """Walk from the scanner state down the stack to a mask; -1 if there is none."""
    masks, states = int32s(e, f.READING_MASK), int32s(e, f.VERTEX_STATE)
    belows, vertex = int32s(e, f.VERTEX_BELOW), stack
    node = lookup(e, f.READING_TABLE, (_ROOTS << 32) | at)
    while node != ABSENT:
        if masks[node] >= 0:
            return masks[node]
        if vertex < 0:
            break  # the root, or a set
        node = lookup(e, f.READING_TABLE, (node << 32) | states[vertex])
        vertex = belows[vertex]
    node = lookup(e, f.READING_TABLE, ((-2 - at) << 32) | stack)
    return masks[node] if node != ABSENT else -1


@native
def _remember(e: int, at: int, stack: int, low: int, mask: int) -> bool:
    """Note a mask at the reading node of what was read: the stack down to height ``low``."""
    read = int32s(e, f.VERTEX_HEIGHT)[stack] - low + 1
    if low == f.WHOLE or read > _MAX_READ:
        node = _child(e, -2 - at, stack)
    else:
        node = _child(e, _ROOTS, at)
        for _ in range(read):
            if node < 0:
                return False
            node = _child(e, node, int32s(e, f.VERTEX_STATE)[stack])
            stack = int32s(e, f.VERTEX_BELOW)[stack]
    if node < 0:
        return False
    int32s(e, f.READING_MASK)[node] = mask
    return True


@native
def _compute(e: int, at: int, stack: int) -> bool:
    """Walk the tree of a scanner state: paths, then groups, then tokens whose bytes are stepped.

    The mask then stands in the row of ``new_row``; False after a lack of room.
    """
    row, tree = new_row(e), _tree(e, at)
    if row == 0 or not _walk_paths(e, tree, stack):
        return False
    groups, dense = int64s(e, f.TREE_GROUPS), int32s(e, f.GROUP_DENSE)
    for group in range(max(groups[tree], 0), min(groups[tree + 1], size(e, f.GROUP_DENSE))):
        if not _is_allowed(e, tree, group, stack):
            continue
        if dense[group] >= 0:
            add_dense(e, row, dense[group])
        else:
            _add_listed(e, row, group)
    return _verify(e, row, tree, at, stack)


@native
def _walk_paths(e: int, tree: int, stack: int) -> bool:
    """Find the stack at every path node of a tree, FAIL where the node cannot be reached."""
    paths, stacks = int64s(e, f.TREE_PATHS), int32s(e, f.NODE_STACK)
    first, stop = max(paths[tree], 0), min(paths[tree + 1], size(e, f.PATH_PARENT))
    parents, terminals = int32s(e, f.PATH_PARENT), int32s(e, f.PATH_TERMINAL)
    for path in range(first, min(stop, first + size(e, f.NODE_STACK))):
        parent, terminal = parents[path], terminals[path]
        here = stack
        if parent >= 0:
            here = stacks[parent] if parent < path - first else f.FAIL
        if here != f.FAIL:
            if terminal >= 0:
                here = after_terminal(e, here, terminal)
            elif not _enters(e, here, path):
                here = f.FAIL
        stacks[path - first] = here
        if failed(e):
            return False
    return True


@native
def _enters(e: int, stack: int, path: int) -> bool:
    """Say whether the next terminal's first byte leads to the scanner state of an ENTER node."""
    if stack < 0:
        return False
    vertex_state, classes = int32s(e, f.VERTEX_STATE)[stack], get(e, f.CLASSES)
    lower(e, int32s(e, f.VERTEX_HEIGHT)[stack])
    context, byte_class = int32s(e, f.LR_CONTEXT)[vertex_state], int32s(e, f.PATH_BYTE)[path]
    if context < 0 or context >= get(e, f.CONTEXTS) or byte_class < 0 or byte_class >= classes:
        return False
    start = int32s(e, f.CONTEXT_START)[context]
    if start < 0 or start >= get(e, f.SCANNER_STATES):
        return False
    return int32s(e, f.DELTA)[start * classes + byte_class] == int32s(e, f.PATH_NEXT)[path]


@native
def _is_allowed(e: int, tree: int, group: int, stack: int) -> bool:
    """Say whether some branch of a group is allowed."""
    branches, lookahead = int64s(e, f.GROUP_BRANCHES), get(e, f.LOOKAHEAD)
    paths, rows, depths = (
        int32s(e, f.BRANCH_PATH),
        int32s(e, f.BRANCH_LIVE),
        int32s(e, f.BRANCH_DEPTH),
    )
    stacks, first = int32s(e, f.NODE_STACK), int64s(e, f.TREE_PATHS)[tree]
    nodes = min(int64s(e, f.TREE_PATHS)[tree + 1] - first, size(e, f.NODE_STACK))
    for branch in range(max(branches[group], 0), min(branches[group + 1], size(e, f.BRANCH_PATH))):
        path = paths[branch]
        if depths[branch] > lookahead or path >= nodes:
            continue
        here = stacks[path] if path >= 0 else stack
        if here != f.FAIL and (rows[branch] < 0 or can_shift_any(e, here, rows[branch])):
            return True
    return False


@native
def _add_listed(e: int, row: int, group: int) -> None:
    """Add the listed tokens of a group to a row."""
    words, offsets, tokens = int32s_at(row, 0), int64s(e, f.GROUP_TOKENS), int32s(e, f.TOKENS)
    for i in range(max(offsets[group], 0), min(offsets[group + 1], size(e, f.TOKENS))):
        _add_token(e, words, tokens[i])


@native
def _add_token(e: int, words: Pointer, token: int) -> None:
    if 0 <= token < get(e, f.VOCABULARY):
        words[token >> 5] |= 1 << (token & 31)


@native
def _verify(e: int, row: int, tree: int, at: int, stack: int) -> bool:
    """Add the tokens with too many branches to be listed, by stepping their bytes.

    A token that continues the one before it, as rows of dashes do, continues its readings.
    """
    words, offsets, tokens = int32s_at(row, 0), int64s(e, f.TREE_VERIFY), int32s(e, f.VERIFY_TOKENS)
    chain, starts, done, left = int32s(e, f.CHAIN), int64s(e, f.VOCABULARY_OFFSETS), 0, 1
    text, begin = address(e, f.VOCABULARY_BYTES), 0
    for i in range(max(offsets[tree], 0), min(offsets[tree + 1], size(e, f.VERIFY_TOKENS))):
        token = tokens[i]
        if token < 0 or token >= get(e, f.VOCABULARY):
            continue
        length = starts[token + 1] - starts[token]
        if length < 0 or starts[token] < 0 or starts[token + 1] > size(e, f.VOCABULARY_BYTES):
            continue
        if not _continues(e, begin, done, starts[token], length):
            chain[0], chain[1], chain[2] = at, stack, 0
            done, left = 0, 1
        if left > 0:
            begin = starts[token]
            left = read_text(e, text + begin + done, length - done, left)
            done = length
        if left > 0:
            _add_token(e, words, token)
        if failed(e):
            return False
    return not failed(e)


@native
def _continues(e: int, begin: int, done: int, start: int, length: int) -> bool:
    """Say whether ``done`` bytes at ``begin`` were read and begin the token at ``start``.

    Not with a lookahead: what a token has ended so far is not kept between tokens.
    """
    if done == 0 or done > length or get(e, f.LOOKAHEAD) != f.UNLIMITED:
        return False
    text = uint8s(e, f.VOCABULARY_BYTES)
    same = 0
    while same < done and text[begin + same] == text[start + same]:
        same += 1
    return same == done
