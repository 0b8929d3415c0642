"""Token masks: the tokens that can follow in a state, by walking the vocabulary's trie of bytes."""

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
    row = get(e, f.MASKS)
    if row >= get(e, f.MASK_ROOM):
        lack(e, f.MASK_CHUNKS, row + 1)
        return -1
    words = int64s_at(mask_row(e, row), 0)
    for i in range(get(e, f.MASK_STRIDE) >> 1):
        words[i] = 0
    _walk(e, state, mask_row(e, row))
    if lacks(e):
        return -1
    put(e, f.MISSES, get(e, f.MISSES) + 1)
    put(e, f.MASKS, row + 1)
    int64s(e, f.STATE_MASK)[state] = epoch << 32 | row
    return row


@inner
def _walk(e: int, state: int, mask: int) -> None:
    """Set the tokens of the trie that a state allows in the mask at an address."""
    bits = int64s_at(mask, 0)
    node_byte, depths, skips = (
        uint8s(e, f.NODE_BYTE),
        int32s(e, f.NODE_DEPTH),
        int32s(e, f.NODE_SKIP),
    )
    offsets, tokens, path = int32s(e, f.NODE_TOKENS), int32s(e, f.TRIE_TOKENS), int32s(e, f.PATH)
    path[0] = state
    node, nodes = 0, size(e, f.NODE_BYTE)
    while node < nodes:
        depth = depths[node]
        after = step(e, path[depth - 1], node_byte[node])
        if after < 0:
            if lacks(e):
                return
            node = skips[node]
            continue
        path[depth] = after
        for i in range(offsets[node], offsets[node + 1]):
            bits[tokens[i] >> 6] |= 1 << (tokens[i] & 63)
        node += 1
