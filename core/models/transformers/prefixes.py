"""Beginnings that prompts share: a radix tree of their tokens, with slots of keys and values.

Zheng et al. 2024, "SGLang: Efficient Execution of Structured Language Model Programs", section 3
(RadixAttention). Deviation: prompts of one batch that begin alike are divided before any of them
is computed, so that what they share is a row of its own, computed once.
Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.transformers.kv_pool import EMPTY_SLOT, KeyValuePool

LEAST_TOKENS = 16
"""Tokens of the shortest beginning that is shared."""
_LEAST_SAVED = 128
"""Tokens that a row of its own must save the prompts of a batch: a pass costs as much as some."""

Rows = list[tuple[NDArray[np.int64], int]]
"""Tokens and root of prompts."""


@dataclass(eq=False, slots=True)
class Piece:
    """Tokens that stand between two places where prompts part, or where one ends.

    Attributes:
        tokens: int64[n], at least one.
        slots: int64[n] of their keys and values; empty until they are placed.
        above: What stands before; None at the beginning.
        end: Tokens of the whole beginning.
        users: Prompts and pieces that go on from here.
        used: When a prompt last went through.
        below: The pieces that go on from here, by first token.
    """

    tokens: NDArray[np.int64]
    slots: NDArray[np.int64]
    above: Piece | None
    end: int
    users: int = 0
    used: int = 0
    below: dict[int, Piece] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Slot of the last token."""
        return int(self.slots[-1])


class SharedPrefixes:
    """The pieces of a model's prompts; those that no prompt uses are kept within a budget.

    Args:
        pool: Of the slots.
        budget: Bytes of keys and values of all pieces together; what prompts use always stays.
    """

    def __init__(self, pool: KeyValuePool, budget: int) -> None:
        self._pool = pool
        self._budget = budget
        self._first: dict[int, Piece] = {}
        self._idle: dict[Piece, None] = {}
        self._held = 0
        self._clock = 0

    @property
    def is_kept(self) -> bool:
        """True where pieces outlive the prompts."""
        return self._budget > 0

    def find(self, tokens: NDArray[np.int64]) -> Piece | None:
        """Return what is held of the beginning of ``tokens``, int64[n]; None if it is too short.

        Where the tokens part from a piece within it, that is divided.
        """
        self._clock += 1
        at, above, below = 0, None, self._first
        while at < len(tokens) and (piece := below.get(int(tokens[at]))) is not None:
            same = common(piece.tokens, tokens[at:])
            if same < len(piece.tokens):
                if at + same < LEAST_TOKENS:
                    break
                piece = self._divided(piece, same)
            at, above, below = piece.end, piece, piece.below
            piece.used = self._clock
        return above

    def divide(self, above: Piece | None, rows: Rows) -> tuple[list[Piece], dict[int, Piece]]:
        """Make pieces of what the prompts of a batch share beyond ``above``.

        Args:
            above: What all of them begin with.
            rows: The prompts.

        Returns:
            New pieces without slots, each behind the one above it; the last piece of each root
            that has one.
        """
        made: list[Piece] = []
        last: dict[int, Piece] = {}
        start = 0 if above is None else above.end
        waiting = [(above, start, start, sorted(rows, key=lambda row: row[0].tolist()))]
        while waiting:
            above, start, stop, rows = waiting.pop()
            if len(rows) < 2:
                continue
            first = rows[0][0]
            stop += common(first[stop:], rows[-1][0][stop:])
            length = stop - start
            if length >= LEAST_TOKENS and length * (len(rows) - 1) >= _LEAST_SAVED:
                above = self._add(above, first[start:stop], first[:0])
                made.append(above)
                last.update((root, above) for _, root in rows)
                start = stop
            longer = [(tokens, root) for tokens, root in rows if len(tokens) > stop]
            for _, group in groupby(longer, key=lambda row: int(row[0][stop])):
                waiting.append((above, start, stop, list(group)))
        return made, last

    def place(self, piece: Piece, slots: NDArray[np.int64]) -> None:
        """Give slots int64[n] to a piece, whose keys and values are about to be computed."""
        piece.slots = slots
        self._held += len(slots)
        self._pool.chain(slots, EMPTY_SLOT if piece.above is None else piece.above.last)

    def keep(
        self, above: Piece | None, tokens: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> Piece | None:
        """Return a new piece of the slots that a prompt has; None where there is one already."""
        below = self._first if above is None else above.below
        if not len(tokens) or int(tokens[0]) in below:
            return None
        self._held += len(slots)
        return self._add(above, tokens, slots)

    def use(self, piece: Piece) -> None:
        """Note that a prompt goes on from a piece."""
        piece.users += 1
        self._idle.pop(piece, None)

    def leave(self, piece: Piece) -> None:
        """Note that a prompt does no more."""
        piece.users -= 1
        if not piece.users:
            self._idle[piece] = None
        if self._pool.slot_bytes:
            self.evict(self._held - self._budget // self._pool.slot_bytes)

    def discard(self, pieces: Sequence[Piece]) -> None:
        """Take out pieces that were not computed, and that no prompt uses."""
        for piece in reversed(pieces):
            if piece in self._idle or not piece.users:
                self._remove(piece)

    def evict(self, shortage: int) -> None:
        """Give back slots of pieces that nobody uses, those first that were used longest ago."""
        while shortage > 0 and self._idle:
            piece = min(self._idle, key=lambda idle: idle.used)
            shortage -= len(piece.slots)
            self._remove(piece)

    def _add(
        self, above: Piece | None, tokens: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> Piece:
        end = len(tokens) + (0 if above is None else above.end)
        piece = Piece(tokens, slots, above, end, used=self._clock)
        if above is not None:
            self.use(above)
        (self._first if above is None else above.below)[int(tokens[0])] = piece
        return piece

    def _remove(self, piece: Piece) -> None:
        self._idle.pop(piece, None)
        self._pool.release(piece.slots)
        self._held -= len(piece.slots)
        above = piece.above
        del (self._first if above is None else above.below)[int(piece.tokens[0])]
        if above is not None:
            above.users -= 1
            if not above.users:
                self._idle[above] = None

    def _divided(self, piece: Piece, at: int) -> Piece:
        """Divide a piece into its first ``at`` tokens, which are returned, and the others."""
        above, end = piece.above, piece.end - len(piece.tokens) + at
        head = Piece(piece.tokens[:at], piece.slots[:at], above, end, users=1, used=piece.used)
        (self._first if above is None else above.below)[int(piece.tokens[0])] = head
        piece.tokens, piece.slots, piece.above = piece.tokens[at:], piece.slots[at:], head
        head.below[int(piece.tokens[0])] = piece
        return head


def common(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """Return how many tokens two arrays begin with alike."""
    length = min(len(left), len(right))
    parted = np.flatnonzero(left[:length] != right[:length])
    return int(parted[0]) if len(parted) else length
