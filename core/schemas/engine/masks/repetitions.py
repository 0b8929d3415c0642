"""Masks of keys and strings that must be distinct: what no repetition decides is shared.

The mask is that of a state which remembers nothing, without the tokens that would spell the rest of
a remembered text and close it. These few are stepped one by one.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    Pointer,
    int32s,
    int64s,
    int64s_at,
    size,
    uint8s,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.arrays import array_length
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    lacks,
    parent,
    phase,
    push,
    push_work,
    state_of,
    text_of,
)
from cdec.core.schemas.engine.objects import object_length
from cdec.core.schemas.engine.stepping import step_token
from cdec.core.schemas.engine.texts import begins

__all__ = ["forgetful_state", "has_repetitions", "without_repetitions"]

_MASK = 0xFFFFFFFF
_QUOTE, _BACKSLASH = 0x22, 0x5C


@inner
def forgetful_state(e: int, state: int) -> int:
    """Return a state's like that remembers no text; -1 after a lack of room."""
    frame = int32s(e, f.STATE_FRAME)[state]
    if phase(e, frame) < f.KEY or text_of(e, frame) < 0:
        return state
    items = int64s(e, f.FRAME_ITEMS)
    begin_frame(e, phase(e, frame), parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        push(e, items[at], items[at + 1])
    return state_of(e, end_frame(e), int32s(e, f.STATE_MARK)[state])


@inner
def _find(e: int, state: int) -> int:
    """Put the remembered texts that begin with what was spelled on WORK; return their number."""
    frame = int32s(e, f.STATE_FRAME)[state]
    text, is_key, found = text_of(e, frame), phase(e, frame) == f.KEY, 0
    holder = frame if is_key else parent(e, frame)
    items, numbers = int64s(e, f.FRAME_ITEMS), int64s(e, f.PROGRESS_ITEMS)
    offsets = int64s(e, f.PROGRESS_OFFSETS)
    for at in range(first_item(e, holder), frame_end(e, holder), 2):
        made, progress = items[at] & _MASK, items[at + 1] >> 32
        own = object_length(e, made) if is_key else array_length(e, made)
        for i in range(offsets[progress] + own, offsets[progress + 1]):
            if begins(e, text, numbers[i]):
                push_work(e, numbers[i])
                found += 1
    return found


@inner
def has_repetitions(e: int, state: int) -> bool:
    """Say whether what was spelled is the beginning of a remembered text."""
    begin = used(e, f.WORK)
    found = _find(e, state)
    use(e, f.WORK, begin)
    return found > 0


@inner
def without_repetitions(e: int, state: int, mask: int) -> None:
    """Take the tokens that repeat a remembered text from the mask at an address."""
    begin, bits = used(e, f.WORK), int64s_at(mask, 0)
    found = _find(e, state)
    if int32s(e, f.STATE_MARK)[state] & ~f.STYLE != 0:
        # Within an escape any token may be the rest of one.
        _step_below(e, state, bits, 0, size(e, f.WHOLE + f.BYTE))
    else:
        text = text_of(e, int32s(e, f.STATE_FRAME)[state])
        for i in range(found):
            if not lacks(e):
                _follow(e, state, bits, text, int64s(e, f.WORK)[begin + i])
    use(e, f.WORK, begin)


@inner
def _follow(e: int, state: int, bits: Pointer, text: int, remembered: int) -> None:
    """Step the tokens that begin with the rest of a remembered text, or with an escape in it."""
    begin, before = used(e, f.WORK), int32s(e, f.TEXT_BEFORE)
    while remembered > text:
        push_work(e, int32s(e, f.TEXT_BYTE)[remembered])
        remembered = before[remembered]
    first, last, skips = 0, size(e, f.WHOLE + f.BYTE), int32s(e, f.WHOLE + f.SKIP)
    while not lacks(e) and first < last:
        escape = _child(e, first, last, _BACKSLASH)
        if escape >= 0:
            _step_below(e, state, bits, escape, skips[escape])
        n = used(e, f.WORK)
        byte = int64s(e, f.WORK)[n - 1] if n > begin else _QUOTE
        if n > begin and byte == _BACKSLASH:
            break
        child = _child(e, first, last, byte)
        if n == begin:
            if child >= 0:
                _step_below(e, state, bits, child, skips[child])
            break
        use(e, f.WORK, n - 1)
        # What is no content unless it is escaped is no way on.
        if child < 0 or byte == _QUOTE:
            break
        first, last = child + 1, skips[child]
    use(e, f.WORK, begin)


@inner
def _child(e: int, first: int, last: int, byte: int) -> int:
    """Return the node of a byte among siblings from ``first`` on, -1 where there is none."""
    bytes_, skips = uint8s(e, f.WHOLE + f.BYTE), int32s(e, f.WHOLE + f.SKIP)
    node = first
    while node < last and bytes_[node] != byte:
        node = skips[node]
    return node if node < last else -1


@inner
def _step_below(e: int, state: int, bits: Pointer, first: int, last: int) -> None:
    """Step the tokens of nodes, and take those from a mask that lead nowhere."""
    offsets, tokens = int32s(e, f.WHOLE + f.TOKENS), int32s(e, f.WHOLE + f.IDS)
    for i in range(offsets[first], offsets[last]):
        token = tokens[i]
        bit = 1 << (token & 63)
        if bits[token >> 6] & bit and step_token(e, state, token) < 0 and not lacks(e):
            bits[token >> 6] &= ~bit
