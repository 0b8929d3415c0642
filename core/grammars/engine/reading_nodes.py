"""Reading nodes: the memo of masks by (scanner state, the part of the stack that was read).

A mask depends on nothing else, so stacks that agree down to what was read share it. The nodes are
a tree keyed by LR states from the top; READING_MASK of a node is a mask, -1 for nothing, or the
complement of the place of a shape, less one (see ``shapes``).
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    has_room,
    insert,
    int32s,
    lookup,
    native,
    use,
    used,
)

__all__ = ["child", "is_single", "known", "remember", "shape_node"]

MAX_READ = 64
"""Stack read deeper than this is not shared between stacks."""
_ROOTS = 0x7FFFFFFF


@native
def child(e: int, node: int, key: int) -> int:
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
def known(e: int, at: int, stack: int) -> int:
    """Walk from the scanner state down the stack to a mask or a shape; -1 if there is none."""
    masks, states = int32s(e, f.READING_MASK), int32s(e, f.VERTEX_STATE)
    belows, vertex = int32s(e, f.VERTEX_BELOW), stack
    node = lookup(e, f.READING_TABLE, (_ROOTS << 32) | at)
    while node != ABSENT:
        if masks[node] != -1:
            return masks[node]
        if vertex < 0:
            break  # the root, or a set
        node = lookup(e, f.READING_TABLE, (node << 32) | states[vertex])
        vertex = belows[vertex]
    node = lookup(e, f.READING_TABLE, ((-2 - at) << 32) | stack)
    return masks[node] if node != ABSENT else -1


@native
def remember(e: int, at: int, stack: int, low: int, mask: int) -> bool:
    """Note a mask at the reading node of what was read: the stack down to height ``low``."""
    read = int32s(e, f.VERTEX_HEIGHT)[stack] - low + 1
    if low == f.WHOLE or read > MAX_READ or not is_single(e, stack, read):
        node = child(e, -2 - at, stack)
    else:
        node = shape_node(e, at, stack, read)
    if node < 0:
        return False
    int32s(e, f.READING_MASK)[node] = mask
    return True


@native
def is_single(e: int, stack: int, depth: int) -> bool:
    """Say whether a stack has that many single vertices from its top."""
    while depth > 0 and stack >= 0:
        stack, depth = int32s(e, f.VERTEX_BELOW)[stack], depth - 1
    return depth <= 0


@native
def shape_node(e: int, at: int, stack: int, depth: int) -> int:
    """Return the reading node of a scanner state and the top of a stack; -1 after a lack of room.

    The stack must have ``depth`` single vertices from its top.
    """
    node = child(e, _ROOTS, at)
    for _ in range(depth):
        if node < 0:
            return -1
        node = child(e, node, int32s(e, f.VERTEX_STATE)[stack])
        stack = int32s(e, f.VERTEX_BELOW)[stack]
    return node
