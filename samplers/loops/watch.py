"""LoopWatch: whether walks loop, token by token as they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.samplers.loops import kernels

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


class LoopWatch:
    """W walks, of which it is known after every token whether they loop.

    Args:
        vocabulary: Of their tokens.
        n: W.
        states: What is known of them already; None for nothing.
    """

    def __init__(
        self, vocabulary: Vocabulary, n: int, states: kernels.States | None = None
    ) -> None:
        self._vocabulary = vocabulary
        self._states = kernels.empty(n) if states is None else states

    def begin(self, walks: NDArray[np.int64], tokens: Sequence[int]) -> None:
        """Let ``walks`` (int64[n]) begin with tokens that stand before their first one."""
        first = walks[:1]
        for token in tokens if walks.size else ():
            self.append(first, np.array([token], np.int64))
        self.inherit(walks[1:], np.repeat(first, max(0, len(walks) - 1)))

    def append(self, walks: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Take one token (int64[n]) of each of ``walks`` (int64[n])."""
        table = self._vocabulary.flat_bytes, self._vocabulary.byte_offsets
        given = np.asarray(tokens, np.int64)
        library.loops_take(walks, given, *table, self._states, kernels.NEEDED)

    def is_looping(self, walks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which of ``walks`` (int64[n]) loop, bool[n]."""
        looping: NDArray[np.bool_] = self._states.found[walks] != kernels.NONE
        return looping

    def inherit(self, slots: NDArray[np.int64], ancestors: NDArray[np.int64]) -> None:
        """Put copies of the walks ``ancestors`` (int64[n]) in the places ``slots`` (int64[n])."""
        for column in self._states:
            column[slots] = column[ancestors]

    def take(self, rows: NDArray[np.int64]) -> LoopWatch:
        """Return some of the walks, in the given order, repetitions welcome."""
        recent, runs, seen, found = self._states
        states = kernels.States(recent[rows], runs[rows], seen[rows], found[rows])
        return LoopWatch(self._vocabulary, len(rows), states)
