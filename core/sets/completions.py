"""The best completions of states of a set, by scores of single tokens: one pass over its trie.

States and the checks of what is read from files are those of ``kernels``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
from cdec.core.session import Completions
from cdec.core.sets.kernels import END, TAIL, TAIL_SHIFT
from cdec.core.sets.primitives import is_kept
from cdec.core.sets.view import TrieView

_DEPTH_MASK = TAIL - 1


class SetCompletions(Completions):
    """One pass over the trie, O(nodes + tokens) when it is made; then O(tokens that follow).

    Args:
        view: The set, with its filter.
        scores, ends: As in ``Session.completions``.
    """

    def __init__(
        self, view: TrieView, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> None:
        self._view = view
        self._scores, self._ends = scores, ends
        self._best = np.empty(len(view.token))
        self._choice = np.empty(len(view.token), np.int64)
        _fold(view, scores, ends, self._best, self._choice)

    def totals(self, states: Any) -> NDArray[np.float64]:
        """Return the score of what follows best, float64[n]."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty(len(at))
        _totals(self._view, self._scores, self._ends, self._best, at, found)
        return found

    def tokens(self, states: Any, most: int) -> NDArray[np.int64]:
        """Return the tokens that follow best, int64[n, most], -1 after the last."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty((len(at), most), np.int64)
        _paths(self._view, self._choice, at, found)
        return found


@inner
def _tail(tokens: Any, row_offsets: Any, row: int, place: int) -> Any:
    """Return (first, stop) of a row's tokens from ``place`` on; nothing where they cannot be."""
    nothing = np.int64(0)
    if row < 0 or row >= len(row_offsets) - 1:
        return nothing, nothing
    stop = row_offsets[row + 1]
    if place < row_offsets[row] or place > stop or row_offsets[row] < 0 or stop > len(tokens):
        return nothing, nothing
    return np.int64(place), np.int64(stop)


@inner
def _tail_score(
    tokens: Any, scores: Any, ends: Any, ends_itself: bool, first: int, stop: int
) -> Any:
    """Return the score of ``tokens[first:stop]`` and of the end after them."""
    total = 0.0
    for place in range(first, stop):
        t = tokens[place]
        total += scores[t] if 0 <= t < len(scores) else 0.0
    if ends_itself or stop == 0:
        return total
    last = tokens[stop - 1]
    return total + (ends[last] if 0 <= last < len(ends) else 0.0)


@kernel
def _fold(view: Any, scores: Any, ends: Any, best: Any, choice: Any) -> None:
    """Write the score of the best completion after each node, and the child it goes on by.

    Children stand behind their parents, so one pass from the last node to the first is enough.
    ``best`` float64[N], -inf where a filter keeps nothing; ``choice`` int64[N], -1 at leaves.
    """
    token, link, degree, row, count = view.token, view.link, view.degree, view.row, view.row_count
    tokens, row_offsets, kept, kept_rank = view.tokens, view.row_offsets, view.kept, view.kept_rank
    n_rows = len(row_offsets) - 1
    for node in range(len(token) - 1, -1, -1):
        best[node], choice[node] = -np.inf, -1
        first, stop = link[node], link[node] + degree[node]
        if degree[node] == 0:
            if token[node] == END:
                best[node] = 0.0
                continue
            begin, end = _tail(tokens, row_offsets, row[node], link[node])
            best[node] = _tail_score(tokens, scores, ends, view.ends_itself, begin, end)
            continue
        if first <= node or first >= stop or stop > len(token):
            continue
        own = token[node]
        for child in range(first, stop):
            if not is_kept(row, count, kept, kept_rank, n_rows, child):
                continue
            t = token[child]
            if t == END:
                total = ends[own] if node > 0 and 0 <= own < len(ends) else 0.0
            else:
                total = best[child] + (scores[t] if 0 <= t < len(scores) else 0.0)
            if total > best[node]:
                best[node], choice[node] = total, child


@kernel
def _totals(view: Any, scores: Any, ends: Any, best: Any, states: Any, out: Any) -> None:
    """Write the best score of what follows each state to ``out`` float64[n]; 0 at the end."""
    for i in range(len(states)):
        state = states[i]
        out[i] = 0.0
        if state >= TAIL:
            row = (state >> TAIL_SHIFT) - 1
            if row < len(view.row_offsets) - 1:
                place = view.row_offsets[row] + (state & _DEPTH_MASK)
                begin, end = _tail(view.tokens, view.row_offsets, row, place)
                out[i] = _tail_score(view.tokens, scores, ends, view.ends_itself, begin, end)
        elif 0 <= state < len(best):
            out[i] = best[state]


@kernel
def _paths(view: Any, choice: Any, states: Any, out: Any) -> None:
    """Write the tokens of the best completion of each state to ``out`` int64[n, L], -1 after."""
    token, link, row, row_offsets = view.token, view.link, view.row, view.row_offsets
    for i in range(len(states)):
        state, depth = states[i], 0
        out[i, :] = -1
        begin, end = np.int64(0), np.int64(0)
        if state >= TAIL:
            at_row = (state >> TAIL_SHIFT) - 1
            if at_row < len(row_offsets) - 1:
                place = row_offsets[at_row] + (state & _DEPTH_MASK)
                begin, end = _tail(view.tokens, row_offsets, at_row, place)
        elif 0 <= state < len(choice):
            node = state
            # A choice is a later node: this ends, whatever the file holds.
            while choice[node] > node and token[choice[node]] != END and depth < out.shape[1]:
                node = choice[node]
                out[i, depth] = token[node]
                depth += 1
            if view.degree[node] == 0:
                begin, end = _tail(view.tokens, row_offsets, row[node], link[node])
        for place in range(begin, end):
            if depth < out.shape[1]:
                out[i, depth] = view.tokens[place]
                depth += 1
