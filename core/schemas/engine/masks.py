"""Token masks: the tokens that can follow in a state, by walking tries of the vocabulary's bytes.

Within strings that may hold anything, the tokens of content are a row that is kept, and only those
in which the string ends or an escape begins are walked.
"""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import (
    call3,
    get,
    int32s,
    int64s,
    int64s_at,
    lack,
    put,
    size,
    uint8s,
)
from cdec.core.kernels import inner
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.contents import content_row, free_content, state_like
from cdec.core.schemas.engine.lists import lacks

__all__ = ["mask_row", "state_mask", "step"]


@inner
def step(e: int, state: int, byte: int) -> int:
    """Return the state after a byte, -1 for none. O(1) if done before."""
    block = int32s(e, f.STATE_BLOCKS)[8 * state + (byte >> 5)]
    if block >= 0:
        known = int32s(e, f.BLOCKS)[32 * block + (byte & 31)]
        if known != f.UNKNOWN:
            return known
    return call3(get(e, f.CALL_STEP), e, state, byte)


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
    same = state_like(e, state)
    if same < 0:
        return -1
    known = int64s(e, f.STATE_MASK)[same]
    if known < 0 or known >> 32 != epoch:
        known = epoch << 32 | _new_mask(e, same)
        if lacks(e):
            return -1
        int64s(e, f.STATE_MASK)[same] = known
    int64s(e, f.STATE_MASK)[state] = known
    return known & 0xFFFFFFFF


@inner
def _new_mask(e: int, state: int) -> int:
    """Compute the mask of a state in a new row."""
    row = get(e, f.MASKS)
    if row >= get(e, f.MASK_ROOM):
        lack(e, f.MASK_CHUNKS, row + 1)
        return -1
    at, words = mask_row(e, row), int64s_at(mask_row(e, row), 0)
    content = free_content(e, state)
    if content < 0:
        for i in range(get(e, f.MASK_STRIDE) >> 1):
            words[i] = 0
        _walk(e, f.WHOLE, state, at)
    else:
        held = int64s_at(content_row(e, content >> 1), 0)
        for i in range(get(e, f.MASK_STRIDE) >> 1):
            words[i] = held[i]
        _walk(e, f.ENDINGS if content & 1 else f.CROSSING, state, at)
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    put(e, f.MASKS, row + 1)
    return row


@inner
def _walk(e: int, trie: int, state: int, mask: int) -> None:
    """Set the tokens of a trie that a state allows in the mask at an address."""
    bits, path = int64s_at(mask, 0), int32s(e, f.PATH)
    bytes_, depths = uint8s(e, trie + f.BYTE), int32s(e, trie + f.DEPTH)
    skips, offsets = int32s(e, trie + f.SKIP), int32s(e, trie + f.TOKENS)
    tokens = int32s(e, trie + f.IDS)
    path[0] = state
    node, nodes = 0, size(e, trie + f.BYTE)
    while node < nodes:
        depth = depths[node]
        after = step(e, path[depth - 1], bytes_[node])
        if after < 0:
            if lacks(e):
                return
            node = skips[node]
            continue
        path[depth] = after
        for i in range(offsets[node], offsets[node + 1]):
            bits[tokens[i] >> 6] |= 1 << (tokens[i] & 63)
        node += 1
