"""Compiled detection of loops: for every period, how many bytes equal those a period before.

A text loops where its last bytes are white space alone, ``LOOP_BYTES`` of them; or where they
repeat a piece of at most ``LONGEST_CYCLE`` bytes, ``LOOP_REPEATS`` times or more, over
``LOOP_BYTES`` bytes or more. The shortest period counts. Cost: O(256) a byte, 512 + 516 bytes a
text; nothing depends on where tokens begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
from cdec.core.record_fields.text_warnings import LONGEST_CYCLE, LOOP_BYTES, LOOP_REPEATS

NONE = -1
"""No loop. 0 is white space, any other number a period."""
_MASK = LONGEST_CYCLE - 1
_NEEDED = np.maximum(
    (LOOP_REPEATS - 1) * np.arange(LONGEST_CYCLE + 1), LOOP_BYTES - np.arange(LONGEST_CYCLE + 1)
).astype(np.uint16)
"""By period: how many bytes must equal those before; at 0 how many must be white space."""


class States(NamedTuple):
    """What is known of W growing texts.

    recent: uint8[W, 512], the last 256 bytes twice over: byte i at ``-i & 255`` and 256 further, so
    that those before a byte stand behind it. runs: uint16[W, 257], by period how many bytes equal
    those a period before; at 0 how many are white space. seen: int64[W] bytes so far. found:
    int64[W] the first loop: its period, 0 for white space, or NONE.
    """

    recent: NDArray[np.uint8]
    runs: NDArray[np.uint16]
    seen: NDArray[np.int64]
    found: NDArray[np.int64]


def empty(n: int) -> States:
    """Return the states of ``n`` texts without a byte."""
    return States(
        np.zeros((n, 2 * LONGEST_CYCLE), np.uint8),
        np.zeros((n, LONGEST_CYCLE + 1), np.uint16),
        np.zeros(n, np.int64),
        np.full(n, NONE, np.int64),
    )


@inner()
def is_white(byte):  # type: ignore[no-untyped-def]
    """Say whether a byte is white space of ASCII."""
    return byte == 32 or 9 <= byte <= 13


@inner(error_model="numpy")
def take_byte(recent, runs, seen, byte):  # type: ignore[no-untyped-def]
    """Take the next byte of a text; return the period of the loop that it makes, or NONE.

    recent, runs: one row of ``States``, written. seen: bytes before this one.
    """
    base = -seen & _MASK
    known = min(seen, LONGEST_CYCLE)
    hits = 0
    for period in range(1, known + 1):
        run = np.uint16(runs[period] + 1) if recent[base + period] == byte else np.uint16(0)
        runs[period] = run
        hits += run >= _NEEDED[period]
    runs[0] = np.uint16(runs[0] + 1) if is_white(byte) else np.uint16(0)
    recent[base] = byte
    recent[base + LONGEST_CYCLE] = byte
    if runs[0] >= _NEEDED[0]:
        return 0
    if hits:
        for period in range(1, known + 1):
            if runs[period] >= _NEEDED[period]:
                return period
    return NONE


@kernel(error_model="numpy")
def take_tokens(walks, tokens, flat, offsets, states):  # type: ignore[no-untyped-def]
    """Take one token a text; of a text that loops nothing more is taken.

    Args:
        walks: int64[n] texts. tokens: int64[n] ids; those past the table have no bytes.
        flat: uint8[...] bytes of all tokens; offsets: int64[V + 1] where each one's begin.
        states: ``States``, written.
    """
    recent, runs, seen, found = states
    for i in range(len(walks)):
        walk, token = walks[i], tokens[i]
        if found[walk] != NONE or not 0 <= token < len(offsets) - 1:
            continue
        for at in range(offsets[token], offsets[token + 1]):
            found[walk] = take_byte(recent[walk], runs[walk], seen[walk], flat[at])
            seen[walk] += 1
            if found[walk] != NONE:
                break


@kernel(error_model="numpy")
def find(text, recent, runs, loops):  # type: ignore[no-untyped-def]
    """Find the loops of a text: each as far as it goes, the next one sought behind it.

    Args:
        text: uint8[n].
        recent, runs: one row of ``States``, without a byte; written.
        loops: int64[m, 3], written: first byte, bytes, and period (0 for white space). Each has
            ``LOOP_BYTES`` bytes at least, which bounds m.

    Returns:
        How many there are.
    """
    count = 0
    seen = 0
    at = 0
    while at < len(text):
        period = take_byte(recent, runs, seen, text[at])
        at += 1
        seen += 1
        if period == NONE:
            continue
        first = at - period - runs[period]
        while at < len(text) and (
            is_white(text[at]) if period == 0 else text[at] == text[at - period]
        ):
            at += 1
        loops[count, 0] = first
        loops[count, 1] = at - first
        loops[count, 2] = period
        count += 1
        seen = 0
        runs[:] = 0
    return count
