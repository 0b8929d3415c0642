"""What the engine's header holds: columns of the program, then frames, states, memos and masks.

**Frames.** A text's brackets and quotes can be seen, so at every level of nesting the engine holds
the set of all alternatives that are still possible there: a visibly pushdown automaton (Alur and
Madhusudan, STOC 2004), made deterministic by sets, one level at a time. A *frame* is an interned
list: a phase, the frame of the level outside, and sorted distinct *items*, two int64 each. With
``a << 32 | b`` for a pair of numbers these are

* objects: (value, object), (progress, ...): behind the progress 0, the state of its keys within a
  key, the awaited value from the colon on;
* arrays: (value, array), (progress, ...): 0, or the awaited value;
* strings: (value, string), (state, characters so far, as far as they matter);
* raw texts: (value, 0), (state, 0);
* the whole text: (0, 0), (0, awaited value).

A closing bracket or quote leaves the values of the items that may end; the frame outside keeps the
items that await one of them.

A *progress* is an interned list: of an object the keys so far, the last rank, required slots
missing, single slots left, the rank of the next required slot, its counters, and the bits of the
single slots seen (ordered objects: none); of an array its elements so far and its counters. Numbers
stop where they no longer matter. Behind these stand, ascending, the texts that may not come again.

**States** are a frame and a *mark*: within strings how far an escape is spelled, between them a
state of the blanks' automaton; where the layout is json.dumps's, a style in the bits STYLE of both,
and between strings how far the blanks are written (``layout``). ``STATE_BLOCKS`` leads to
remembered steps, 32 bytes a block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.schemas.program import SchemaArrays

_COLUMNS = len(SchemaArrays._fields)
(
    STATE_EDGES,
    EDGE_LOW,
    EDGE_HIGH,
    EDGE_TARGET,
    STATE_LABEL,
    STATE_SHORTEST,
    STATE_FREE,
    STATE_LOW,
    STATE_HIGH,
    STATE_OPEN,
    RAW_START,
    STRING_OFFSETS,
    STRING_START,
    STRING_MIN,
    STRING_MAX,
    ARRAY_OFFSETS,
    ARRAY_IDS,
    OBJECT_OFFSETS,
    OBJECT_IDS,
    CHOICE_VALUE,
    CHOICE_COUNTER_OFFSETS,
    CHOICE_COUNTERS,
    ARRAY_MIN,
    ARRAY_MAX,
    ARRAY_DISTINCT,
    ARRAY_POSITION_OFFSETS,
    POSITION_CHOICE_OFFSETS,
    ARRAY_COUNTER_OFFSETS,
    ARRAY_COUNTER_MIN,
    ARRAY_COUNTER_MAX,
    OBJECT_MIN,
    OBJECT_MAX,
    OBJECT_KEY,
    OBJECT_ORDERED,
    OBJECT_DISTINCT,
    OBJECT_SLOT_OFFSETS,
    SLOT_CHOICE_OFFSETS,
    SLOT_SINGLE,
    SLOT_REQUIRED,
    SLOT_RANK,
    OBJECT_COUNTER_OFFSETS,
    OBJECT_COUNTER_MIN,
    OBJECT_COUNTER_MAX,
    BLANK_START,
    INDENT,
) = range(45)
# What is counted in advance (``cdec.core.schemas.engine.counts``).
(
    OBJECT_SINGLES,  # int32[O] single slots
    OBJECT_NEEDED,  # int32[O] required slots
    OBJECT_FIRST,  # int32[O] least rank of a required slot
    SLOT_LEFT,  # int32[N] ordered: single slots of a higher rank
    SLOT_NEEDED,  # int32[N] ordered: required slots of a higher rank
    SLOT_NEXT,  # int32[N] ordered: the least rank of these
) = range(_COLUMNS, _COLUMNS + 6)
_MADE = _COLUMNS + 6
(
    VOCABULARY_OFFSETS,
    VOCABULARY_BYTES,
    CHARACTERS,
    CONTENT_ROWS,
    CONTENT_READY,
    RUN_OF,
    RUNS,
    RUN_OFFSETS,
    BLANK_TOKENS,
    BLANK_INDEX,  # int32[S] place in RUN_ENDS of a state of blanks, -1 where that is not known
    RUN_ENDS,  # int32, R by R: the state of blanks after each run of whitespace, -1 for none
    PHASE_BYTES,  # int64[14 * 4] bits of the bytes that may come in a phase
    END_IDS,
    STAMPS,
    PATH,
    WORK,
    PROGRESS_OFFSETS,
    PROGRESS_ITEMS,
    FRAME_OFFSETS,
    FRAME_ITEMS,
    STATE_FRAME,
    STATE_MARK,
    STATE_BLOCKS,
    STATE_MASK,
    STATE_BYTES,  # int64, four a state: bits of the bytes that may come; 0 where not yet known
    BLOCKS,
    TEXT_BEFORE,  # int32: a text without its last byte
    TEXT_BYTE,  # int32: that byte
    MASK_OFFSETS,
    MASK_BASE,  # of each mask what it begins with: a row, NO_ROW, or FIRST_OWN and one of its own
    MASK_TOKENS,  # int32, tokens that it has besides
    MASK_CHUNKS,
) = range(_MADE, _MADE + 32)
WHOLE, CROSSING, ENDINGS, BEHIND = range(_MADE + 32, _MADE + 52, 5)
"""Tries, as ``cdec.core.schemas.json_tokens`` has them; each is five fields."""
BYTE, DEPTH, SKIP, TOKENS, IDS = range(5)
(PROGRESS_TABLE, FRAME_TABLE, STATE_TABLE, NEXT_TABLE, TEXT_TABLE) = range(
    _MADE + 52, _MADE + 62, 2
)
FIELDS = _MADE + 62

# Scalars of the header; those below 3 are the memory's own.
(
    BUILD_END,
    STAMP,
    EPOCH,
    OWN_ROWS,
    OWN_ROOM,
    MASK_STRIDE,
    CHUNK_SHIFT,
    HITS,
    MISSES,
    VOCABULARY,
    WORDS,
    CALL_STEP,
    FAR,
    LAYOUT,  # ``indent`` of the program, without USUAL_ESCAPES
    FEW_ESCAPES,  # 0, or USUAL_ESCAPES
) = range(3, 18)

(
    ROOT_VALUE,
    ROOT_DONE,
    OBJECT_OPEN,
    OBJECT_COMMA,
    OBJECT_COLON,
    OBJECT_VALUE,
    OBJECT_NEXT,
    ARRAY_OPEN,
    ARRAY_VALUE,
    ARRAY_NEXT,
    KEY,
    STRING,
    RAW,
) = range(13)
"""Phases of frames; from KEY on, no whitespace stands there."""
RAW_ENDS = 13
"""Of PHASE_BYTES: what may stand behind a raw text."""

_SPACE, _DIGITS = b" \t\n\r", b"-0123456789"
_MAY_COME = {
    ROOT_VALUE: _SPACE + _DIGITS + b'"{[tfn',
    ROOT_DONE: _SPACE,
    OBJECT_OPEN: _SPACE + b'"}',
    OBJECT_COMMA: _SPACE + b'"',
    OBJECT_COLON: _SPACE + b":",
    OBJECT_VALUE: _SPACE + _DIGITS + b'"{[tfn',
    OBJECT_NEXT: _SPACE + b",}",
    ARRAY_OPEN: _SPACE + _DIGITS + b'"{[tfn]',
    ARRAY_VALUE: _SPACE + _DIGITS + b'"{[tfn',
    ARRAY_NEXT: _SPACE + b",]",
    KEY: bytes(range(0x20, 0x100)),
    STRING: bytes(range(0x20, 0x100)),
    RAW: _SPACE + _DIGITS + b"+.eE,]}" + b"truefalsnl",
    RAW_ENDS: _SPACE + b",]}",
}


def phase_bytes() -> NDArray[np.int64]:
    """Return PHASE_BYTES."""
    bits = np.zeros((len(_MAY_COME), 256), np.bool_)
    for stage, may_come in _MAY_COME.items():
        bits[stage, list(may_come)] = True
    return np.packbits(bits, axis=1, bitorder="little").view(np.int64).reshape(-1)


COUNT, RANK, MISSING, LEFT, NEXT, OWN = range(6)
"""What stands where in the progress of an object; counters from OWN on. Arrays: counters from 1."""
TEXT = -1
"""First number of an item of keys and strings that must be distinct: the second is what was spelled
of them so far, a *text*: a node of a tree of bytes, 0 for the empty one."""
NO_ROW, FIRST_OWN = -1, 1 << 20
MOST_TOKENS = 2048
"""A mask of more tokens besides its row gets a row of its own."""
STYLE = 7 << 24
UNDECIDED, ONE_LINE, COMPACT, SPACED, BY_TWO, BY_FOUR, BY_TAB = range(0, STYLE, 1 << 24)
"""Styles of a layout, in the bits STYLE of a mark: nothing is written that tells; COMPACT or SPACED
(one blank behind colons and commas); lines indented by two blanks (or the program's columns), four
blanks, a tab."""
UNKNOWN = -3
"""A step that is not remembered."""
NEXT_LIMIT = 1 << 18
"""Places of the table of tokens' steps; a full one is emptied."""

GROWING: dict[int, tuple[tuple[int, type], ...]] = {
    WORK: ((WORK, np.int64),),
    PROGRESS_OFFSETS: ((PROGRESS_OFFSETS, np.int64),),
    PROGRESS_ITEMS: ((PROGRESS_ITEMS, np.int64),),
    FRAME_OFFSETS: ((FRAME_OFFSETS, np.int64),),
    FRAME_ITEMS: ((FRAME_ITEMS, np.int64),),
    STATE_FRAME: ((STATE_FRAME, np.int32), (STATE_MARK, np.int32), (STATE_MASK, np.int64)),
    STATE_BLOCKS: ((STATE_BLOCKS, np.int32),),
    STATE_BYTES: ((STATE_BYTES, np.int64),),
    BLOCKS: ((BLOCKS, np.int32),),
    TEXT_BEFORE: ((TEXT_BEFORE, np.int32), (TEXT_BYTE, np.int32)),
    RUN_ENDS: ((RUN_ENDS, np.int32),),
    MASK_OFFSETS: ((MASK_OFFSETS, np.int64), (MASK_BASE, np.int32)),
    MASK_TOKENS: ((MASK_TOKENS, np.int32),),
}
"""Fields that grow together, by the one whose use is counted."""
