"""Loops in texts: white space that goes on, or a piece of up to 256 bytes again and again.

A text loops where its last bytes are white space alone, ``LOOP_BYTES`` of them; or where they
repeat a piece of at most ``LONGEST_CYCLE`` bytes, ``LOOP_REPEATS`` times or more, over
``LOOP_BYTES`` bytes or more. The shortest period counts. For every period it is counted how many
bytes equal those a period before. Cost: O(256) a byte, 512 + 516 bytes a text; nothing depends on
where tokens begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.text_warnings import LONGEST_CYCLE, LOOP_BYTES, LOOP_REPEATS, loop

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

NONE = -1
"""No loop. 0 is white space, any other number a period."""
NEEDED = np.maximum(
    (LOOP_REPEATS - 1) * np.arange(LONGEST_CYCLE + 1), LOOP_BYTES - np.arange(LONGEST_CYCLE + 1)
).astype(np.uint16)
"""By period: how many bytes must equal those before; at 0 how many must be white space."""


class States(NamedTuple):
    """Loop states of W growing texts.

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


def find_loops(text: bytes) -> list[tuple[int, int, int]]:
    """Return the loops of a text: first byte, bytes, and period (0 for white space) of each.

    Cost: some 30 ns a byte; none for texts below ``LOOP_BYTES``.
    """
    if len(text) < LOOP_BYTES:
        return []
    loops = np.empty((len(text) // LOOP_BYTES, 3), np.int64)
    state = empty(1)
    data = np.frombuffer(text, np.uint8)
    count = library.loops_find(data, state, NEEDED, loops)
    return [(first, length, period) for first, length, period in loops[:count].tolist()]


def loop_warnings(
    vocabulary: Vocabulary, token_ids: Sequence[int], text: bytes
) -> list[dict[str, object]]:
    """Return the warnings of a text that loops.

    Args:
        vocabulary: Of the tokens.
        token_ids: The text's. text: Their bytes.
    """
    found = find_loops(text)
    if not found:
        return []
    ends = np.cumsum(byte_lengths(vocabulary, np.asarray(token_ids, np.int64)))
    return [
        loop(int(np.searchsorted(ends, first, side="right")), first, length, period)
        for first, length, period in found
    ]


def byte_lengths(vocabulary: Vocabulary, token_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes each token has, int64[n]; none past the table."""
    lengths = np.zeros(len(token_ids), np.int64)
    known = token_ids < vocabulary.size
    lengths[known] = vocabulary.byte_lengths[token_ids[known]]
    return lengths


class LoopWatch:
    """W walks, of which it is known after every token whether they loop.

    Args:
        vocabulary: Of their tokens.
        n: W.
        states: What is known of them already; None for nothing.
    """

    def __init__(self, vocabulary: Vocabulary, n: int, states: States | None = None) -> None:
        self._vocabulary = vocabulary
        self._states = empty(n) if states is None else states

    def begin(self, walks: NDArray[np.int64], tokens: Sequence[int]) -> None:
        """Let ``walks`` (int64[n]) begin with tokens that stand before their first one."""
        first = walks[:1]
        for token in tokens if walks.size else ():
            self.append(first, np.array([token], np.int64))
        self.inherit(walks[1:], np.repeat(first, max(0, len(walks) - 1)))

    def append(self, walks: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Take one token (int64[n]) of each of ``walks`` (int64[n])."""
        table = self._vocabulary.flat_bytes, self._vocabulary.byte_offsets
        given = np.asarray(tokens, np.int64)
        library.loops_take(walks, given, *table, self._states, NEEDED)

    def is_looping(self, walks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which of ``walks`` (int64[n]) loop, bool[n]."""
        looping: NDArray[np.bool_] = self._states.found[walks] != NONE
        return looping

    def inherit(self, slots: NDArray[np.int64], ancestors: NDArray[np.int64]) -> None:
        """Put copies of the walks ``ancestors`` (int64[n]) in the places ``slots`` (int64[n])."""
        for column in self._states:
            column[slots] = column[ancestors]

    def take(self, rows: NDArray[np.int64]) -> LoopWatch:
        """Return some of the walks, in the given order, repetitions welcome."""
        recent, runs, seen, found = self._states
        states = States(recent[rows], runs[rows], seen[rows], found[rows])
        return LoopWatch(self._vocabulary, len(rows), states)
