"""Edges: automata as the columns in which a program of a schema keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.automaton import Automaton, Ranges, everything
from cdec.core.native import library


class Edges(NamedTuple):
    """A deterministic automaton over bytes, S states and E edges; state 0 is the start.

    Every state but perhaps the start reaches an accepting one.

    Attributes:
        state_edges: int64[S + 1], edges of each state.
        edge_low, edge_high: uint8[E], inclusive, ascending and disjoint within a state.
        edge_target: int32[E].
        state_label: int32[S], -1: no text ends here.
        state_shortest: int32[S], fewest further characters to a text's end; a character that was
            begun is not one of them.
        state_free: uint8[S], 1: at the end of a character, and whatever well-formed text follows
            can still be accepted; 2: and it is, with this label, after any character.
        state_low, state_high: int32[S], single labels reached are within [low, high).
        state_open: uint8[S], 1: other labels are reached.
    """

    state_edges: NDArray[np.int64]
    edge_low: NDArray[np.uint8]
    edge_high: NDArray[np.uint8]
    edge_target: NDArray[np.int32]
    state_label: NDArray[np.int32]
    state_shortest: NDArray[np.int32]
    state_free: NDArray[np.uint8]
    state_low: NDArray[np.int32]
    state_high: NDArray[np.int32]
    state_open: NDArray[np.uint8]


def ranges_of(automaton: Automaton) -> tuple[Ranges, NDArray[np.int32]]:
    """Return ((offsets, lows, highs, targets), labels): 0 where a text ends, -1 elsewhere."""
    labels = np.where(automaton.accepts, 0, -1).astype(np.int32)
    return automaton.ranges, labels


@cache
def _universe() -> Ranges:
    return ranges_of(everything())[0]


def described(ranges: Ranges, labels: NDArray[np.int32], singles: int | None = None) -> Edges:
    """Say what is reached from each state of a trimmed automaton.

    Args:
        ranges: (offsets, lows, highs, targets).
        labels: int32[S].
        singles: Labels below are single ones; None: of one kind of text.
    """
    n = len(labels)
    low, high, is_open = np.zeros(n, np.int32), np.zeros(n, np.int32), np.ones(n, np.uint8)
    if singles is not None:
        library.reached_labels(ranges, labels, singles, low, high, is_open)
    free = np.empty(n, np.uint8)
    library.free_states(ranges, labels, _universe(), free)
    return Edges(*ranges, labels, shortest_texts(ranges, labels), free, low, high, is_open)


def shortest_texts(ranges: Ranges, labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return int32[S]: the fewest characters from each state to one with a label."""
    found = np.empty(len(labels), np.int32)
    library.shortest_texts(ranges, labels, found)
    return found


def automaton_edges(automaton: Automaton) -> Edges:
    """Return the edges of an automaton, label 0 where a text ends."""
    return described(*ranges_of(automaton))


def with_words(
    words: Sequence[bytes],
    word_labels: NDArray[np.int32],
    ranges: Ranges | None = None,
    labels: NDArray[np.int32] | None = None,
    singles: int | None = None,
) -> Edges:
    """Return an automaton in which some words have labels of their own.

    Args:
        words: Distinct, in the order of their bytes.
        word_labels: int32[w]; -1 takes a word out.
        ranges, labels: Automaton of all other texts; None: there are none.
        singles: As for ``described``.

    Returns:
        Its edges, trimmed; the words' trie is not made smaller. Cost: bytes of the words.
    """
    begins = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=begins[1:])
    texts = np.frombuffer(b"".join(words), np.uint8)
    if ranges is None or labels is None:
        ranges, labels = _no_texts(), np.empty(0, np.int32)
    graph = library.words_beside(texts, begins, word_labels.astype(np.int32), ranges, labels)
    sizes = np.empty(2, np.int64)
    library.graph_sizes(graph, sizes)
    states, count = sizes.tolist()
    laid = (
        np.empty(states + 1, np.int64),
        *(np.empty(count, np.uint8), np.empty(count, np.uint8), np.empty(count, np.int32)),
    )
    found = np.empty(states, np.int32)
    library.graph_read(graph, *laid, found)
    return described(laid, found, singles)


def _no_texts() -> Ranges:
    empty = np.empty(0, np.uint8)
    return np.zeros(1, np.int64), empty, empty.copy(), np.empty(0, np.int32)


def pooled(parts: Sequence[Edges]) -> tuple[Edges, list[int]]:
    """Join automata side by side.

    Returns:
        The edges of all, and the start state of each.
    """
    starts = np.cumsum([0, *(len(part.state_label) for part in parts)])
    edges = np.cumsum([0, *(len(part.edge_low) for part in parts)])
    columns = {
        name: np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])
        for name, dtype in _DTYPES.items()
    }
    columns["state_edges"] = np.concatenate(
        [
            np.zeros(1, np.int64),
            *(part.state_edges[1:] + at for part, at in zip(parts, edges, strict=False)),
        ]
    )
    columns["edge_target"] = np.concatenate(
        [
            np.empty(0, np.int32),
            *(part.edge_target + at for part, at in zip(parts, starts, strict=False)),
        ]
    ).astype(np.int32)
    return Edges(**columns), starts[:-1].tolist()


_DTYPES: dict[str, Any] = {
    "edge_low": np.uint8,
    "edge_high": np.uint8,
    "state_label": np.int32,
    "state_shortest": np.int32,
    "state_free": np.uint8,
    "state_low": np.int32,
    "state_high": np.int32,
    "state_open": np.uint8,
}
