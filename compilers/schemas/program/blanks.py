"""The white space that may stand between JSON's tokens, as an automaton."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cdec.compilers.regular.edges import Edges

_INDENTED = 4
"""Times as many blanks as on a line may indent one."""


def no_blanks() -> Edges:
    """Return the automaton of the empty run."""
    return _edges([[]])


@lru_cache(maxsize=16)
def bounded_blanks(most: int) -> Edges:
    """Return the automaton of runs with ``most`` blanks on a line, as many line breaks, and four
    times as many blanks behind a break.

    Cost: 4 * most ** 2 states.
    """
    # State i: i blanks on the first line. Then, for each break, its state and those of its blanks.
    width = _INDENTED * most + 1
    states: list[list[tuple[bytes, int]]] = []
    for i in range(most + 1):
        to_break = [(b"\n", most + 1)] if most else []
        onward = [(b"\t", i + 1), (b"\r", i + 1), (b" ", i + 1)] if i < most else []
        states.append(onward + to_break)
    for line in range(most):
        first = most + 1 + line * width
        for i in range(width):
            to_break = [(b"\n", first + width)] if line + 1 < most else []
            here = first + i + 1
            onward = [(b"\t", here), (b"\r", here), (b" ", here)] if i + 1 < width else []
            states.append(onward + to_break)
    return _edges(states)


def _edges(states: list[list[tuple[bytes, int]]]) -> Edges:
    n = len(states)
    for edges in states:
        edges.sort()
    flat = [edge for edges in states for edge in edges]
    low = np.array([byte[0] for byte, _ in flat], np.uint8)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum([len(edges) for edges in states], out=offsets[1:])
    zeros = np.zeros(n, np.int32)
    return Edges(
        offsets,
        low,
        low.copy(),
        np.array([target for _, target in flat], np.int32),
        zeros,
        zeros,
        np.zeros(n, np.uint8),
        zeros,
        zeros,
        np.ones(n, np.uint8),
    )
