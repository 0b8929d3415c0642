"""Scanner states that behave alike within a token: they share one subterminal tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.minimise_kernels import (
    predecessors,
    refine,
    same_successors,
)
from cdec.core.kernels import kernel


def classes_within(
    delta: NDArray[np.int32], labels: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Merge states that no text of so many bytes tells apart.

    Bounded bisimulation: Moore's refinement (1956), stopped after as many rounds as a state asks
    for, rounded up to a power of two. A state's own label does not count, only those of the states
    that its bytes lead to: a token has at least one byte.

    Args:
        delta: int32[C, K] next state, -1 dead.
        labels: int64[C] what entering a state shows, >= 0.
        lengths: int64[C] in bytes; 0: the state is a class of its own.

    Returns:
        int64[C] class of each state, numbered by first state. Cost: as ``refine``, once for every
        power of two up to the longest.
    """
    states = len(delta)
    rounded = 1 << np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    classes = np.arange(states, dtype=np.int64)
    numbers = np.unique(labels, return_inverse=True)[1]
    blocks, edges, done = numbers.ravel().astype(np.int32), predecessors(delta), 0
    for length in np.unique(rounded[lengths > 0]).tolist():
        # What a step shows: the label of the state entered, and what its texts show.
        refine(delta, *edges, blocks, int(blocks.max()) + 1, length - 1 - done)
        done = length - 1
        own = (lengths > 0) & (rounded == length)
        classes[own] = states * length + same_successors(delta, blocks)[own]
    _, first, which = np.unique(classes, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    found: NDArray[np.int64] = numbers[which.ravel()]
    return found


@kernel
def classes_below(classes: Any, depth: Any, below: Any, height: Any) -> None:
    """Write for every node the classes on edges below it and the number of levels there.

    Classes from 63 on share a bit.
    """
    open_nodes = np.empty(depth.max() + 1 if len(depth) else 1, np.int64)
    held = 0
    for node in range(len(depth) + 1):
        level = depth[node] if node < len(depth) else 1
        while held >= level:
            inner = open_nodes[held]
            if held > 1:
                own = np.uint64(1) << np.uint64(min(classes[inner], 63))
                outer = open_nodes[held - 1]
                below[outer] |= below[inner] | own
                height[outer] = max(height[outer], height[inner] + 1)
            held -= 1
        if node < len(depth):
            below[node], height[node] = np.uint64(0), 0
            open_nodes[level] = node
            held = level


@kernel
def longest_inside(delta: Any, classes: Any, depth: Any, skip: Any) -> Any:
    """Return, by a token's first class, how many of its bytes the terminal under way can read.

    A token is cut where two of its neighbouring bytes follow each other nowhere in the scanner.

    Args:
        delta: int32[C, K] next state, -1 dead.
        classes, depth, skip: int32[N] of a trie: byte class, level from 1, first node after the
            subtree.

    Returns:
        int64[K] bounds, at least 1. Cost: O(C K), and pairs of ways into a state and out of it.
    """
    states, width = delta.shape
    enters, pairs = np.zeros((states, width), np.bool_), np.zeros((width + 1, width), np.bool_)
    for state in range(states):
        for k in range(width):
            if delta[state, k] >= 0:
                enters[delta[state, k], k] = True
                pairs[width, k] = True
    for state in range(states):
        for k in range(width):
            if delta[state, k] >= 0:
                for before in range(width):
                    pairs[before, k] |= enters[state, before]
    longest, node = np.ones(width, np.int64), 0
    last = np.full(depth.max() + 1 if len(depth) else 1, width, np.int64)
    while node < len(depth):
        level = depth[node]
        last[level] = classes[node]
        if pairs[last[level - 1], classes[node]]:
            longest[last[1]] = max(longest[last[1]], level)
            node += 1
        else:
            node = skip[node]
    return longest


def state_labels(
    match_offsets: NDArray[np.int32], match_terminals: NDArray[np.int32], live: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Number the pairs of terminals completed on entering a state and its live row, int64[C]."""
    known: dict[tuple[int, bytes], int] = {}
    bounds, rows = match_offsets.tolist(), live.tolist()
    return np.array(
        [
            known.setdefault(
                (rows[state], match_terminals[bounds[state] : bounds[state + 1]].tobytes()),
                len(known),
            )
            for state in range(len(rows))
        ],
        np.int64,
    )
