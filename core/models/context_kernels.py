"""Compiled loops of the context tree: the hash table from (parent, token) to the child's id.

The table is int32[power of two] of node ids, EMPTY where free, probed linearly. It stores no keys:
the nodes' own ``parent`` and ``token`` columns are the keys, so a child costs 4 bytes a slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel

EMPTY = -1
"""A free slot, the number of a node that is not in use, and the parent of a root."""
NOT_LIVE = -1
"""Returned by ``find_children`` where a parent is no live node."""
BAD_TOKEN = -2
"""Returned by ``find_children`` where a token does not fit int32."""


@inner
def _home(parent: int, token: int, mask: int) -> Any:
    """Return where the search for a child begins (Steele et al. 2014, the mix of SplitMix64)."""
    key = (np.uint64(parent) << np.uint64(32)) | np.uint64(token)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((key ^ (key >> np.uint64(31))) & np.uint64(mask))


@kernel
def first_lost(number: Any, used: int, nodes: Any) -> int:
    """Return the position of the first of ``nodes`` that is not in use, -1 if all are."""
    for i in range(len(nodes)):
        node = nodes[i]
        if node < 0 or node >= used or number[node] == EMPTY:
            return i
    return -1


@kernel
def find_children(
    slots: Any,
    parent: Any,
    token: Any,
    number: Any,
    used: int,
    above: Any,
    tokens: Any,
    children: Any,
) -> int:
    """Write the child of each pair to ``children`` int64[n], EMPTY where there is none yet.

    Args:
        slots: The table, int32.
        parent, token, number: int32[capacity] columns of the nodes.
        used: Ids from here on are not in use.
        above, tokens: int64[n] pairs to look up.

    Returns:
        How many pairs have no child yet; NOT_LIVE or BAD_TOKEN for a bad pair.
    """
    mask = len(slots) - 1
    missing = 0
    for i in range(len(above)):
        node = above[i]
        if node < 0 or node >= used or number[node] == EMPTY:
            return NOT_LIVE
        if tokens[i] < 0 or tokens[i] > 0x7FFFFFFF:
            return BAD_TOKEN
        at = _home(node, tokens[i], mask)
        while slots[at] != EMPTY:
            child = slots[at]
            if parent[child] == node and token[child] == tokens[i]:
                break
            at = (at + 1) & mask
        children[i] = slots[at]
        missing += slots[at] == EMPTY
    return missing


@kernel
def known_path(slots: Any, parent: Any, token: Any, tokens: Any, path: Any) -> int:
    """Write the descendants of ``path[0]`` along ``tokens`` int64[n] behind it; return how many.

    Args:
        slots: The table, int32.
        parent, token: int32[capacity] columns of the nodes.
        tokens: Of which the nodes are looked up.
        path: int64[n + 1], of which the first is a live node.
    """
    mask = len(slots) - 1
    for i in range(len(tokens)):
        at = _home(path[i], tokens[i], mask)
        while slots[at] != EMPTY:
            child = slots[at]
            if parent[child] == path[i] and token[child] == tokens[i]:
                break
            at = (at + 1) & mask
        if slots[at] == EMPTY:
            return i
        path[i + 1] = slots[at]
    return len(tokens)


@kernel
def insert_nodes(slots: Any, parent: Any, token: Any, nodes: Any) -> None:
    """Enter ``nodes`` int32[n], which the table does not hold; EMPTY ones are skipped.

    The table must keep a free slot.
    """
    mask = len(slots) - 1
    for i in range(len(nodes)):
        node = nodes[i]
        if node == EMPTY:
            continue
        at = _home(parent[node], token[node], mask)
        while slots[at] != EMPTY:
            at = (at + 1) & mask
        slots[at] = node


@kernel
def remove_nodes(slots: Any, parent: Any, token: Any, nodes: Any) -> int:
    """Take ``nodes`` int64[n] out of the table; return how many it held.

    Later slots of a run move back into the gap, so that no marks of what was deleted pile up.
    """
    mask = len(slots) - 1
    removed = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if parent[node] == EMPTY:
            continue
        gap = _home(parent[node], token[node], mask)
        while slots[gap] != node and slots[gap] != EMPTY:
            gap = (gap + 1) & mask
        if slots[gap] == EMPTY:
            continue
        removed += 1
        at = (gap + 1) & mask
        while slots[at] != EMPTY:
            home = _home(parent[slots[at]], token[slots[at]], mask)
            # It may move back unless its home lies after the gap, cyclically.
            if ((at - home) & mask) >= ((at - gap) & mask):
                slots[gap] = slots[at]
                gap = at
            at = (at + 1) & mask
        slots[gap] = EMPTY
    return removed
