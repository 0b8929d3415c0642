"""Token masks: the tokens that can follow in a state, by walking tries of the vocabulary's bytes.

Within strings that may hold anything, most tokens are a row that is kept, and only those in which
the string ends are walked; between values, what stands behind whitespace (``json_tokens``).
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    get,
    has_room,
    int32s,
    int64s,
    int64s_at,
    lack,
    put,
    size,
    uint8s,
    use,
    used,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.contents import content_row, free_content, state_like
from cdec.core.schemas.engine.lists import lacks, phase, state_of
from cdec.core.schemas.engine.repetitions import (
    forgetful_state,
    has_repetitions,
    without_repetitions,
)
from cdec.core.schemas.engine.stepping import step
from cdec.core.schemas.engine.strings import step_automaton

__all__ = ["mask_row", "state_mask"]


@inner
def mask_row(e: int, row: int) -> int:
    """Return the address of a row of masks."""
    shift = get(e, f.CHUNK_SHIFT)
    chunk = int64s(e, f.MASK_CHUNKS)[row >> shift]
    return chunk + 4 * get(e, f.MASK_STRIDE) * (row & ((1 << shift) - 1))


@inner
def state_mask(e: int, state: int) -> int:
    """Return the row of a state's mask, without ends; -1 after a lack of room."""
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
    """Compute the mask of a state in which some texts may not come again, in a new row."""
    row = get(e, f.MASKS)
    if row >= get(e, f.MASK_ROOM):
        lack(e, f.MASK_CHUNKS, row + 1)
        return -1
    at = mask_row(e, row)
    words, source = int64s_at(at, 0), int64s_at(mask_row(e, shared), 0)
    for i in range(get(e, f.MASK_STRIDE) >> 1):
        words[i] = source[i]
    without_repetitions(e, state, at)
    put(e, f.MASKS, row + 1)
    return row


@inner
def _new_mask(e: int, state: int) -> int:
    """Compute the mask of a state in a new row."""
    row = get(e, f.MASKS)
    if row >= get(e, f.MASK_ROOM):
        lack(e, f.MASK_CHUNKS, row + 1)
        return -1
    at, words = mask_row(e, row), int64s_at(mask_row(e, row), 0)
    content = free_content(e, state)
    if content >= 0:
        held = int64s_at(content_row(e, content >> 1), 0)
        for i in range(get(e, f.MASK_STRIDE) >> 1):
            words[i] = held[i]
        _walk(e, f.ENDINGS if content & 1 else f.CROSSING, state, at, -1)
    else:
        for i in range(get(e, f.MASK_STRIDE) >> 1):
            words[i] = 0
        frame = int32s(e, f.STATE_FRAME)[state]
        if phase(e, frame) >= f.KEY:
            _walk(e, f.WHOLE, state, at, -1)
        else:
            run_ends = _run_ends(e, int32s(e, f.STATE_MARK)[state])
            _set_blanks(e, at, run_ends)
            _walk(e, f.BEHIND, state_of(e, frame, int32s(e, f.BLANK_START)[0]), at, run_ends)
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    put(e, f.MASKS, row + 1)
    return row


@inner
def _run_ends(e: int, mark: int) -> int:
    """Return where in RUN_ENDS stands what each run of whitespace leads to from a state of blanks.

    subtle: 0 after a lack of room.
    """
    known, runs = int32s(e, f.BLANK_INDEX)[mark], size(e, f.RUN_OFFSETS) - 1
    if known >= 0:
        return known
    first = used(e, f.RUN_ENDS)
    if not has_room(e, f.RUN_ENDS, runs):
        return 0
    ends, offsets, text = int32s(e, f.RUN_ENDS), int64s(e, f.RUN_OFFSETS), uint8s(e, f.RUNS)
    for run in range(runs):
        state: int = mark
        for at in range(offsets[run], offsets[run + 1]):
            if state >= 0:
                state = step_automaton(e, state, text[at])
        ends[first + run] = state
    use(e, f.RUN_ENDS, first + runs)
    int32s(e, f.BLANK_INDEX)[mark] = first
    return first


@inner
def _set_blanks(e: int, mask: int, run_ends: int) -> None:
    """Set the tokens of whitespace alone."""
    bits, tokens = int64s_at(mask, 0), int32s(e, f.BLANK_TOKENS)
    ends, run_of = int32s(e, f.RUN_ENDS), int32s(e, f.RUN_OF)
    for i in range(size(e, f.BLANK_TOKENS)):
        if ends[run_ends + run_of[tokens[i]]] >= 0:
            bits[tokens[i] >> 6] |= 1 << (tokens[i] & 63)


@inner
def _walk(e: int, trie: int, state: int, mask: int, run_ends: int) -> None:
    """Set the tokens of a trie that a state allows in the mask at an address.

    Args:
        trie: One of WHOLE, CROSSING, ENDINGS, BEHIND.
        state: Before the trie's texts.
        mask: Of the tokens.
        run_ends: Of BEHIND: where the whitespace before the texts leads; else -1.
    """
    bits, path, phases = int64s_at(mask, 0), int32s(e, f.PATH), int32s(e, f.PATH_PHASE)
    bytes_, depths = uint8s(e, trie + f.BYTE), int32s(e, trie + f.DEPTH)
    skips, offsets = int32s(e, trie + f.SKIP), int32s(e, trie + f.TOKENS)
    tokens, may_come = int32s(e, trie + f.IDS), int64s(e, f.PHASE_BYTES)
    frames, ends, run_of = int32s(e, f.STATE_FRAME), int32s(e, f.RUN_ENDS), int32s(e, f.RUN_OF)
    if lacks(e):
        return
    path[0], phases[0] = state, phase(e, frames[state])
    node, nodes = 0, size(e, trie + f.BYTE)
    while node < nodes:
        depth, byte, after = depths[node], bytes_[node], -1
        if (may_come[4 * phases[depth - 1] + (byte >> 6)] >> (byte & 63)) & 1:
            after = step(e, path[depth - 1], byte)
        if after < 0:
            if lacks(e):
                return
            node = skips[node]
            continue
        path[depth], phases[depth] = after, phase(e, frames[after])
        for i in range(offsets[node], offsets[node + 1]):
            token, end = tokens[i], -1
            if run_ends >= 0:
                end = ends[run_ends + run_of[token]]
            if run_ends < 0 or (end >= 0 and int32s(e, f.STATE_LABEL)[end] >= 0):
                bits[token >> 6] |= 1 << (token & 63)
        node += 1
