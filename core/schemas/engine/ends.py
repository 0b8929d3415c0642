"""Ends: which values a level may be closed as, and what goes on outside of it."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import get, int32s, int64s, uint8s, use, used
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.arrays import array_length, array_may_end
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    parent,
    phase,
    push,
    push_work,
    text_of,
)
from cdec.core.schemas.engine.objects import object_may_end
from cdec.core.schemas.engine.texts import remembering

__all__ = ["closed", "may_end"]

_MASK = 0xFFFFFFFF


@inner
def _item_ends(e: int, stage: int, a: int, b: int) -> bool:
    """Say whether an item of a frame may be closed."""
    if stage == f.RAW:
        return int32s(e, f.STATE_LABEL)[b >> 32] >= 0
    if stage == f.STRING:
        is_long = (b & _MASK) >= int64s(e, f.STRING_MIN)[a & _MASK]
        return is_long and int32s(e, f.STATE_LABEL)[b >> 32] >= 0
    if stage == f.OBJECT_OPEN or stage == f.OBJECT_NEXT:
        return object_may_end(e, a & _MASK, b >> 32)
    return array_may_end(e, a & _MASK, b >> 32)


@inner
def closed(e: int, frame: int) -> int:
    """Return the frame outside after a level has ended; -1 where it may not end."""
    items, stage, outside = int64s(e, f.FRAME_ITEMS), phase(e, frame), parent(e, frame)
    begin = used(e, f.WORK)
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        value, n = items[at] >> 32, used(e, f.WORK)
        # Values ascend: an item's value is the last one that was found, or new.
        if (n == begin or int64s(e, f.WORK)[n - 1] != value) and _item_ends(
            e, stage, items[at], items[at + 1]
        ):
            push_work(e, value)
    done = phase(e, outside)
    after = f.ARRAY_NEXT
    if done == f.OBJECT_VALUE:
        after = f.OBJECT_NEXT
    if done == f.ROOT_VALUE:
        after = f.ROOT_DONE
    begin_frame(e, after, parent(e, outside))
    text = text_of(e, frame) if stage == f.STRING else -1
    for at in range(first_item(e, outside), frame_end(e, outside), 2):
        if not _is_found(e, begin, items[at + 1] & _MASK):
            continue
        a, progress = items[at], items[at + 1] >> 32
        if text >= 0 and uint8s(e, f.ARRAY_DISTINCT)[a & _MASK]:
            progress = remembering(e, progress, array_length(e, a & _MASK), text)
        if progress >= 0:
            push(e, a, progress << 32)
    use(e, f.WORK, begin)
    return end_frame(e)


@inner
def _is_found(e: int, begin: int, value: int) -> bool:
    """Search the ascending numbers on WORK from ``begin`` on."""
    work, low, high = int64s(e, f.WORK), begin, used(e, f.WORK)
    while low < high:
        middle = (low + high) >> 1
        if work[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < used(e, f.WORK) and work[low] == value


@inner
def may_end(e: int, state: int) -> bool:
    """Say whether the text may end in a state."""
    frame, mark = int32s(e, f.STATE_FRAME)[state], int32s(e, f.STATE_MARK)[state]
    stage, items = phase(e, frame), int64s(e, f.FRAME_ITEMS)
    if stage == f.ROOT_DONE:
        return get(e, f.LAYOUT) != 0 or int32s(e, f.STATE_LABEL)[mark] >= 0
    if stage != f.RAW or phase(e, parent(e, frame)) != f.ROOT_VALUE:
        return False
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        if _item_ends(e, stage, items[at], items[at + 1]):
            return True
    return False
