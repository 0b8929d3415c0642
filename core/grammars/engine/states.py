"""Decoding states of a session: lists of readings, interned; their steps, masks and ends."""

from __future__ import annotations

from cdec.core.constraint import DEAD, DONE
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.allowing import is_allowed
from cdec.core.grammars.engine.masks.masks import readings_mask
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    NEED,
    address,
    get,
    has_room,
    insert,
    int32s,
    int64s,
    lookup,
    mixed,
    put,
    size,
    use,
    used,
)
from cdec.core.grammars.engine.readings import read_text
from cdec.core.grammars.engine.shifts import can_shift
from cdec.core.grammars.engine.stacks import failed
from cdec.core.kernels import inner

__all__ = [
    "allows_token",
    "begin",
    "intern_state",
    "is_end",
    "is_state",
    "lacks",
    "load_state",
    "may_end",
    "state_mask",
    "step_token",
]


@inner
def lacks(s: int, e: int) -> bool:
    """Say whether the call must end."""
    return get(s, NEED) != 0 or get(e, NEED) != 0


@inner
def begin(s: int, e: int) -> bool:
    """Begin a call; False where something must be made first."""
    put(e, f.WORK, 0)
    return not lacks(s, e)


@inner
def is_state(s: int, state: int) -> bool:
    """Say whether a number, whatever it is, is a state of the session."""
    return 0 <= state < used(s, f.STATE_OFFSETS) - 1


@inner
def intern_state(s: int, e: int, n: int) -> int:
    """Return the state of the first n of READINGS; DEAD if n is 0 or after a lack of room."""
    if n == 0:
        return DEAD
    start, items = used(s, f.STATE_ITEMS), int32s(s, f.STATE_ITEMS)
    offsets, readings = int64s(s, f.STATE_OFFSETS), int32s(e, f.READINGS)
    if not has_room(s, f.STATE_ITEMS, 2 * n) or not has_room(s, f.STATE_OFFSETS, 1):
        return DEAD
    key: int = n
    for i in range(n):
        items[start + 2 * i], items[start + 2 * i + 1] = readings[3 * i], readings[3 * i + 1]
        key = mixed(mixed(key ^ readings[3 * i]) ^ readings[3 * i + 1])
    key = key if key != -1 else 0
    while True:
        known = lookup(s, f.STATE_TABLE, key)
        if known == ABSENT:
            break
        if offsets[known + 1] - offsets[known] == 2 * n:
            at, same = offsets[known], 0
            while same < 2 * n and items[at + same] == items[start + same]:
                same += 1
            if same == 2 * n:
                return known
        key = mixed(key ^ 1)
    new = used(s, f.STATE_OFFSETS) - 1
    if not insert(s, f.STATE_TABLE, key, new):
        return DEAD
    offsets[new + 1] = start + 2 * n
    int64s(s, f.STATE_MASK)[new] = -1
    int32s(s, f.STATE_COMPLETE)[new] = -1
    use(s, f.STATE_OFFSETS, new + 2)
    use(s, f.STATE_ITEMS, start + 2 * n)
    return new


@inner
def load_state(s: int, e: int, state: int) -> int:
    """Put a state's readings into READINGS; return how many, 0 after a lack of room."""
    offsets, items = int64s(s, f.STATE_OFFSETS), int32s(s, f.STATE_ITEMS)
    start, n = offsets[state], (offsets[state + 1] - offsets[state]) >> 1
    if 3 * n > size(e, f.READINGS):
        has_room(e, f.READINGS, 3 * n)
        return 0
    readings = int32s(e, f.READINGS)
    for i in range(n):
        readings[3 * i], readings[3 * i + 1] = items[start + 2 * i], items[start + 2 * i + 1]
        readings[3 * i + 2] = 0
    return n


@inner
def _token_text(e: int, token: int) -> tuple[int, int]:
    """Return the address of a token's bytes, and how many; 0 of them for what is no token."""
    if token < 0 or token >= get(e, f.VOCABULARY):
        return 0, 0
    offsets = int64s(e, f.VOCABULARY_OFFSETS)
    start, stop = offsets[token], offsets[token + 1]
    if start < 0 or start >= stop or stop > size(e, f.VOCABULARY_BYTES):
        return 0, 0
    return address(e, f.VOCABULARY_BYTES) + start, stop - start


@inner
def step_token(s: int, e: int, state: int, token: int) -> int:
    """Move a state's readings over a token; return how many are left in READINGS, 0: not allowed.

    Ends and ids without bytes are not allowed here.
    """
    text, length = _token_text(e, token)
    return 0 if length == 0 else read_text(e, text, length, load_state(s, e, state))


@inner
def allows_token(s: int, e: int, state: int, token: int) -> bool:
    """Say whether a state allows a token; ends and ids without bytes are not allowed here."""
    text, length = _token_text(e, token)
    return length > 0 and is_allowed(e, text, length, load_state(s, e, state))


@inner
def is_end(e: int, token: int) -> bool:
    """Say whether a token is an end-of-sequence id."""
    ends, found = int64s(e, f.END_IDS), False
    for i in range(size(e, f.END_IDS)):
        found = found or ends[i] == token
    return found


@inner
def may_end(s: int, e: int, state: int) -> bool:
    """Say whether the text may end: a reading is between terminals and its stack takes the end."""
    known = int32s(s, f.STATE_COMPLETE)[state]
    if known >= 0:
        return known == 1
    offsets, items = int64s(s, f.STATE_OFFSETS), int32s(s, f.STATE_ITEMS)
    end, result = get(e, f.TERMINALS), False
    for i in range(offsets[state], offsets[state + 1], 2):
        if items[i] >= get(e, f.SCANNER_STATES) and can_shift(e, items[i + 1], end):
            result = True
    if not failed(e):
        int32s(s, f.STATE_COMPLETE)[state] = 1 if result else 0
    return result


@inner
def state_mask(s: int, e: int, state: int) -> int:
    """Return the mask of a state, without its ends; -1 after a lack of room."""
    known, epoch = int64s(s, f.STATE_MASK)[state], get(e, f.EPOCH)
    if known >= 0 and (known >> 32) == epoch:
        put(e, f.HITS, get(e, f.HITS) + 1)
        return known & 0xFFFFFFFF
    offsets = int64s(s, f.STATE_OFFSETS)
    start, stop = offsets[state], offsets[state + 1]
    mask = readings_mask(e, int32s(s, f.STATE_ITEMS), start, (stop - start) >> 1)
    if mask >= 0 and not failed(e):
        int64s(s, f.STATE_MASK)[state] = (epoch << 32) | mask
    return mask


@inner
def next_state(s: int, e: int, state: int, token: int) -> int:
    """Return the state after a token, DEAD or DONE; remembered. O(bytes of the token) if new."""
    if not is_state(s, state) or token < 0:
        return DEAD
    if is_end(e, token):
        return DONE if may_end(s, e, state) else DEAD
    if token >= get(e, f.VOCABULARY) or (state >> 31) != 0:
        return DEAD
    key = (state << 32) | token
    known = lookup(s, f.NEXT_TABLE, key)
    if known != ABSENT:
        return known
    after = intern_state(s, e, step_token(s, e, state, token))
    if not failed(e):
        insert(s, f.NEXT_TABLE, key, after)
    return after
