"""Members: what is awaited of the next key or element, by every alternative of a frame."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import Pointer, int32s, int64s, uint8s
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.arrays import array_after, element_choices
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    parent,
    push,
    text_of,
)
from cdec.core.schemas.engine.objects import (
    key_may_come,
    object_after,
    object_length,
    slot_of,
)
from cdec.core.schemas.engine.texts import is_remembered

__all__ = ["begin_text", "elements_of", "key_end", "keys_of"]

_MASK = 0xFFFFFFFF


@inner
def keys_of(e: int, frame: int, stage: int) -> int:
    """Return the frame in which a key begins, or is awaited; -1 where none may come."""
    items = int64s(e, f.FRAME_ITEMS)
    begin_frame(e, stage, parent(e, frame))
    if stage == f.KEY:
        begin_text(e, frame, uint8s(e, f.OBJECT_DISTINCT))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, progress = items[at], items[at + 1] >> 32
        start = int32s(e, f.OBJECT_KEY)[a & _MASK]
        if start >= 0 and key_may_come(e, a & _MASK, progress, start):
            push(e, a, progress << 32 | (start if stage == f.KEY else 0))
    return end_frame(e)


@inner
def begin_text(e: int, frame: int, distinct: Pointer) -> None:
    """Remember what will be spelled, where an object or array of a frame asks for it."""
    items, asked = int64s(e, f.FRAME_ITEMS), False
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        asked = asked or distinct[items[at] & _MASK] != 0
    if asked:
        push(e, f.TEXT, 0)


@inner
def key_end(e: int, frame: int) -> int:
    """Return the frame behind a finished key: what is awaited by each choice of its slots."""
    items, spelled = int64s(e, f.FRAME_ITEMS), text_of(e, frame)
    begin_frame(e, f.OBJECT_COLON, parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, progress = items[at], items[at + 1] >> 32
        made = a & _MASK
        slot = slot_of(e, made, progress, items[at + 1] & _MASK)
        if slot < 0:
            continue
        own = int64s(e, f.OBJECT_SLOT_OFFSETS)[made] + slot
        choices, text = int64s(e, f.SLOT_CHOICE_OFFSETS), -1
        if uint8s(e, f.OBJECT_DISTINCT)[made] and not uint8s(e, f.SLOT_SINGLE)[own]:
            text = spelled
        if text >= 0 and is_remembered(e, progress, object_length(e, made), text):
            continue
        for choice in range(choices[own], choices[own + 1]):
            after = object_after(e, made, progress, slot, choice, text)
            if after >= 0:
                push(e, a, after << 32 | int32s(e, f.CHOICE_VALUE)[choice])
    return end_frame(e)


@inner
def elements_of(e: int, frame: int) -> int:
    """Return the frame that awaits an array's next element; -1 where none may come."""
    items = int64s(e, f.FRAME_ITEMS)
    begin_frame(e, f.ARRAY_VALUE, parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        a, progress = items[at], items[at + 1] >> 32
        position = element_choices(e, a & _MASK, progress)
        choices = int64s(e, f.POSITION_CHOICE_OFFSETS)
        for choice in range(choices[position], choices[position + 1]):
            after = array_after(e, a & _MASK, progress, choice)
            if after >= 0:
                push(e, a, after << 32 | int32s(e, f.CHOICE_VALUE)[choice])
    return end_frame(e)
