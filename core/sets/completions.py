"""The best completions of states of a set, by scores of single tokens: one pass over its trie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.session import Completions
from cdec.core.sets.view import TrieView


class SetCompletions(Completions):
    """One pass over the trie, O(nodes + tokens) when it is made; then O(tokens that follow).

    Args:
        view: The set, with its filter.
        scores, ends: As in ``Session.completions``.
    """

    def __init__(
        self, view: TrieView, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> None:
        self._trie = library.hold_trie(view)
        self._scores, self._ends = scores, ends
        self._best = np.empty(len(view.token))
        self._choice = np.empty(len(view.token), np.int64)
        library.completions_fold(self._trie, scores, ends, self._best, self._choice)

    def totals(self, states: Any) -> NDArray[np.float64]:
        """Return the score of what follows best, float64[n]."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty(len(at))
        library.completions_totals(self._trie, self._scores, self._ends, self._best, at, found)
        return found

    def tokens(self, states: Any, most: int) -> NDArray[np.int64]:
        """Return the tokens that follow best, int64[n, most], -1 after the last."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty((len(at), most), np.int64)
        library.completions_paths(self._trie, self._choice, at, found)
        return found
