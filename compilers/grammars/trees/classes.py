"""Scanner states that behave alike within a token: they share one subterminal tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import mixed


def classes_within(
    delta: NDArray[np.int32], labels: NDArray[np.int64], length: int
) -> NDArray[np.int64]:
    """Merge states that no text of at most ``length`` bytes tells apart.

    Bounded bisimulation: Moore's refinement (1956), stopped after ``length`` rounds or at the fixed
    point. A state's own label does not count, only those of the states that its bytes lead to: a
    token has at least one byte.

    Args:
        delta: int32[C, K] next state, -1 dead.
        labels: int64[C] what entering a state shows, >= 0.
        length: In bytes.

    Returns:
        int64[C] class of each state, numbered by first state. Cost: O(C K) a round.
    """
    classes = np.zeros(len(delta), np.int64)
    seen = min(len(delta), 1)
    for _ in range(length):
        # What a step shows: the label of the state entered, and its class by the round before.
        shown = np.unique(labels * (seen + 1) + classes, return_inverse=True)[1].ravel()
        refined = _refined(delta, shown)
        found = int(refined.max(initial=-1)) + 1
        if found == seen:
            break
        classes, seen = refined, found
    first = np.unique(classes, return_index=True)[1]
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[classes]


def _refined(delta: NDArray[np.int32], shown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes of equal rows ``shown[delta]``; hashes first, then compared in full."""
    hashes = np.empty(len(delta), np.uint64)
    _hash_rows(delta, shown, hashes)
    _, first, classes = np.unique(hashes, return_index=True, return_inverse=True)
    classes = classes.ravel()
    if _all_alike(delta, shown, first, classes):
        return classes
    rows = np.where(delta >= 0, shown[delta], -1)
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


@njit(cache=True, nogil=True)
def _hash_rows(delta: Any, shown: Any, hashes: Any) -> None:
    for state in range(len(delta)):
        value = np.uint64(6)
        for k in range(delta.shape[1]):
            following = delta[state, k]
            if following >= 0:
                value = mixed(mixed(value, k), shown[following])
        hashes[state] = value


@njit(cache=True, nogil=True)
def _all_alike(delta: Any, shown: Any, first: Any, classes: Any) -> bool:
    """Say whether every state's row is that of its class's first state."""
    for state in range(len(delta)):
        other = first[classes[state]]
        for k in range(delta.shape[1]):
            a, b = delta[state, k], delta[other, k]
            if (a < 0) != (b < 0) or (a >= 0 and shown[a] != shown[b]):
                return False
    return True


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
