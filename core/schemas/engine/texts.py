"""Texts that may not come again: keys, and strings of an array, that are remembered."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    ABSENT,
    has_room,
    insert,
    int32s,
    int64s,
    lookup,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import intern

__all__ = ["begins", "copied_texts", "is_remembered", "longer", "remembering"]


@inner
def longer(e: int, text: int, byte: int) -> int:
    """Return a text with one more byte; the text itself after a lack of room."""
    key = text << 8 | byte
    known = lookup(e, f.TEXT_TABLE, key)
    if known != ABSENT:
        return known
    new = max(used(e, f.TEXT_BEFORE), 1)
    if not has_room(e, f.TEXT_BEFORE, 2) or not insert(e, f.TEXT_TABLE, key, new):
        return text
    int32s(e, f.TEXT_BEFORE)[new], int32s(e, f.TEXT_BYTE)[new] = text, byte
    use(e, f.TEXT_BEFORE, new + 1)
    return new


@inner
def begins(e: int, text: int, longer_text: int) -> bool:
    """Say whether a text is the beginning of another, or the other itself."""
    before = int32s(e, f.TEXT_BEFORE)
    # What is longer has a larger number.
    while longer_text > text:
        longer_text = before[longer_text]
    return longer_text == text


@inner
def is_remembered(e: int, progress: int, own: int, text: int) -> bool:
    """Say whether a text is among those of a progress, which stand behind its ``own`` numbers."""
    offsets, items = int64s(e, f.PROGRESS_OFFSETS), int64s(e, f.PROGRESS_ITEMS)
    at, last = offsets[progress] + own, offsets[progress + 1]
    while at < last and items[at] != text:
        at += 1
    return at < last


@inner
def copied_texts(e: int, progress: int, own: int, text: int) -> int:
    """Put the texts of a progress behind the ``own`` numbers of one that is being written.

    Args:
        progress: That it follows.
        own: Numbers before the texts.
        text: One more; -1 for none.

    Returns:
        How many numbers the new progress has; -1 after a lack of room.
    """
    offsets = int64s(e, f.PROGRESS_OFFSETS)
    first, last = offsets[progress] + own, offsets[progress + 1]
    if not has_room(e, f.PROGRESS_ITEMS, own + last - first + 1):
        return -1
    items, at = int64s(e, f.PROGRESS_ITEMS), used(e, f.PROGRESS_ITEMS) + own
    waiting = text >= 0
    for i in range(first, last):
        if waiting and items[i] > text:
            items[at] = text
            at += 1
            waiting = False
        items[at] = items[i]
        at += 1
    if waiting:
        items[at] = text
        at += 1
    return at - used(e, f.PROGRESS_ITEMS)


@inner
def remembering(e: int, progress: int, own: int, text: int) -> int:
    """Return a progress with one text more; -1 where it has it, or after a lack of room."""
    if is_remembered(e, progress, own, text):
        return -1
    n = copied_texts(e, progress, own, text)
    if n < 0:
        return -1
    items, old = int64s(e, f.PROGRESS_ITEMS), int64s(e, f.PROGRESS_OFFSETS)[progress]
    at = used(e, f.PROGRESS_ITEMS)
    for i in range(own):
        items[at + i] = items[old + i]
    return intern(e, f.PROGRESS_OFFSETS, f.PROGRESS_ITEMS, f.PROGRESS_TABLE, n)
