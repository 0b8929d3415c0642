"""States and terminals that can come after scanner states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.construction import constructed
from cdec.core.native import library


def live_rows(
    delta: NDArray[np.int32],
    match_offsets: NDArray[np.int32],
    match_terminals: NDArray[np.int32],
    num_terminals: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the terminals that states reached after one byte or more complete.

    Strongly connected states share their row, so one pass over the components, last ones first,
    is enough (Tarjan 1972).

    Args:
        delta: int32[C, K], -1 dead.
        match_offsets, match_terminals: int32[C + 1] and int32, terminals of each state.
        num_terminals: Upper bound of terminal numbers.

    Returns:
        (live_row int32[C], live_offsets int32[L + 1], live_terminals int32): equal rows once,
        ascending within a row. Cost: edges between components x length of a row.
    """
    delta = np.ascontiguousarray(delta)
    found = constructed(library.find_live(delta, match_offsets, match_terminals, num_terminals))
    assert found is not None
    return found.delta.ravel(), found.offsets.astype(np.int32), found.items


def states_with_fallback(
    delta: NDArray[np.int32], match_offsets: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return the states in which the lexer can still remember an earlier end of the terminal.

    They are the states that complete a terminal and all that come after them: bool[C].

    Args:
        delta: int32[C, K], -1 dead.
        match_offsets: int32[C + 1], terminals of each state.
    """
    found = np.diff(match_offsets) > 0
    front: NDArray[Any] = np.flatnonzero(found)
    while len(front):
        reached = np.unique(delta[front])
        front = reached[(reached >= 0) & ~found[reached]]
        found[front] = True
    return found
