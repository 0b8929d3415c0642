"""Masks in the engine's memory: stored once each, combined, and found again by what was read.

A mask is a number; its words lie in one of the chunks of ``MASK_CHUNKS``. A row that is being made
stands behind the masks in use and becomes a mask by ``keep_row``, unless an equal one is there.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    ABSENT,
    address,
    call5,
    get,
    has_room,
    insert,
    int32s,
    int32s_at,
    int64s,
    int64s_at,
    lookup,
    mixed,
    put,
    size,
    span,
    use,
    used,
)
from cdec.core.kernels import inner

__all__ = [
    "add_dense",
    "add_group",
    "add_token",
    "compute_join",
    "count_tokens",
    "join",
    "keep_row",
    "mask_row",
    "new_row",
]


@inner
def mask_row(e: int, mask: int) -> int:
    """Return the address of a mask's words."""
    shift = get(e, f.CHUNK_SHIFT)
    chunk = int64s(e, f.MASK_CHUNKS)[mask >> shift]
    return chunk + 4 * get(e, f.MASK_STRIDE) * (mask & ((1 << shift) - 1))


@inner
def new_row(e: int) -> int:
    """Return the address of a cleared row behind the masks in use; 0 after a lack of room."""
    if not has_room(e, f.MASK_COUNT, 1):
        return 0
    put(e, f.STEPPED_NEXT, 0)
    row = mask_row(e, used(e, f.MASK_COUNT))
    words = int64s_at(row, 0)
    for i in range(get(e, f.MASK_STRIDE) >> 1):
        words[i] = 0
    return row


@inner
def add_token(e: int, row: int, token: int) -> None:
    """Add a token to a row."""
    if 0 <= token < get(e, f.VOCABULARY):
        int32s_at(row, 0)[token >> 5] |= 1 << (token & 31)


@inner
def add_dense(e: int, row: int, dense: int) -> None:
    """Add the tokens of a dense row of the artifact to a row."""
    words = get(e, f.DENSE_WORDS)
    if dense < 0 or (dense + 1) * words > size(e, f.DENSE_MASKS):
        return
    target, source = int32s_at(row, 0), int32s_at(address(e, f.DENSE_MASKS), 4 * dense * words)
    for i in range(words):
        target[i] |= source[i]


@inner
def keep_row(e: int) -> int:
    """Return the number of the mask in the row of ``new_row``; -1 after a lack of room."""
    mask = used(e, f.MASK_COUNT)
    row, half = mask_row(e, mask), get(e, f.MASK_STRIDE) >> 1
    key = _hash(row, half)
    while True:
        known = lookup(e, f.MASK_TABLE, key)
        if known == ABSENT:
            break
        if _same(row, mask_row(e, known), half):
            return known
        key = mixed(key ^ 1)
    if not insert(e, f.MASK_TABLE, key, mask):
        return -1
    int32s(e, f.MASK_ONLY)[mask] = -2
    use(e, f.MASK_COUNT, mask + 1)
    return mask


@inner
def _hash(row: int, half: int) -> int:
    """Hash a row: four multiplicative hashes side by side (a multiple of four words of 64 bits)."""
    words = int64s_at(row, 0)
    a, b, c, d = 1, 2, 3, 4
    for i in range(0, half, 4):
        a = mixed(a ^ words[i])
        b = mixed(b ^ words[i + 1])
        c = mixed(c ^ words[i + 2])
        d = mixed(d ^ words[i + 3])
    key = mixed(mixed(mixed(a) ^ b) ^ mixed(c) ^ (d << 1))
    return key if key != -1 else 0


@inner
def _same(a: int, b: int, half: int) -> bool:
    first, second, i = int64s_at(a, 0), int64s_at(b, 0), 0
    while i < half and first[i] == second[i]:
        i += 1
    return i == half


@inner
def join(e: int, mask: int, taken: int, others: int) -> int:
    """Return ``mask | (others & ~taken)``, ``taken`` a dense row or -1; -1 after a lack of room."""
    if mask < 0 or others < 0 or (mask == others):
        return mask if mask == others else -1
    pair = lookup(e, f.JOIN_TABLE, (mask << 32) | (taken + 1))
    if pair == ABSENT:
        pair = get(e, f.JOINS)
        if not insert(e, f.JOIN_TABLE, (mask << 32) | (taken + 1), pair):
            return -1
        put(e, f.JOINS, pair + 1)
    known = lookup(e, f.JOINED_TABLE, (pair << 32) | others)
    if known != ABSENT:
        return known
    return call5(get(e, f.CALL_JOIN), e, mask, taken, others, pair)


@inner
def compute_join(e: int, mask: int, taken: int, others: int, pair: int) -> int:
    """Compute a mask of ``join`` and note it under its pair."""
    row = new_row(e)
    if row == 0:
        return -1
    target, half = int64s_at(row, 0), get(e, f.MASK_STRIDE) >> 1
    first, second = int64s_at(mask_row(e, others), 0), int64s_at(mask_row(e, mask), 0)
    for i in range(half):
        target[i] = first[i]
    if taken >= 0:
        _remove_dense(e, row, taken)
    for i in range(half):
        target[i] |= second[i]
    known = keep_row(e)
    return known if insert(e, f.JOINED_TABLE, (pair << 32) | others, known) else -1


@inner
def _remove_dense(e: int, row: int, dense: int) -> None:
    words = get(e, f.DENSE_WORDS)
    if (dense + 1) * words > size(e, f.DENSE_MASKS):
        return
    target, source = int32s_at(row, 0), int32s_at(address(e, f.DENSE_MASKS), 4 * dense * words)
    for i in range(words):
        target[i] &= ~source[i]


@inner
def count_tokens(e: int, mask: int) -> int:
    """Return how many tokens a mask has; afterwards MASK_ONLY holds the only one, or -1."""
    if int32s(e, f.MASK_ONLY)[mask] != -2:
        return int32s(e, f.MASK_COUNT)[mask]
    words, count, only = int32s_at(mask_row(e, mask), 0), 0, -1
    for i in range(get(e, f.DENSE_WORDS)):
        word = words[i] & 0xFFFFFFFF
        while word != 0:
            if count == 0:
                only = 32 * i + _lowest_bit(word)
            word &= word - 1
            count += 1
    int32s(e, f.MASK_COUNT)[mask] = count
    int32s(e, f.MASK_ONLY)[mask] = only if count == 1 else -1
    return count


@inner
def _lowest_bit(word: int) -> int:
    bit = 0
    while (word >> bit) & 1 == 0:
        bit += 1
    return bit


@inner
def add_group(e: int, row: int, group: int) -> None:
    """Add the tokens of a group to a row."""
    dense = int32s(e, f.GROUP_DENSE)[group]
    if dense >= 0:
        add_dense(e, row, dense)
    else:
        _add_listed(e, row, group)


@inner
def _add_listed(e: int, row: int, group: int) -> None:
    """Add the listed tokens of a group to a row."""
    offsets, tokens = int64s(e, f.GROUP_TOKENS), int32s(e, f.TOKENS)
    low, high = span(offsets, group, size(e, f.TOKENS))
    for i in range(low, high):
        add_token(e, row, tokens[i])
