"""Compiled loops over automata: products, walks, and the words of finite ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core.kernels import inner, kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inner
def _pair(key: int, slots: Any, keys: Any, used: int) -> int:
    """Return the number of a pair of states, ``used`` if it is new; it is then entered."""
    mask = np.uint64(len(slots) - 1)
    value = np.uint64(key + 1) * _MULTIPLIER
    slot = (value ^ (value >> np.uint64(31))) & mask
    while slots[slot] >= 0:
        if keys[slots[slot]] == key:
            return int(slots[slot])
        slot = (slot + np.uint64(1)) & mask
    slots[slot], keys[used] = used, key
    return used


@kernel
def product(left: Any, right: Any, left_of: Any, right_of: Any, kept: Any, room: int) -> Any:
    """Follow two automata at once.

    Args:
        left, right: (int32[n, K] next state or -1, int32[n] label, 0: no text ends here) of each,
            from state 0.
        left_of, right_of: int32[C] column of each for every common class of bytes.
        kept: bool[4], for (in the left one) * 2 + (in the right one): the text is kept.
            ``kept[0]`` is false.
        room: Most states.

    Returns:
        (int32[m, C], int32[m] the sum of the labels where a text is kept, else 0); of more than
        ``room`` states none at all.
    """
    (rows, labels), (others, other_labels) = left, right
    n, m = len(rows), len(others)
    size = 16
    while size < 2 * room + 2:
        size *= 2
    slots, keys = np.full(size, -1, np.int32), np.empty(room + 1, np.int64)
    delta = np.full((room, len(left_of)), -1, np.int32)
    found = np.zeros(room, np.int32)
    used = _pair(0, slots, keys, 0) + 1
    state = 0
    while state < used:
        a, b = keys[state] // (m + 1), keys[state] % (m + 1)
        label, beside_label = labels[a] if a < n else 0, other_labels[b] if b < m else 0
        if kept[(2 if label else 0) + (1 if beside_label else 0)]:
            found[state] = label + beside_label
        for k in range(len(left_of)):
            to = rows[a, left_of[k]] if a < n else -1
            beside = others[b, right_of[k]] if b < m else -1
            if (to < 0 and (beside < 0 or not kept[1])) or (beside < 0 and not kept[2]):
                continue
            key = (to if to >= 0 else n) * (m + 1) + (beside if beside >= 0 else m)
            number = _pair(key, slots, keys, used)
            if number == used:
                used += 1
                if used > room:
                    return delta[:0], found[:0]
            delta[state, k] = number
        state += 1
    return delta[:used], found[:used]


@kernel
def walked(byte_class: Any, rows: Any, text: Any) -> int:
    """Return the state after ``text`` uint8, -1 where the automaton stops."""
    state = 0
    for byte in text:
        state = rows[state, byte_class[byte]]
        if state < 0:
            break
    return int(state)


@kernel
def accepted(byte_class: Any, rows: Any, accepts: Any, texts: Any, offsets: Any) -> Any:
    """Say in bool[n] which of n texts an automaton accepts.

    Args:
        byte_class, rows, accepts: The automaton.
        texts, offsets: uint8 and int64[n + 1], the texts one after another.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    for i in range(len(found)):
        state = 0
        for at in range(offsets[i], offsets[i + 1]):
            state = rows[state, byte_class[texts[at]]]
            if state < 0:
                break
        found[i] = state >= 0 and accepts[state]
    return found
