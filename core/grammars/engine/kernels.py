"""What sessions call: compiled functions that step decoding states and fill their masks.

All take a session's header (``pointers``), arrays, and the first row to work on. They return the
number of rows that are done: fewer than given means that the scalar NEED says why (an array must
grow first, or it was enough work for one call), -1 that the arrays' lengths do not match. While
NEED says so, they do nothing: what is about to be replaced is not read.
"""

from __future__ import annotations

from typing import Any

from cdec.core.constraint import DEAD, DONE
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.indents import beneath, first_stack
from cdec.core.grammars.engine.masks.automaton import is_final, step
from cdec.core.grammars.engine.masks.store import count_tokens, mask_row
from cdec.core.grammars.engine.pointers import (
    NEED,
    get,
    int32s,
    int32s_at,
    int64s,
    lack,
    mixed,
    size,
    used,
)
from cdec.core.grammars.engine.readings import read_text
from cdec.core.grammars.engine.shifts import can_shift
from cdec.core.grammars.engine.stacks import member, members, vertex
from cdec.core.grammars.engine.states import (
    allows_token,
    begin,
    intern_state,
    is_end,
    is_state,
    lacks,
    load_state,
    may_end,
    next_state,
    state_mask,
)
from cdec.core.grammars.engine.work import begin_trial, end_trial
from cdec.core.kernels import kernel


@kernel(signature="int64(int64[::1])", nogil=False)
def start(header: Any) -> Any:
    """Return the state before the first byte, -1 after a lack of room."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if not begin(s, e):
        return -1
    if used(e, f.VERTEX_STATE) == 0:
        vertex(e, 0, f.NONE)
    if size(e, f.READINGS) < 3:
        lack(e, f.READINGS, 3)
        return -1
    readings, context = int32s(e, f.READINGS), int32s(e, f.LR_CONTEXT)[0]
    if context < 0 or context >= get(e, f.CONTEXTS):
        context = 0
    readings[0] = int32s(e, f.CONTEXT_START)[context] + get(e, f.SCANNER_STATES)
    readings[1], readings[2] = first_stack(e, 0), 0
    return intern_state(s, e, 1)


@kernel(signature="int64(int64[::1], int64[::1], int64[::1], int64[::1], int64)", nogil=False)
def advance(header: Any, states: Any, tokens: Any, out: Any, first: Any) -> Any:
    """Write the state after ``tokens[i]`` from ``states[i]``, int64[n], from row ``first`` on."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if len(states) != len(tokens):
        return -1
    if not begin(s, e):
        return first
    for i in range(first, len(states)):
        out[i] = next_state(s, e, states[i], tokens[i])
        if lacks(s, e):
            return i
    return len(states)


@kernel(
    signature="int64(int64[::1], int64[::1], int64[:, ::1], boolean[:, ::1], int64)", nogil=False
)
def check(header: Any, states: Any, tokens: Any, out: Any, first: Any) -> Any:
    """Say in ``out`` bool[n, M] which of ``tokens`` int64[n, M] are allowed; no state is made.

    ``first`` and what is returned count tokens, row by row.
    """
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if len(states) != tokens.shape[0]:
        return -1
    if not begin(s, e):
        return first
    many = tokens.shape[1]
    for at in range(first, len(states) * many):
        i, j = at // many, at % many
        if not is_state(s, states[i]):
            out[i, j] = False
        elif is_end(e, tokens[i, j]):
            out[i, j] = may_end(s, e, states[i])
        else:
            before = begin_trial(e)
            out[i, j] = allows_token(s, e, states[i], tokens[i, j])
            end_trial(e, before)
        if lacks(s, e):
            return at
    return len(states) * many


@kernel(signature="int64(int64[::1], int64[::1], int32[:, ::1], int64)", nogil=False)
def fill_mask(header: Any, states: Any, mask: Any, first: Any) -> Any:
    """Write the masks of ``states`` int64[n] to ``mask`` int32[n, words], i >= ``first``."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if len(states) != mask.shape[0]:
        return -1
    if not begin(s, e):
        return first
    ends, width = int64s(e, f.END_IDS), mask.shape[1]
    for i in range(first, len(states)):
        out = int32s_at(mask.ctypes.data, 4 * width * i)
        if not is_state(s, states[i]):
            for word in range(width):
                out[word] = 0
            continue
        number, complete = state_mask(s, e, states[i]), may_end(s, e, states[i])
        if number < 0 or lacks(s, e):
            return i
        words = min(get(e, f.DENSE_WORDS), width)
        source = int32s_at(mask_row(e, number), 0)
        for word in range(words):
            out[word] = source[word]
        for word in range(words, width):
            out[word] = 0
        if complete:
            for j in range(size(e, f.END_IDS)):
                if (ends[j] >> 5) < width:
                    out[ends[j] >> 5] |= 1 << (ends[j] & 31)
    return len(states)


@kernel(signature="int64(int64[::1], int64[::1], boolean[::1], int64)", nogil=False)
def is_complete(header: Any, states: Any, out: Any, first: Any) -> Any:
    """Say in ``out`` bool[n] where the text may end (or has)."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if not begin(s, e):
        return first
    for i in range(first, len(states)):
        out[i] = states[i] == DONE
        if is_state(s, states[i]):
            out[i] = may_end(s, e, states[i])
            if lacks(s, e):
                return i
    return len(states)


@kernel(signature="int64(int64[::1], int64[::1], int64[::1], int32[::1], int64)", nogil=False)
def count_allowed(header: Any, states: Any, counts: Any, only: Any, first: Any) -> Any:
    """Write how many tokens and end ids are allowed, and the only one (-1: none, or several)."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    ends = int64s(e, f.END_IDS)
    if not begin(s, e):
        return first
    for i in range(first, len(states)):
        counts[i], only[i] = 0, -1
        if not is_state(s, states[i]):
            continue
        mask, complete = state_mask(s, e, states[i]), may_end(s, e, states[i])
        if mask < 0 or lacks(s, e):
            return i
        count = count_tokens(e, mask)
        counts[i] = count
        if count == 1 and not complete:
            only[i] = int32s(e, f.MASK_ONLY)[mask]
        if complete:
            counts[i] += size(e, f.END_IDS)
            if count == 0 and size(e, f.END_IDS) > 0:
                only[i] = ends[0]
    return len(states)


@kernel(signature="int64(int64[::1], int64[::1], int64[::1], int32[::1], int64)", nogil=False)
def fill_allowed(header: Any, states: Any, offsets: Any, ids: Any, first: Any) -> Any:
    """Write the allowed tokens to ``ids``, ascending, end ids at their places.

    subtle: masks may have been dropped since they were counted; then they are computed again.
    """
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    ends = int64s(e, f.END_IDS)
    if not begin(s, e):
        return first
    for i in range(first, len(states)):
        if offsets[i] == offsets[i + 1]:
            continue
        mask, complete = state_mask(s, e, states[i]), may_end(s, e, states[i])
        if mask < 0 or lacks(s, e):
            return i
        at, stop, end = offsets[i], offsets[i + 1], 0
        last = size(e, f.END_IDS) if complete else 0
        words = int32s_at(mask_row(e, mask), 0)
        for word_at in range(get(e, f.DENSE_WORDS)):
            word, token = words[word_at] & 0xFFFFFFFF, 32 * word_at
            while word != 0 and at < stop:
                if word & 1:
                    while end < last and ends[end] < token and at < stop:
                        ids[at] = ends[end]
                        at, end = at + 1, end + 1
                    if at < stop:
                        ids[at] = token
                        at += 1
                word, token = word >> 1, token + 1
        while end < last and at < stop:
            ids[at] = ends[end]
            at, end = at + 1, end + 1
    return len(states)


@kernel(
    signature="int64(int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64)",
    nogil=False,
)
def advance_bytes(header: Any, states: Any, text: Any, offsets: Any, out: Any, first: Any) -> Any:
    """Write the state after the bytes ``text[offsets[i]:offsets[i + 1]]``, int64[n]."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if len(states) != len(offsets) - 1 or len(states) != len(out):
        return -1
    if not begin(s, e):
        return first
    for i in range(first, len(states)):
        if not is_state(s, states[i]):
            ended = states[i] == DONE and offsets[i] == offsets[i + 1]
            out[i] = DONE if ended else DEAD
            continue
        n = load_state(s, e, states[i])
        n = read_text(e, text.ctypes.data + offsets[i], offsets[i + 1] - offsets[i], -n)
        out[i] = intern_state(s, e, n)
        if lacks(s, e):
            return i
    return len(states)


@kernel(signature="void(int64[::1], int64[::1], int64[::1])", nogil=False)
def speculation_keys(header: Any, states: Any, out: Any) -> Any:
    """Hash the first reading of each state: its scanner state and the top three LR states."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    offsets, items = int64s(s, f.STATE_OFFSETS), int32s(s, f.STATE_ITEMS)
    for i in range(len(states)):
        if not is_state(s, states[i]):
            out[i] = states[i] if states[i] == DONE else DEAD
            continue
        at = offsets[states[i]]
        key, stack = mixed(items[at] + 1), beneath(e, items[at + 1])
        for _ in range(3):
            n, below = members(e, stack), f.NONE
            for j in range(n):
                top = member(e, stack, j)
                key = mixed(key ^ (int32s(e, f.VERTEX_STATE)[top] + 1))
                below = int32s(e, f.VERTEX_BELOW)[top]
            if n != 1:
                break
            stack = below
        out[i] = key & 0x7FFFFFFFFFFFFFFF


@kernel(signature="int64(int64[::1], int64, int64)", nogil=False)
def takes(header: Any, stack: Any, terminal: Any) -> Any:
    """Say whether a stack can shift a terminal (1 or 0); -1 after a lack of room."""
    s = header.ctypes.data
    e = get(s, f.ENGINE)
    if not begin(s, e):
        return -1
    result = can_shift(e, stack, terminal)
    return -1 if get(e, NEED) != 0 else int(result)


@kernel(
    signature="int64(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64)", nogil=False
)
def automaton_steps(
    header: Any, states: Any, lr_states: Any, out: Any, first: Any, most: Any
) -> Any:
    """Write the state after reading ``lr_states[i]`` in ``states[i]`` of the automaton of masks.

    -1 where nothing waits any more. ``header`` is an engine's. It ends when the generalised parser
    has met more than ``most`` edges (``stacks_general``), all calls together.
    """
    e = header.ctypes.data
    if not begin(e, e):
        return first
    for i in range(first, len(states)):
        if get(e, f.EDGES) > most:
            return i
        after = step(e, states[i], lr_states[i])
        if get(e, NEED) != 0:
            return i
        out[i] = -1 if is_final(e, after) else after
    return len(states)
