"""How long the texts of an automaton are, in characters, and which they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

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
from cdec.compilers.regular.edges import ranges_of, shortest_texts
from cdec.core.native import library


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
