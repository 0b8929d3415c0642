"""Parts of the set kernels: the rows that a filter keeps, search among siblings, mask bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner


@inner
def rank(kept: Any, kept_rank: Any, row: Any) -> int:
    """Count the kept rows below ``row``, 0 <= row <= 64 * words."""
    word = row >> 6
    if word >= len(kept):
        word = len(kept) - 1
        bits = kept[word]
    else:
        bits = kept[word] & ((np.uint64(1) << np.uint64(row & 63)) - np.uint64(1))
    # Population count in parallel (Warren, Hacker's Delight, section 5-1).
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    bits = (bits & pairs) + ((bits >> np.uint64(2)) & pairs)
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    ones = np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))
    total: int = kept_rank[word] + ones
    return total


@inner
def is_kept(row: Any, count: Any, kept: Any, kept_rank: Any, n_rows: int, node: int) -> bool:
    """Say whether the filter, if there is one, keeps a row of the node's subtree."""
    if len(kept) == 0:
        return True
    first = np.int64(row[node])
    stop = first + np.int64(count[node])
    if first < 0 or stop <= first or stop > n_rows:
        return False
    if stop == first + 1:
        return bool((kept[first >> 6] >> np.uint64(first & 63)) & np.uint64(1))
    return bool(rank(kept, kept_rank, stop) > rank(kept, kept_rank, first))


@inner
def search(token: Any, first: int, stop: int, sought: int) -> int:
    """Return the place of ``sought`` among sorted ``token[first:stop]``, else -1."""
    if first >= stop:
        return -1
    # Without branches on the comparison: a step is a conditional move, never a misprediction.
    size = stop - first
    while size > 1:
        half = size >> 1
        first += half if token[first + half] <= sought else 0
        size -= half
    return first if token[first] == sought else -1


@inner
def is_end(end_ids: Any, token: int) -> bool:
    """Say whether the token is an end-of-sequence id."""
    found = False
    for end in end_ids:
        found |= end == token
    return found


@inner
def set_bit(bits: Any, token: int) -> None:
    """Set one bit of a packed mask uint32[words]."""
    bits[token >> 5] |= np.uint32(1) << np.uint32(token & 31)


@inner
def clear_words(bits: Any) -> None:
    """Clear a packed mask uint32[words]."""
    for word in range(len(bits)):
        bits[word] = 0


@inner
def copy_words(source: Any, target: Any) -> None:
    """Copy a packed mask into another, cut to its length or filled up with zeros."""
    words = min(len(source), len(target))
    for word in range(words):
        target[word] = source[word]
    for word in range(words, len(target)):
        target[word] = 0
