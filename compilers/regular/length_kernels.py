"""Compiled loops over the lengths of an automaton's texts, in characters."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel


@kernel
def longest_texts(edges: Any, accepts: Any) -> int:
    """Return the most characters of a text, -1 where there is no most, or no text.

    Args:
        edges: (offsets, lows, highs, targets) of a trimmed automaton. accepts: bool[n].
    """
    offsets, lows, _, targets = edges
    n = len(accepts)
    waiting, todo, count = np.zeros(n, np.int64), np.empty(n, np.int32), 0
    for target in targets:
        waiting[target] += 1
    order = 0
    longest = np.zeros(n, np.int64)
    if n == 1 and not accepts[0]:
        return -1
    if waiting[0] == 0:
        todo[0], count = 0, 1
    best = 0
    while count:
        count -= 1
        state = todo[count]
        order += 1
        if accepts[state]:
            best = max(best, longest[state])
        for at in range(offsets[state], offsets[state + 1]):
            to = targets[at]
            within = lows[at] >= 0x80 and lows[at] < 0xC0
            longest[to] = max(longest[to], longest[state] + (0 if within else 1))
            waiting[to] -= 1
            if waiting[to] == 0:
                todo[count] = to
                count += 1
    return int(best) if order == n else -1


@kernel
def has_all_lengths(edges: Any, shortest: Any) -> bool:
    """Say whether from every state all lengths from its shortest on are possible.

    That is so just where every state between characters has a character that leads to a state that
    is no farther from a text's end.
    """
    offsets, lows, _, targets = edges
    for state in range(len(shortest)):
        at, end = offsets[state], offsets[state + 1]
        if at < end and lows[at] >= 0x80 and lows[at] < 0xC0:
            continue
        found = False
        while at < end and not found:
            found = shortest[targets[at]] <= shortest[state]
            at += 1
        if not found:
            return False
    return True


@kernel
def reach_exactly(edges: Any, ends: Any, characters: int) -> Any:
    """Return bool[n]: the states that reach one of ``ends`` after 0 or 1 more characters.

    What holds of a state within a character holds at the character's end.

    Args:
        edges: As above. ends: bool[n]. characters: 0 or 1.
    """
    offsets, lows, _, targets = edges
    n = len(ends)
    found, inside = ends.copy(), np.zeros(n, np.bool_)
    for state in range(n):
        at = offsets[state]
        inside[state] = at < offsets[state + 1] and lows[at] >= 0x80 and lows[at] < 0xC0
        if characters and not inside[state]:
            found[state] = False
            for edge in range(at, offsets[state + 1]):
                found[state] |= ends[targets[edge]]
    for _ in range(3):
        for state in range(n):
            if inside[state]:
                found[state] = False
                for edge in range(offsets[state], offsets[state + 1]):
                    found[state] |= found[targets[edge]]
    return found


@kernel
def texts_between(edges: Any, accepts: Any, low: int, high: int, limit: int) -> int:
    """Count the texts with ``low`` to ``high`` characters; past ``limit`` it stops.

    Args:
        edges: (offsets, lows, highs, targets) of a trimmed automaton. accepts: bool[n].
    """
    n = len(accepts)
    ways, found, length = np.zeros(n), 0.0, 0
    ways[0] = 1.0
    while True:
        if length >= low:
            for state in range(n):
                if accepts[state]:
                    found += ways[state]
        if length == high or found > limit:
            break
        ways, length = _one_more(edges, ways), length + 1
    return int(min(found, limit + 1.0))


@inner
def _one_more(edges: Any, ways: Any) -> Any:
    """Return in how many ways one more character leads to each state, at most 1e300."""
    offsets, lows, highs, targets = edges
    n = len(ways)
    found, inside = np.zeros(n), ways
    for _ in range(4):
        following = np.zeros(n)
        for state in range(n):
            if inside[state] > 0.0:
                for at in range(offsets[state], offsets[state + 1]):
                    to, width = targets[at], highs[at] - lows[at] + 1.0
                    first = offsets[to]
                    more = min(inside[state] * width, 1e300)
                    if first < offsets[to + 1] and lows[first] >= 0x80 and lows[first] < 0xC0:
                        following[to] = min(following[to] + more, 1e300)
                    else:
                        found[to] = min(found[to] + more, 1e300)
        inside = following
    return found
