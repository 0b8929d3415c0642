"""States that differ by a count alone and share a tree: no token reads to where counts matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.copies import Copies
from cdec.compilers.grammars.trees.walk_kernels import WalkTrie
from cdec.core.kernels import inner, kernel

_FAR = np.int32(2**31 - 1)


def alike_but_for_counts(
    delta: NDArray[np.int32], labels: NDArray[np.int64], trie: WalkTrie, copies: Copies
) -> NDArray[np.int32]:
    """Return for each state one that has counted more and has the same tree, itself if none.

    Args:
        delta: int32[C, K] next state, -1 dead.
        labels: int64[C] what entering a state shows.
        trie: The vocabulary.
        copies: Of the states.

    Returns:
        int32[C]. Cost: O(C K), and a walk of the trie for every state near the last copies.
    """
    order = np.argsort(-copies.copy, kind="stable")
    regular = _regular(delta, labels, copies.copy, copies.following)
    until = _copies_until_irregular(delta, copies.copy, copies.following, regular, order)
    found: NDArray[np.int32] = _alike(
        delta, copies.copy, copies.following, regular, until, order, trie
    )
    return found


@kernel
def _regular(delta: Any, labels: Any, copy: Any, following: Any) -> Any:
    """Say of which states every step does as that of the state with one more counted."""
    found = np.zeros(len(copy), np.bool_)
    for state in range(len(copy)):
        beside = following[state]
        if copy[state] == 0 or beside < 0 or labels[state] != labels[beside]:
            continue
        if copy[beside] != copy[state] + 1:
            continue
        same = True
        for k in range(delta.shape[1]):
            to, other = delta[state, k], delta[beside, k]
            if to == other:
                continue
            if to < 0 or following[to] != other or copy[to] < copy[state]:
                same = False
                break
        found[state] = same
    return found


@kernel
def _copies_until_irregular(delta: Any, copy: Any, following: Any, regular: Any, order: Any) -> Any:
    """Return after how many copies a state can come to one that is not regular, int32[C]."""
    until = np.where(regular, _FAR, np.int32(0)).astype(np.int32)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and copy[order[stop]] == copy[order[start]]:
            stop += 1
        changed = True
        while changed:
            changed = False
            for at in range(start, stop):
                state = order[at]
                if not regular[state]:
                    continue
                for k in range(delta.shape[1]):
                    to = delta[state, k]
                    if to < 0 or to == delta[following[state], k] or until[to] == _FAR:
                        continue
                    distance = until[to] + copy[to] - copy[state]
                    if distance < until[state]:
                        until[state], changed = distance, True
        start = stop
    return until


@inner
def _copies_read(
    delta: Any, copy: Any, following: Any, regular: Any, root: int, trie: Any, states: Any
) -> int:
    """Return the most copies that a token reads on from a state; -1: to one that is not regular."""
    classes, depth, skip = trie
    node, most = 0, 0
    states[0] = root
    while node < len(depth):
        level = depth[node]
        state = states[level - 1]
        to = delta[state, classes[node]]
        if to < 0 or to == delta[following[state], classes[node]]:
            node = skip[node]
            continue
        if not regular[to]:
            return -1
        most = max(most, copy[to] - copy[root])
        states[level] = to
        node += 1
    return most


@kernel
def _alike(
    delta: Any, copy: Any, following: Any, regular: Any, until: Any, order: Any, trie: WalkTrie
) -> Any:
    read, same = np.full(len(copy), -1, np.int64), np.arange(len(copy)).astype(np.int32)
    states = np.zeros(trie.depth.max() + 2 if len(trie.depth) else 2, np.int64)
    parts = trie.classes, trie.depth, trie.skip
    for state in order:
        if not regular[state]:
            continue
        beside = following[state]
        if read[beside] >= 0 and until[state] > read[beside]:
            read[state] = read[beside]
        else:
            read[state] = _copies_read(delta, copy, following, regular, state, parts, states)
        if read[state] >= 0:
            same[state] = same[beside]
    return same
