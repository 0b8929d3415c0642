"""Compiled loops that lay automata out as edges, and say what can be reached from each state."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel

_MIXED = -2
_UNKNOWN = -3
_FAR = np.int32(2**31 - 2)


@kernel
def byte_ranges(byte_class: Any, rows: Any) -> Any:
    """Return (offsets int64[n + 1], lows, highs uint8, targets int32): edges by ranges of bytes."""
    n = len(rows)
    offsets = np.zeros(n + 1, np.int64)
    lows, highs = np.empty(0, np.uint8), np.empty(0, np.uint8)
    targets = np.empty(0, np.int32)
    for fill in range(2):
        count = 0
        for state in range(n):
            last = -1
            for byte in range(256):
                target = rows[state, byte_class[byte]]
                if target >= 0 and target != last:
                    if fill:
                        lows[count], targets[count] = byte, target
                    count += 1
                if fill and target >= 0:
                    highs[count - 1] = byte
                last = target
            offsets[state + 1] = count
        if not fill:
            lows, highs = np.empty(count, np.uint8), np.empty(count, np.uint8)
            targets = np.empty(count, np.int32)
    return offsets, lows, highs, targets


@kernel
def shortest_texts(edges: Any, labels: Any) -> Any:
    """Return int32[n]: the fewest characters to an accepting state.

    A character counts with its first byte: within one, it has been read already.
    """
    offsets, lows, _, targets = edges
    found = np.where(labels >= 0, np.int32(0), _FAR)
    changed = True
    while changed:
        changed = False
        for state in range(len(labels) - 1, -1, -1):
            for at in range(offsets[state], offsets[state + 1]):
                within = lows[at] >= 0x80 and lows[at] < 0xC0
                length = found[targets[at]] + (0 if within else 1)
                if length < found[state]:
                    found[state] = length
                    changed = True
    return found


@inner
def _is_within(edges: Any, state: int) -> bool:
    """Say whether a state stands within a character."""
    offsets, lows, _, _ = edges
    at = offsets[state]
    return bool(at < offsets[state + 1] and 0x80 <= lows[at] < 0xC0)


@inner
def _covers(edges: Any, state: int, universe: Any, at_least: int, bad: Any) -> bool:
    """Say whether every byte of state ``at_least`` of UTF-8 leads on from ``state``."""
    offsets, lows, highs, targets = edges
    begins, firsts, lasts, follows = universe
    at, end = offsets[state], offsets[state + 1]
    for other in range(begins[at_least], begins[at_least + 1]):
        byte, last = np.int64(firsts[other]), np.int64(lasts[other])
        while at < end and highs[at] < byte:
            at += 1
        here = at
        while byte <= last:
            if here >= end or lows[here] > byte or bad[targets[here], follows[other]]:
                return False
            byte = np.int64(highs[here]) + 1
            here += 1
    return True


@kernel
def free_states(edges: Any, labels: Any, universe: Any) -> Any:
    """Return uint8[n]: 1 where any text can still be accepted, 2 where any text is, always.

    Args:
        edges: (offsets, lows, highs, targets) of a trimmed automaton. labels: int32[n], -1: none.
        universe: Edges of all of UTF-8.
    """
    offsets, _, _, targets = edges
    n, kinds = len(labels), len(universe[0]) - 1
    bad = np.zeros((n, kinds), np.bool_)
    changed = True
    while changed:
        changed = False
        for state in range(n - 1, -1, -1):
            first, last = (1, kinds) if _is_within(edges, state) else (0, 1)
            for kind in range(first, last):
                if not bad[state, kind] and not _covers(edges, state, universe, kind, bad):
                    bad[state, kind] = True
                    changed = True
    ahead = labels.copy()
    for state in range(n):
        if _is_within(edges, state):
            ahead[state] = _UNKNOWN
    for _ in range(3):
        for state in range(n):
            if _is_within(edges, state):
                for at in range(offsets[state], offsets[state + 1]):
                    label = ahead[targets[at]]
                    if ahead[state] == _UNKNOWN:
                        ahead[state] = label
                    elif label != _UNKNOWN and label != ahead[state]:
                        ahead[state] = _MIXED
    free, absorbs = np.zeros(n, np.uint8), np.zeros(n, np.bool_)
    for state in range(n):
        inside = _is_within(edges, state)
        free[state] = 0 if inside or bad[state, 0] else 1
        absorbs[state] = ahead[state] >= 0 and (inside or free[state] == 1)
    changed = True
    while changed:
        changed = False
        for state in range(n - 1, -1, -1):
            for at in range(offsets[state], offsets[state + 1]):
                target = targets[at]
                if absorbs[state] and (not absorbs[target] or ahead[target] != ahead[state]):
                    absorbs[state] = False
                    changed = True
    for state in range(n):
        if free[state] == 1 and absorbs[state]:
            free[state] = 2
    return free


@kernel
def reached_labels(edges: Any, labels: Any, singles: int) -> Any:
    """Return (low, high int32[n], is_open uint8[n]): which labels are reached from each state.

    Args:
        edges: As above. labels: int32[n], -1: none.
        singles: Labels below are counted in [low, high), (0, 0) where there is none; the others
            make ``is_open`` 1.
    """
    offsets, _, _, targets = edges
    n = len(labels)
    low, high = np.full(n, _FAR, np.int32), np.zeros(n, np.int32)
    is_open = np.zeros(n, np.uint8)
    for state in range(n):
        if labels[state] >= singles:
            is_open[state] = 1
        elif labels[state] >= 0:
            low[state], high[state] = labels[state], labels[state] + 1
    changed = True
    while changed:
        changed = False
        for state in range(n - 1, -1, -1):
            for at in range(offsets[state], offsets[state + 1]):
                to = targets[at]
                if low[to] < low[state]:
                    low[state] = low[to]
                    changed = True
                if high[to] > high[state]:
                    high[state] = high[to]
                    changed = True
                if is_open[to] > is_open[state]:
                    is_open[state] = 1
                    changed = True
    for state in range(n):
        if high[state] == 0:
            low[state] = 0
    return low, high, is_open


@kernel
def trimmed(edges: Any, labels: Any) -> Any:
    """Return (offsets, lows, highs, targets, labels) of the states that are on the way of a text.

    State 0 stays. States keep their order.
    """
    offsets, lows, highs, targets = edges
    n = len(labels)
    alive = labels >= 0
    changed = True
    while changed:
        changed = False
        for state in range(n - 1, -1, -1):
            at = offsets[state]
            while not alive[state] and at < offsets[state + 1]:
                if alive[targets[at]]:
                    alive[state] = changed = True
                at += 1
    seen, todo, count = np.zeros(n, np.bool_), np.empty(n, np.int32), 1
    seen[0], todo[0] = True, 0
    while count:
        count -= 1
        state = todo[count]
        for at in range(offsets[state], offsets[state + 1]):
            to = targets[at]
            if alive[to] and not seen[to]:
                seen[to], todo[count] = True, to
                count += 1
    numbers, kept = np.full(n, -1, np.int32), 0
    for state in range(n):
        if seen[state]:
            numbers[state] = kept
            kept += 1
    out_offsets, out_labels = np.zeros(kept + 1, np.int64), np.empty(kept, np.int32)
    out_low, out_high = np.empty(len(lows), np.uint8), np.empty(len(lows), np.uint8)
    out_target, count = np.empty(len(lows), np.int32), 0
    for state in range(n):
        if numbers[state] < 0:
            continue
        for at in range(offsets[state], offsets[state + 1]):
            if numbers[targets[at]] >= 0:
                out_low[count], out_high[count] = lows[at], highs[at]
                out_target[count] = numbers[targets[at]]
                count += 1
        out_offsets[numbers[state] + 1] = count
        out_labels[numbers[state]] = labels[state]
    return out_offsets, out_low[:count], out_high[:count], out_target[:count], out_labels
