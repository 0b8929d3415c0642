"""Token masks: the tokens that can follow in a state.

Within strings that may hold anything, most tokens are a row that is kept, and only those in which
the string ends are walked; between values, what stands behind whitespace (``json_tokens``). So a
mask is a row that many share, and a list of the tokens that it has besides.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    address,
    get,
    has_room,
    int32s,
    int32s_at,
    int64s,
    lack,
    put,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.lists import lacks, phase, state_of
from cdec.core.schemas.engine.masks.contents import free_content, ready_row, state_like
from cdec.core.schemas.engine.masks.repetitions import (
    forgetful_state,
    has_repetitions,
    without_repetitions,
)
from cdec.core.schemas.engine.masks.walks import push_blanks, run_ends_of, walk

__all__ = ["state_mask", "write_mask"]


@inner
def state_mask(e: int, state: int) -> int:
    """Return the number of a state's mask, which has no ends; -1 after a lack of room."""
    known, epoch = int64s(e, f.STATE_MASK)[state], get(e, f.EPOCH)
    if known >= 0 and known >> 32 == epoch:
        put(e, f.HITS, get(e, f.HITS) + 1)
        return known & 0xFFFFFFFF
    forgetful = forgetful_state(e, state)
    if forgetful < 0:
        return -1
    same = state_like(e, forgetful)
    if same < 0:
        return -1
    known = int64s(e, f.STATE_MASK)[same]
    if known < 0 or known >> 32 != epoch:
        known = epoch << 32 | _new_mask(e, same)
        if lacks(e):
            return -1
        int64s(e, f.STATE_MASK)[same] = known
    if forgetful != state and has_repetitions(e, state):
        known = epoch << 32 | _own_mask(e, state, known & 0xFFFFFFFF)
    if lacks(e):
        return -1
    int64s(e, f.STATE_MASK)[state] = known
    return known & 0xFFFFFFFF


@inner
def _own_mask(e: int, state: int, shared: int) -> int:
    """Return the mask of a state in which some texts may not come again: a row of its own."""
    row = _new_row(e)
    if row < 0:
        return -1
    write_mask(e, shared, _row(e, row), get(e, f.MASK_STRIDE))
    without_repetitions(e, state, _row(e, row))
    end = used(e, f.MASK_TOKENS)
    return _kept(e, row, end, end)


@inner
def _new_mask(e: int, state: int) -> int:
    """Compute the mask of a state."""
    begin = used(e, f.MASK_TOKENS)
    content, base = free_content(e, state), f.NO_ROW
    frame = int32s(e, f.STATE_FRAME)[state]
    if content >= 0:
        base = ready_row(e, content >> 1)
        walk(e, f.ENDINGS if content & 1 else f.CROSSING, state, -1)
    elif phase(e, frame) >= f.KEY or get(e, f.LAYOUT) != 0:
        walk(e, f.WHOLE, state, -1)
    else:
        run_ends = run_ends_of(e, int32s(e, f.STATE_MARK)[state])
        push_blanks(e, run_ends)
        walk(e, f.BEHIND, state_of(e, frame, int32s(e, f.BLANK_START)[0]), run_ends)
    end = used(e, f.MASK_TOKENS)
    if end - begin > f.MOST_TOKENS:
        base, end = _own_row(e, base, begin, end), begin
    return _kept(e, base, begin, end)


@inner
def _kept(e: int, base: int, begin: int, end: int) -> int:
    """Return a new mask of a row and a range of MASK_TOKENS; -1 after a lack of room."""
    new = used(e, f.MASK_OFFSETS) - 1
    if not has_room(e, f.MASK_OFFSETS, 1) or lacks(e):
        use(e, f.MASK_TOKENS, begin)
        return -1
    use(e, f.MASK_TOKENS, end)
    use(e, f.MASK_OFFSETS, new + 2)
    int64s(e, f.MASK_OFFSETS)[new + 1] = end
    int32s(e, f.MASK_BASE)[new] = base
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    return new


@inner
def _own_row(e: int, base: int, begin: int, end: int) -> int:
    """Write a row of a base and tokens; return its number behind FIRST_OWN."""
    row = _new_row(e)
    if row >= 0:
        _copy(e, base, _row(e, row), get(e, f.MASK_STRIDE))
        _set(e, begin, end, _row(e, row))
    return row


@inner
def _new_row(e: int) -> int:
    """Return the number of a new row behind FIRST_OWN; -1 after a lack of room."""
    row = get(e, f.OWN_ROWS)
    if row >= get(e, f.OWN_ROOM):
        lack(e, f.MASK_CHUNKS, row + 1)
        return -1
    put(e, f.OWN_ROWS, row + 1)
    return f.FIRST_OWN + row


@inner
def _row(e: int, base: int) -> int:
    """Return the address of a row: of content, or of a mask alone."""
    stride = 4 * get(e, f.MASK_STRIDE)
    if base < f.FIRST_OWN:
        return address(e, f.CONTENT_ROWS) + stride * base
    row, shift = base - f.FIRST_OWN, get(e, f.CHUNK_SHIFT)
    return int64s(e, f.MASK_CHUNKS)[row >> shift] + stride * (row & ((1 << shift) - 1))


@inner
def _copy(e: int, base: int, out: int, words: int) -> None:
    """Write a row's first words at an address; zeros for NO_ROW."""
    target = int32s_at(out, 0)
    if base == f.NO_ROW:
        for i in range(words):
            target[i] = 0
        return
    source = int32s_at(_row(e, base), 0)
    for i in range(words):
        target[i] = source[i]


@inner
def _set(e: int, begin: int, end: int, out: int) -> None:
    """Set the bits of a range of MASK_TOKENS at an address."""
    tokens, words = int32s(e, f.MASK_TOKENS), int32s_at(out, 0)
    for i in range(begin, end):
        words[tokens[i] >> 5] |= 1 << (tokens[i] & 31)


@inner
def write_mask(e: int, mask: int, out: int, words: int) -> None:
    """Write the first words of a mask at an address."""
    held = min(get(e, f.WORDS), words)
    _copy(e, int32s(e, f.MASK_BASE)[mask], out, held)
    rest = int32s_at(out, 0)
    for i in range(held, words):
        rest[i] = 0
    offsets = int64s(e, f.MASK_OFFSETS)
    _set(e, offsets[mask], offsets[mask + 1], out)
