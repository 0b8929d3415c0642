"""ENTER nodes: what the first byte of a terminal says about the parser's context."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import kernel


def find_enters(
    delta: NDArray[np.int32],
    context_start: NDArray[np.int32],
    after_offsets: NDArray[np.int32],
    after_contexts: NDArray[np.int32],
    useful: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """List the scanner states that a terminal's successors can begin with, by byte class.

    An ENTER node asks for the contexts in which class k leads to a state. Where another class leads
    to that state in the same contexts, both ask the same, and the smaller class stands for both:
    tokens that differ in such bytes alone then share their branches.

    Args:
        delta: int32[C, K].
        context_start: int32[X].
        after_offsets, after_contexts: Contexts after each terminal, int32[T + 1] and flat.
        useful: bool[C] states in which something completes, on entering or later.

    Returns:
        int64[T * K + 1] offsets by terminal and class into the two others; int32 states entered,
        ascending; int32 the classes that stand for them. Cost: O(K * contexts after terminals),
        times the different questions about a state.
    """
    states, classes = delta.shape
    offsets = np.zeros((len(after_offsets) - 1) * classes + 1, np.int64)
    seen = np.zeros(states, np.int64)
    parts = (delta, context_start, after_offsets, after_contexts, useful)
    _list_enters(parts, seen, offsets, np.empty(0, np.int32))
    np.cumsum(offsets, out=offsets)
    entered = np.empty(int(offsets[-1]), np.int32)
    _list_enters(parts, seen, offsets, entered)
    chosen = np.empty(len(entered), np.int32)
    _choose_classes(parts, offsets, entered, np.full(states, -1, np.int64), chosen)
    return offsets, entered, chosen


@kernel
def _list_enters(parts: Any, seen: Any, offsets: Any, entered: Any) -> None:
    """Count the states entered into ``offsets[1:]``, or write them where there is room."""
    delta, context_start, after_offsets, after_contexts, useful = parts
    classes = delta.shape[1]
    seen[:] = -1
    for row in range(len(offsets) - 1):
        terminal, k = row // classes, row % classes
        at = offsets[row]
        n = 0
        for x in range(after_offsets[terminal], after_offsets[terminal + 1]):
            state = delta[context_start[after_contexts[x]], k]
            if state < 0 or not useful[state] or seen[state] == row:
                continue
            seen[state] = row
            if len(entered):
                entered[at + n] = state
            n += 1
        if not len(entered):
            offsets[row + 1] = n
        elif n > 1:
            entered[at : at + n].sort()


@kernel
def _choose_classes(parts: Any, offsets: Any, entered: Any, last: Any, chosen: Any) -> None:
    """Write for every state entered the smallest class that asks the same question."""
    delta, context_start, after_offsets, after_contexts, _ = parts
    classes = delta.shape[1]
    # Entries of a state that ask different questions, as a list from the last back to the first.
    before = np.empty(len(entered), np.int64)
    for row in range(len(offsets) - 1):
        terminal, k = row // classes, row % classes
        for at in range(offsets[row], offsets[row + 1]):
            state = entered[at]
            other = last[state]
            # subtle: entries of earlier terminals lie before this terminal's first.
            while other >= offsets[terminal * classes]:
                same, c = True, chosen[other]
                for x in range(after_offsets[terminal], after_offsets[terminal + 1]):
                    start = context_start[after_contexts[x]]
                    if (delta[start, k] == state) != (delta[start, c] == state):
                        same = False
                        break
                if same:
                    break
                other = before[other]
            if other >= offsets[terminal * classes]:
                chosen[at] = chosen[other]
            else:
                chosen[at] = k
                before[at] = last[state]
                last[state] = at
