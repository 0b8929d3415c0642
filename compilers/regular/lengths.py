"""How long the texts of an automaton are, in characters, and which they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from cdec.compilers.regular.automaton import MAX_STATES, Automaton, everything, smallest, too_large
from cdec.compilers.regular.edge_kernels import shortest_texts
from cdec.compilers.regular.length_kernels import (
    has_all_lengths,
    longest_texts,
    reach_exactly,
    texts_between,
)

_FAR = 2**31 - 2


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
    edges = automaton.ranges
    return int(longest_texts(edges, automaton.accepts))


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
    edges = automaton.ranges
    return int(texts_between(edges, automaton.accepts, low, last, limit))


@lru_cache(maxsize=1024)
def all_lengths(automaton: Automaton) -> bool:
    """Say whether every state can go on to any number of characters from its shortest on."""
    edges, shortest = _shortest(automaton)
    return bool(has_all_lengths(edges, shortest))


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
    can = [reach_exactly(edges, automaton.accepts, 0)]
    while last < 0 or length <= last:
        while len(can) <= length:
            can.append(reach_exactly(edges, can[-1], 1))
        if can[length][0]:
            yield from _texts_of_length(edges, can, length)
        length += 1


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
def _shortest(automaton: Automaton) -> tuple[Any, Any]:
    edges = automaton.ranges
    labels = np.where(automaton.accepts, 0, -1).astype(np.int32)
    return edges, shortest_texts(edges, labels)
