"""What sessions call: compiled functions that step states and fill their masks.

All take the engine's header, arrays, and the first row to work on. They return the number of rows
that are done: fewer than given means that an array must grow first (the scalar NEED), -1 that the
arrays' lengths do not match.
"""

from __future__ import annotations

from typing import Any

from cdec.core.constraint import DEAD, DONE
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    get,
    insert,
    int32s,
    int32s_at,
    int64s,
    lookup,
    mixed,
    size,
    use,
    used,
)
from cdec.core.kernels import inner, kernel
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.ends import may_end
from cdec.core.schemas.engine.layout import between, first_style
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
from cdec.core.schemas.engine.masks.masks import state_mask, write_mask
from cdec.core.schemas.engine.stepping import step, step_token


@inner
def _is_state(e: int, state: int) -> bool:
    return 0 <= state < used(e, f.STATE_FRAME)


@inner
def _is_end(e: int, token: int) -> bool:
    ends, found = int64s(e, f.END_IDS), False
    for i in range(size(e, f.END_IDS)):
        found = found or ends[i] == token
    return found


@kernel(signature="int64(int64[::1])", nogil=False)
def start(header: Any) -> Any:
    """Return the state before the first byte, -1 after a lack of room."""
    e = header.ctypes.data
    if used(e, f.FRAME_OFFSETS) == 0:
        use(e, f.FRAME_OFFSETS, 1)
        use(e, f.PROGRESS_OFFSETS, 1)
        use(e, f.MASK_OFFSETS, 1)
    begin_frame(e, f.ROOT_VALUE, -1)
    push(e, 0, 0)
    return state_of(e, end_frame(e), between(e, first_style(e)))


@inner
def _token_step(e: int, state: int, token: int) -> int:
    """Return the state after a token's bytes; DEAD where it is not allowed, or has none."""
    if token < 0 or token >= get(e, f.VOCABULARY):
        return DEAD
    return step_token(e, state, token)


@inner
def _next(e: int, state: int, token: int) -> int:
    if not _is_state(e, state):
        return DEAD
    if _is_end(e, token):
        return DONE if may_end(e, state) else DEAD
    if token < 0 or token >= get(e, f.VOCABULARY):
        return DEAD
    key = state << 32 | token
    known = lookup(e, f.NEXT_TABLE, key)
    if known != ABSENT:
        return known
    after = _token_step(e, state, token)
    if not lacks(e):
        insert(e, f.NEXT_TABLE, key, after)
    return after


@kernel(signature="int64(int64[::1], int64[::1], int64[::1], int64[::1], int64)", nogil=False)
def advance(header: Any, states: Any, tokens: Any, out: Any, first: Any) -> Any:
    """Write the state after ``tokens[i]`` from ``states[i]``, int64[n], from row ``first`` on."""
    e = header.ctypes.data
    if len(states) != len(tokens) or len(states) != len(out):
        return -1
    for i in range(first, len(states)):
        out[i] = _next(e, states[i], tokens[i])
        if lacks(e):
            return i
    return len(states)


@kernel(
    signature="int64(int64[::1], int64[::1], int64[:, ::1], boolean[:, ::1], int64)", nogil=False
)
def check(header: Any, states: Any, tokens: Any, out: Any, first: Any) -> Any:
    """Say in ``out`` bool[n, M] which of ``tokens`` int64[n, M] are allowed."""
    e = header.ctypes.data
    if len(states) != tokens.shape[0]:
        return -1
    for i in range(first, len(states)):
        known = _is_state(e, states[i])
        for j in range(tokens.shape[1]):
            if not known:
                out[i, j] = False
            elif _is_end(e, tokens[i, j]):
                out[i, j] = may_end(e, states[i])
            else:
                out[i, j] = _token_step(e, states[i], tokens[i, j]) >= 0
            if lacks(e):
                return i
    return len(states)


@kernel(signature="int64(int64[::1], int64[::1], int32[:, ::1], int64)", nogil=False)
def fill_mask(header: Any, states: Any, mask: Any, first: Any) -> Any:
    """Write the masks of ``states`` int64[n] to ``mask`` int32[n, words], i >= ``first``."""
    e = header.ctypes.data
    if len(states) != mask.shape[0]:
        return -1
    ends, width = int64s(e, f.END_IDS), mask.shape[1]
    for i in range(first, len(states)):
        out = int32s_at(mask.ctypes.data, 4 * width * i)
        if not _is_state(e, states[i]):
            for word in range(width):
                out[word] = 0
            continue
        found = state_mask(e, states[i])
        if lacks(e):
            return i
        write_mask(e, found, mask.ctypes.data + 4 * width * i, width)
        if may_end(e, states[i]):
            for j in range(size(e, f.END_IDS)):
                if (ends[j] >> 5) < width:
                    out[ends[j] >> 5] |= 1 << (ends[j] & 31)
    return len(states)


@kernel(signature="void(int64[::1], int64[::1], boolean[::1])", nogil=False)
def is_complete(header: Any, states: Any, out: Any) -> Any:
    """Say in ``out`` bool[n] where the text may end (or has)."""
    e = header.ctypes.data
    for i in range(len(states)):
        out[i] = states[i] == DONE
        if _is_state(e, states[i]):
            out[i] = may_end(e, states[i])


@kernel(
    signature="int64(int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64)",
    nogil=False,
)
def advance_bytes(header: Any, states: Any, text: Any, offsets: Any, out: Any, first: Any) -> Any:
    """Write the state after the bytes ``text[offsets[i]:offsets[i + 1]]``, int64[n]."""
    e = header.ctypes.data
    if len(states) != len(offsets) - 1 or len(states) != len(out):
        return -1
    for i in range(first, len(states)):
        state = states[i]
        if not _is_state(e, state):
            ended = state == DONE and offsets[i] == offsets[i + 1]
            out[i] = DONE if ended else DEAD
            continue
        for at in range(offsets[i], offsets[i + 1]):
            if state >= 0:
                state = step(e, state, text[at])
        if lacks(e):
            return i
        out[i] = state if state >= 0 else DEAD
    return len(states)


@kernel(signature="void(int64[::1], int64[::1], int64[::1])", nogil=False)
def speculation_keys(header: Any, states: Any, out: Any) -> Any:
    """Hash what each state is about: phases, values and places in automata of two levels.

    Counts and keys seen are left out, and the order of items, which sessions may number apart.
    """
    e = header.ctypes.data
    items = int64s(e, f.FRAME_ITEMS)
    for i in range(len(states)):
        out[i] = states[i] if states[i] == DONE else DEAD
        if not _is_state(e, states[i]):
            continue
        frame, key = int32s(e, f.STATE_FRAME)[states[i]], 0
        key = mixed(int32s(e, f.STATE_MARK)[states[i]] + 1)
        for _ in range(2):
            if frame < 0:
                break
            stage = phase(e, frame)
            total = stage + 1
            for at in range(first_item(e, frame), frame_end(e, frame), 2):
                held = items[at + 1] & 0xFFFFFFFF
                if stage == f.STRING or stage == f.RAW:
                    held = items[at + 1] >> 32
                total += mixed(mixed(items[at]) ^ held)
            key = mixed(key ^ total)
            frame = parent(e, frame)
        out[i] = key & 0x7FFFFFFFFFFFFFFF
