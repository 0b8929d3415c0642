"""Interned lists of int64: equal lists have equal numbers, for progresses and for frames."""

from __future__ import annotations

from cdec.core.grammars.engine.lists import sort_pairs
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    NEED,
    address,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    int64s_at,
    lack,
    lookup,
    mixed,
    put,
    size,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f

__all__ = [
    "begin_frame",
    "end_frame",
    "first_item",
    "frame_end",
    "intern",
    "lacks",
    "parent",
    "phase",
    "push",
    "push_work",
    "state_of",
    "text_of",
]


@inner
def lacks(e: int) -> bool:
    """Say whether room was lacking since the call began."""
    return get(e, NEED) != 0


@inner
def intern(e: int, offsets_field: int, items_field: int, table: int, n: int) -> int:
    """Return the number of the list in the n items behind those in use; -1 after a lack of room."""
    if lacks(e):
        return -1
    offsets, items = int64s(e, offsets_field), int64s(e, items_field)
    start = used(e, items_field)
    key: int = n
    for i in range(n):
        key = mixed(key ^ items[start + i])
    key = key if key != -1 else 0
    while True:
        known = lookup(e, table, key)
        if known == ABSENT:
            break
        at, same = offsets[known], 0
        if offsets[known + 1] - at == n:
            while same < n and items[at + same] == items[start + same]:
                same += 1
            if same == n:
                return known
        key = mixed(key ^ 1)
        key = key if key != -1 else 0
    new = used(e, offsets_field) - 1
    if not has_room(e, offsets_field, 1) or not insert(e, table, key, new):
        return -1
    offsets[new + 1] = start + n
    use(e, offsets_field, new + 2)
    use(e, items_field, start + n)
    return new


@inner
def phase(e: int, frame: int) -> int:
    """Return the phase of a frame."""
    return int64s(e, f.FRAME_ITEMS)[int64s(e, f.FRAME_OFFSETS)[frame]]


@inner
def parent(e: int, frame: int) -> int:
    """Return the frame of the level outside."""
    return int64s(e, f.FRAME_ITEMS)[int64s(e, f.FRAME_OFFSETS)[frame] + 1]


@inner
def first_item(e: int, frame: int) -> int:
    """Return where a frame's alternatives begin in FRAME_ITEMS."""
    at = int64s(e, f.FRAME_OFFSETS)[frame] + 2
    return at + 2 if int64s(e, f.FRAME_ITEMS)[at] == f.TEXT else at


@inner
def text_of(e: int, frame: int) -> int:
    """Return what was spelled so far of a key or string that must be distinct; else -1."""
    items, at = int64s(e, f.FRAME_ITEMS), int64s(e, f.FRAME_OFFSETS)[frame] + 2
    return items[at + 1] if items[at] == f.TEXT else -1


@inner
def frame_end(e: int, frame: int) -> int:
    """Return where a frame's items end."""
    return int64s(e, f.FRAME_OFFSETS)[frame + 1]


@inner
def begin_frame(e: int, phase: int, parent: int) -> None:
    """Begin a frame; its items are then pushed, in any order, and ``end_frame`` gives its number.

    subtle: only one is built at a time. Frames that are there may be read meanwhile.
    """
    at = used(e, f.FRAME_ITEMS)
    if at + 2 > size(e, f.FRAME_ITEMS):
        lack(e, f.FRAME_ITEMS, at + 64)
    else:
        items = int64s(e, f.FRAME_ITEMS)
        items[at], items[at + 1] = phase, parent
    put(e, f.BUILD_END, at + 2)


@inner
def push(e: int, a: int, b: int) -> None:
    """Add an item to the frame that is built."""
    at = get(e, f.BUILD_END)
    if at + 2 > size(e, f.FRAME_ITEMS):
        lack(e, f.FRAME_ITEMS, at + 64)
        return
    items = int64s(e, f.FRAME_ITEMS)
    items[at], items[at + 1] = a, b
    put(e, f.BUILD_END, at + 2)


@inner
def end_frame(e: int) -> int:
    """Return the number of the frame that was built; -1 without items or after a lack of room."""
    start = used(e, f.FRAME_ITEMS)
    end = get(e, f.BUILD_END)
    if lacks(e) or end == start + 2:
        return -1
    items = int64s(e, f.FRAME_ITEMS)
    if end == start + 4 and items[start + 2] == f.TEXT:
        return -1
    at = start + 4
    if end > at:
        sort_pairs(int64s_at(address(e, f.FRAME_ITEMS), 8 * (start + 2)), (end - start - 2) >> 1)
        for i in range(start + 4, end, 2):
            if items[i] != items[at - 2] or items[i + 1] != items[at - 1]:
                items[at], items[at + 1] = items[i], items[i + 1]
                at += 2
    return intern(e, f.FRAME_OFFSETS, f.FRAME_ITEMS, f.FRAME_TABLE, at - start)


@inner
def push_work(e: int, value: int) -> None:
    """Put a number on the stack WORK."""
    n = used(e, f.WORK)
    if has_room(e, f.WORK, 1):
        int64s(e, f.WORK)[n] = value
        use(e, f.WORK, n + 1)


@inner
def state_of(e: int, frame: int, mark: int) -> int:
    """Return the state of a frame and a mark; -1 for no frame, or after a lack of room."""
    if frame < 0 or lacks(e):
        return -1
    key = (frame << 32) | mark
    known = lookup(e, f.STATE_TABLE, key)
    if known != ABSENT:
        return known
    new = used(e, f.STATE_FRAME)
    if not has_room(e, f.STATE_FRAME, 1) or not has_room(e, f.STATE_BLOCKS, 8):
        return -1
    if not has_room(e, f.STATE_BYTES, 4):
        return -1
    if not insert(e, f.STATE_TABLE, key, new):
        return -1
    int32s(e, f.STATE_FRAME)[new], int32s(e, f.STATE_MARK)[new] = frame, mark
    int64s(e, f.STATE_MASK)[new] = -1
    blocks = int32s(e, f.STATE_BLOCKS)
    for i in range(8 * new, 8 * new + 8):
        blocks[i] = -1
    possible = int64s(e, f.STATE_BYTES)
    for i in range(4 * new, 4 * new + 4):
        possible[i] = 0
    use(e, f.STATE_BYTES, 4 * new + 4)
    use(e, f.STATE_FRAME, new + 1)
    use(e, f.STATE_BLOCKS, 8 * new + 8)
    return new
