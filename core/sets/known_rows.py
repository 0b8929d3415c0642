"""Texts of a trie that an automaton accepts, or another trie holds: asked once, remembered."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.recent import Recent
from cdec.core.sets.trie import SetArrays

Part = tuple[int, int, int]
"""Start state, fewest characters, most or -1."""
_MOST_KEPT = 8
"""Answers of automata that are remembered."""
_FEW = 64
"""How much smaller a trie is whose texts are looked up one by one in the other."""


class Edges(NamedTuple):
    """The edges of automata over bytes: S states, E edges."""

    state_edges: NDArray[np.int64]  # [S + 1]
    edge_low: NDArray[np.uint8]  # [E]
    edge_high: NDArray[np.uint8]  # [E]
    edge_target: NDArray[np.int32]  # [E]


class Automata(NamedTuple):
    """Automata whose states have labels, -1 where no text ends."""

    edges: Edges
    labels: NDArray[np.int32]  # [S]


class KnownRows:
    """What was asked of the rows of one trie of texts, whose tokens are bytes."""

    def __init__(self) -> None:
        self._accepted: Recent[NDArray[np.bool_]] = Recent(_MOST_KEPT)
        self._rows_in: WeakKeyDictionary[SetArrays, NDArray[np.int64]] = WeakKeyDictionary()

    def accepted(
        self, arrays: SetArrays, parts: Sequence[Part], automata: Automata
    ) -> NDArray[np.bool_]:
        """Say in bool[R] which texts one of some automata accepts. O(bytes) once."""
        named = hashlib.sha256(repr(tuple(parts)).encode())
        columns: list[NDArray[Any]] = [*automata.edges, automata.labels]
        for column in columns:
            named.update(column.data)
        return self._accepted.get(named.digest(), lambda: _accepted(arrays, parts, automata))

    def rows_in(self, arrays: SetArrays, other: SetArrays) -> NDArray[np.int64]:
        """Return the row of each text in another trie, int64[R], -1 for none. O(bytes) once."""
        found = self._rows_in.get(other)
        if found is None:
            few = arrays.n_rows * _FEW < other.n_rows
            found = _looked_up(arrays, other) if few else _merged(arrays, other)
            self._rows_in[other] = found
        return found


def _accepted(arrays: SetArrays, parts: Sequence[Part], automata: Automata) -> NDArray[np.bool_]:
    found = np.zeros(arrays.n_rows, np.bool_)
    texts = arrays.tokens, arrays.row_offsets
    for start, low, high in parts:
        library.mark_accepted(*automata, start, low, high, *texts, found)
    return found


def _looked_up(arrays: SetArrays, other: SetArrays) -> NDArray[np.int64]:
    rows, found = range(other.n_rows), np.full(arrays.n_rows, -1)
    for row in range(arrays.n_rows):
        text = arrays.row(row).tolist()
        at = bisect_left(rows, text, key=lambda place: other.row(place).tolist())
        if at < len(rows) and other.row(at).tolist() == text:
            found[row] = at
    return found


def _merged(arrays: SetArrays, other: SetArrays) -> NDArray[np.int64]:
    """Return rows by a merge of both, in which the equal row of the other trie comes second."""
    n, found = arrays.n_rows, np.full(arrays.n_rows, -1)
    tokens = np.concatenate((arrays.tokens, other.tokens))
    offsets = np.concatenate((arrays.row_offsets, other.row_offsets[1:] + len(arrays.tokens)))
    order = np.arange(n + other.n_rows)
    library.merge_runs(tokens, offsets, np.array([0, n, len(order)]), order)
    first = np.empty(len(order), np.bool_)
    library.mark_distinct(tokens, offsets, order, first)
    again = np.flatnonzero(~first)
    found[order[again - 1]] = order[again] - n
    return found
