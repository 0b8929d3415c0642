"""Edges of automata, as a program of a schema keeps them; lengths of their texts in characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.automaton import (
    MAX_STATES,
    Automaton,
    Ranges,
    everything,
    smallest,
    too_large,
)
from cdec.core.mask import offsets_of
from cdec.core.native import library

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
    begins = offsets_of([len(word) for word in words])
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


@lru_cache(maxsize=4096)
def shortest_text(automaton: Automaton) -> int:
    """Return the fewest characters of a text, -1 where there is none."""
    if automaton.accepts[0]:
        return 0
    if automaton.is_empty:
        return -1
    return int(_shortest(automaton)[1][0])


@lru_cache(maxsize=4096)
def longest_text(automaton: Automaton) -> int:
    """Return the most characters of a text, -1 where there is none, or no most."""
    return int(library.longest_text(automaton.ranges, automaton.accepts))


@lru_cache(maxsize=4096)
def count_texts(automaton: Automaton, low: int, high: int, limit: int) -> int:
    """Return how many texts have ``low`` to ``high`` characters (-1: any number of them).

    Args:
        limit: Some number above it is returned where there are more.
    """
    if automaton.is_empty:
        return 0
    longest, last = longest_text(automaton), high
    if longest < 0:
        if high < 0 or (
            all_lengths(automaton) and high - max(low, shortest_text(automaton)) >= limit
        ):
            return limit + 1
    elif not 0 <= high < longest:
        last = longest
    return int(library.texts_between(automaton.ranges, automaton.accepts, low, last, limit))


@lru_cache(maxsize=1024)
def all_lengths(automaton: Automaton) -> bool:
    """Say whether every state can go on to any number of characters from its shortest on.

    That is so just where every state between characters has a character that leads to a state that
    is no farther from a text's end.
    """
    (_, _, _, targets), shortest = _shortest(automaton)
    sources, is_within = _sources(automaton.ranges)
    goes_on = is_within.copy()
    goes_on[sources[shortest[targets] <= shortest[sources]]] = True
    return bool(goes_on.all())


def _sources(edges: Ranges) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the state of each edge, and bool[n] which states stand within a character."""
    offsets, lows, _, _ = edges
    counts = np.diff(offsets)
    is_within = counts > 0
    is_within[is_within] = lows[offsets[:-1][is_within]] & 0xC0 == 0x80
    return np.repeat(np.arange(len(counts)), counts), is_within


@lru_cache(maxsize=64)
def lengths_between(low: int, high: int) -> Automaton:
    """Return the texts with ``low`` to ``high`` characters (-1: any number), written out.

    Raises:
        LimitError: It has too many states.
    """
    whole, last = everything(), low if high < 0 else high
    n = len(whole)
    if n * (last + 1) > MAX_STATES:
        raise too_large()
    blocks = np.repeat(np.arange(last + 1), n)[:, None] * n
    rows = np.tile(whole.rows, (last + 1, 1))
    # Back at the start of a character, the next block counts one more.
    forward = np.where(rows == 0, n, 0)
    delta = np.where(rows >= 0, rows + blocks + forward, -1)
    if high < 0:
        delta[delta >= n * (last + 1)] = n * last
    else:
        delta[delta >= n * (last + 1)] = -1
    labels = np.zeros(len(delta), np.int32)
    labels[n * low :: n] = 1
    return smallest(whole.byte_class, delta.astype(np.int32), labels)


def texts_in_order(automaton: Automaton, low: int, high: int) -> Iterator[str]:
    """Yield the texts with ``low`` to ``high`` characters, shortest first, then by code points.

    Args:
        high: -1: any number; the texts may then never end.
    """
    edges = automaton.ranges
    longest = longest_text(automaton)
    last = longest if high < 0 or 0 <= longest < high else high
    length = max(low, shortest_text(automaton))
    if automaton.is_empty:
        return
    # can[r]: the states that reach a text's end after exactly r more characters.
    can = [_reach_exactly(edges, automaton.accepts, 0)]
    while last < 0 or length <= last:
        while len(can) <= length:
            can.append(_reach_exactly(edges, can[-1], 1))
        if can[length][0]:
            yield from _texts_of_length(edges, can, length)
        length += 1


def _reach_exactly(edges: Ranges, ends: NDArray[np.bool_], characters: int) -> NDArray[np.bool_]:
    """Return bool[n]: the states that reach one of ``ends`` after 0 or 1 more characters.

    What holds of a state within a character holds at the character's end.
    """
    sources, is_within = _sources(edges)
    targets = edges[3]
    found = ends.copy()
    if characters:
        found = np.zeros_like(ends)
        found[sources[ends[targets]]] = True
    at = is_within[sources]
    for _ in range(3):
        before = np.where(is_within, False, found)
        before[sources[at & found[targets]]] = True
        found = before
    return found


def _texts_of_length(edges: Any, can: list[Any], length: int) -> Iterator[str]:
    offsets, lows, highs, targets = edges
    todo: list[tuple[int, int, bytes]] = [(0, length, b"")]
    while todo:
        state, left, text = todo.pop()
        at, end = int(offsets[state]), int(offsets[state + 1])
        within = at < end and 0x80 <= lows[at] < 0xC0
        if not left and not within:
            yield text.decode()
            continue
        rest = left if within else left - 1
        following = []
        for edge in range(at, end):
            target = int(targets[edge])
            if can[rest][target]:
                following += [
                    (target, rest, text + bytes((byte,)))
                    for byte in range(int(lows[edge]), int(highs[edge]) + 1)
                ]
        todo.extend(reversed(following))


@lru_cache(maxsize=256)
def _shortest(automaton: Automaton) -> tuple[Ranges, NDArray[np.int32]]:
    edges, labels = ranges_of(automaton)
    return edges, shortest_texts(edges, labels)
