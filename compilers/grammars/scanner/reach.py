"""Which scanner states can come after others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import kernel

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner


@kernel
def mark_ahead(
    delta: NDArray[np.int32],
    letter: NDArray[np.int32],
    sources: NDArray[np.int32],
    stamps: NDArray[np.int32],
    stamp: int,
    found: NDArray[np.bool_],
) -> None:
    """Mark in ``found`` the letters of all scanner states at least one byte after ``sources``.

    Args:
        delta: int32[C, K].
        letter: int32[C], -1: none.
        sources: int32[n].
        stamps: int32[C], ``stamp`` where a state was met in this call.
        stamp: New in every call.
        found: bool[letters], changed in place.
    """
    stack = np.empty(len(delta) + sources.size, dtype=np.int32)
    size = sources.size
    stack[:size] = sources
    while size:
        size -= 1
        state = stack[size]
        for column in range(delta.shape[1]):
            target = delta[state, column]
            if target >= 0 and stamps[target] != stamp:
                stamps[target] = stamp
                if letter[target] >= 0:
                    found[letter[target]] = True
                stack[size] = target
                size += 1


def states_with_fallback(scanner: Scanner) -> NDArray[np.bool_]:
    """Return the states in which the lexer can still remember an earlier end of the terminal.

    They are the states that complete a terminal and all that come after them: bool[C].
    """
    delta = np.asarray(scanner.delta)
    found = np.diff(scanner.match_offsets) > 0
    front: NDArray[Any] = np.flatnonzero(found)
    while len(front):
        reached = np.unique(delta[front])
        front = reached[(reached >= 0) & ~found[reached]]
        found[front] = True
    return found
