"""Steps: the state after a byte. Remembered, so that a byte is thought about once in a state."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    call3,
    get,
    has_room,
    int32s,
    int64s,
    uint8s,
    use,
    used,
)
from cdec.core.kernels import by_address, inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.arrays import (
    array_start,
)
from cdec.core.schemas.engine.ends import closed
from cdec.core.schemas.engine.layout import between, mark_after_blank, style_behind
from cdec.core.schemas.engine.lists import (
    begin_frame,
    end_frame,
    first_item,
    frame_end,
    lacks,
    parent,
    phase,
    push,
    state_of,
)
from cdec.core.schemas.engine.members import begin_text, elements_of, key_end, keys_of
from cdec.core.schemas.engine.objects import (
    object_start,
)
from cdec.core.schemas.engine.strings import content_byte, step_automaton

__all__ = ["compute_step"]

_MASK = 0xFFFFFFFF
_QUOTE, _COMMA, _COLON = 0x22, 0x2C, 0x3A
_BRACKET, _BRACKET_END, _BRACE, _BRACE_END = 0x5B, 0x5D, 0x7B, 0x7D


@inner
def _step(e: int, frame: int, mark: int, byte: int) -> int:
    stage = phase(e, frame)
    if stage == f.KEY or stage == f.STRING:
        if byte != _QUOTE or mark & ~f.STYLE != 0:
            return content_byte(e, frame, mark, byte)
        after = key_end(e, frame) if stage == f.KEY else closed(e, frame)
        return state_of(e, after, between(e, mark & f.STYLE))
    if stage == f.RAW:
        style = mark & f.STYLE
        further = _raw_byte(e, frame, byte)
        if further >= 0:
            return _raw_state(e, further, style)
        frame, mark = closed(e, frame), between(e, style)
        if frame < 0:
            return -1
    if get(e, f.LAYOUT) != 0:
        return _laid_out(e, frame, mark, byte)
    if byte == 0x20 or (0x09 <= byte <= 0x0D and byte != 0x0B and byte != 0x0C):
        blank = step_automaton(e, mark, byte)
        return -1 if blank < 0 else state_of(e, frame, blank)
    if int32s(e, f.STATE_LABEL)[mark] < 0:
        return -1
    blank = int32s(e, f.BLANK_START)[0]
    return _structural(e, frame, byte, 0) if mark == blank else _unblanked(e, frame, byte)


@inner
def _laid_out(e: int, frame: int, mark: int, byte: int) -> int:
    """Return the state after a byte where the layout is json.dumps's."""
    if byte == 0x20 or byte == 0x0A or byte == 0x09:
        after = mark_after_blank(e, frame, mark, byte)
        return state_of(e, frame, after) if after >= 0 else -1
    style = style_behind(e, frame, mark, byte)
    return _structural(e, frame, byte, style) if style >= 0 else -1


@inner
def _unblanked(e: int, frame: int, byte: int) -> int:
    """Return the state after a byte that is no whitespace: as if none had stood before it."""
    state = state_of(e, frame, int32s(e, f.BLANK_START)[0])
    if state < 0:
        return -1
    block = int32s(e, f.STATE_BLOCKS)[8 * state + (byte >> 5)]
    if block >= 0:
        known = int32s(e, f.BLOCKS)[32 * block + (byte & 31)]
        if known != f.UNKNOWN:
            return known
    return call3(get(e, f.CALL_STEP), e, state, byte)


@inner
def _structural(e: int, frame: int, byte: int, style: int) -> int:
    """Return the state after a byte that is no whitespace, outside of strings and raw texts."""
    stage, blank = phase(e, frame), between(e, style)
    if stage == f.ROOT_VALUE or stage == f.OBJECT_VALUE or stage == f.ARRAY_VALUE:
        return _value_begin(e, frame, byte, style)
    if stage == f.OBJECT_OPEN or stage == f.OBJECT_COMMA:
        if byte == _QUOTE:
            return state_of(e, keys_of(e, frame, f.KEY), style)
        if stage == f.OBJECT_OPEN and byte == _BRACE_END:
            return state_of(e, closed(e, frame), blank)
    elif stage == f.OBJECT_COLON:
        if byte == _COLON:
            return state_of(e, _copied(e, frame, f.OBJECT_VALUE), blank)
    elif stage == f.OBJECT_NEXT:
        if byte == _COMMA:
            return state_of(e, keys_of(e, frame, f.OBJECT_COMMA), blank)
        if byte == _BRACE_END:
            return state_of(e, closed(e, frame), blank)
    elif stage == f.ARRAY_OPEN or stage == f.ARRAY_NEXT:
        if byte == _BRACKET_END:
            return state_of(e, closed(e, frame), blank)
        if stage == f.ARRAY_NEXT and byte == _COMMA:
            return state_of(e, elements_of(e, frame), blank)
        if stage == f.ARRAY_OPEN:
            awaiting = elements_of(e, frame)
            return -1 if awaiting < 0 else _value_begin(e, awaiting, byte, style)
    return -1


@inner
def _value_begin(e: int, frame: int, byte: int, style: int) -> int:
    """Return the state after the first byte of a value that a frame awaits."""
    if byte == _QUOTE:
        stage, mark = f.STRING, style
    elif byte == _BRACE:
        stage, mark = f.OBJECT_OPEN, between(e, style)
    elif byte == _BRACKET:
        stage, mark = f.ARRAY_OPEN, between(e, style)
    else:
        stage, mark = f.RAW, style
    begin_frame(e, stage, frame)
    items = int64s(e, f.FRAME_ITEMS)
    if stage == f.STRING and phase(e, frame) == f.ARRAY_VALUE:
        begin_text(e, frame, uint8s(e, f.ARRAY_DISTINCT))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        value = items[at + 1] & _MASK
        if stage == f.STRING:
            offsets = int64s(e, f.STRING_OFFSETS)
            for string in range(offsets[value], offsets[value + 1]):
                push(e, value << 32 | string, int32s(e, f.STRING_START)[string] << 32)
        elif stage == f.OBJECT_OPEN:
            offsets, ids = int64s(e, f.OBJECT_OFFSETS), int32s(e, f.OBJECT_IDS)
            for i in range(offsets[value], offsets[value + 1]):
                push(e, value << 32 | ids[i], object_start(e, ids[i]) << 32)
        elif stage == f.ARRAY_OPEN:
            offsets, ids = int64s(e, f.ARRAY_OFFSETS), int32s(e, f.ARRAY_IDS)
            for i in range(offsets[value], offsets[value + 1]):
                push(e, value << 32 | ids[i], array_start(e, ids[i]) << 32)
        elif int32s(e, f.RAW_START)[value] >= 0:
            after = step_automaton(e, int32s(e, f.RAW_START)[value], byte)
            if after >= 0:
                push(e, value << 32, after << 32)
    made = end_frame(e)
    if stage == f.RAW:
        return _raw_state(e, made, style)
    return state_of(e, made, mark)


@inner
def _raw_byte(e: int, frame: int, byte: int) -> int:
    """Return the frame of raw texts after a byte, -1 where none goes on."""
    items = int64s(e, f.FRAME_ITEMS)
    begin_frame(e, f.RAW, parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        after = step_automaton(e, items[at + 1] >> 32, byte)
        if after >= 0:
            push(e, items[at], after << 32)
    return end_frame(e)


@inner
def _raw_state(e: int, frame: int, style: int) -> int:
    """Return the state of a frame of raw texts; that behind them where none of them goes on."""
    if frame < 0:
        return -1
    items, edges = int64s(e, f.FRAME_ITEMS), int64s(e, f.STATE_EDGES)
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        state = items[at + 1] >> 32
        if edges[state] < edges[state + 1]:
            return state_of(e, frame, style)
    return state_of(e, closed(e, frame), between(e, style))


@inner
def _copied(e: int, frame: int, stage: int) -> int:
    """Return a frame's items in another phase."""
    items = int64s(e, f.FRAME_ITEMS)
    begin_frame(e, stage, parent(e, frame))
    for at in range(first_item(e, frame), frame_end(e, frame), 2):
        push(e, items[at], items[at + 1])
    return end_frame(e)


@by_address("int64(int64, int64, int64)")
def compute_step(e: int, state: int, byte: int) -> int:
    """Return the state after a byte, -1 for none, and remember it.

    subtle: -1 after a lack of room, too; that is not remembered.
    """
    frame, mark = int32s(e, f.STATE_FRAME)[state], int32s(e, f.STATE_MARK)[state]
    after = _step(e, frame, mark, byte)
    if lacks(e):
        return -1
    blocks = int32s(e, f.STATE_BLOCKS)
    block = blocks[8 * state + (byte >> 5)]
    if block < 0:
        if not has_room(e, f.BLOCKS, 32):
            return -1
        block = used(e, f.BLOCKS) >> 5
        steps = int32s(e, f.BLOCKS)
        for i in range(32 * block, 32 * block + 32):
            steps[i] = f.UNKNOWN
        use(e, f.BLOCKS, 32 * block + 32)
        blocks[8 * state + (byte >> 5)] = block
    int32s(e, f.BLOCKS)[32 * block + (byte & 31)] = after
    return after
