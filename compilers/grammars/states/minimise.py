"""Minimisation of automata: drop states that lead nowhere, merge states that behave alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library


def minimised(
    delta: NDArray[np.int32], labels: NDArray[np.int32], starts: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the smallest automaton that gives every text the same sequence of labels.

    States from which no labelled state can be reached are cut off, unless they are starts. The
    refinement is Hopcroft's idea (1971, the larger part of a split block keeps its name) with
    whole rows as splitters: a state is looked at again only when a successor was renamed.

    Args:
        delta: int32[n, K] next state, -1 dead.
        labels: int32[n], 0 for states that mean nothing by themselves.
        starts: int32[m] states the automaton may begin in.

    Returns:
        (delta int32[n', K], representative int32[n'] one old state for each new one, starts
        int32[m]); states in the order in which a breadth-first walk from the starts meets them.
    """
    smallest, old, numbers = merged_states(delta, labels, starts)
    return smallest, old, numbers[starts]


def merged_states(
    delta: NDArray[np.int32], labels: NDArray[np.int32], starts: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Do as ``minimised``, and return what every state became instead of the starts alone.

    Returns:
        (delta int32[n', K], representative int32[n'], number int32[n], -1 where a state was
        dropped).
    """
    smallest = np.empty(delta.shape, np.int32)
    old, numbers = np.empty(len(delta), np.int32), np.empty(len(delta), np.int32)
    n = library.merge_states(delta, labels, starts, smallest, old, numbers)
    return smallest[:n].copy(), old[:n].copy(), numbers


def merge_classes(
    byte_class: NDArray[np.int32], delta: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (byte_class, delta) with columns that are equal in all states made one class."""
    numbers: dict[bytes, int] = {}
    columns = np.ascontiguousarray(delta.T)
    merged, first = np.zeros(len(columns), np.int32), np.zeros(256, np.int64)
    # By byte, so that classes are numbered in the order of their first byte.
    for kind in dict.fromkeys(byte_class.tolist()):
        merged[kind] = numbers.setdefault(columns[kind].tobytes(), len(numbers))
        if merged[kind] == len(numbers) - 1:
            first[merged[kind]] = kind
    return merged[byte_class].astype(np.int32), np.ascontiguousarray(
        columns[first[: len(numbers)]].T
    )
