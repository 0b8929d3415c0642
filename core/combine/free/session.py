"""FreeSession: a decoding run through free text, to the end of its marker or of the text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.free.table import FreeTable
from cdec.core.mask import allowed_of_masks, forced_of_masks, mask_words
from cdec.core.session import DEAD, DONE, Session
from cdec.core.session_arguments import integers, require_mask, require_rows


class FreeSession(Session):
    """A decoding run over the states of a ``FreeTable``, which sessions share.

    A state is one of the table's and the number of tokens so far: after the last of them nothing is
    allowed, the end of the text neither, so that a text that is cut there was not ended.

    Args:
        table: What may follow where.
        first: The state to start in.
        most: Tokens that free text may have.
    """

    device = "cpu"

    def __init__(self, table: FreeTable, first: int, most: int) -> None:
        self._table = table
        self._first = first
        self._count = 2 * table.forced
        self._open = most * self._count
        self._ends = np.array(table.vocabulary.eos_token_ids, np.int64)
        self.words = mask_words(table.vocabulary.width)

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; DONE where a marker ends in it."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        pairs = zip(at.tolist(), tokens.tolist(), strict=True)
        return np.array([self._step(state, token) for state, token in pairs], np.int64)

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""
        at = integers(states, 1, "states")
        require_mask(mask, len(at), self.words)
        for row, state in enumerate(at.tolist()):
            mask[row] = self._table.mask(state % self._count) if self._is_open(state) else 0

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        result = np.zeros(tokens.shape, np.bool_)
        for row, state in enumerate(at.tolist()):
            if self._is_open(state):
                result[row] = self._table.allows(state % self._count, tokens[row])
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        return allowed_of_masks(self.fill_mask, integers(states, 1, "states"), self.words)

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text may end (or has), bool[n]."""
        at = integers(states, 1, "states")
        may_end = [self._is_open(s) and s % self._count < self._table.forced for s in at.tolist()]
        complete: NDArray[np.bool_] = np.array(may_end, np.bool_) | (at == DONE)
        return complete

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""
        at = integers(states, 1, "states")
        return forced_of_masks(self.fill_mask, at, self.words, self._ends)

    def _is_open(self, state: int) -> bool:
        """Say whether anything may follow at a state."""
        return 0 <= state < self._open

    def _step(self, state: int, token: int) -> int:
        if not self._is_open(state):
            return DEAD
        written, at = divmod(state, self._count)
        after = self._table.advance(at, token)
        return after if after < 0 else after + (written + 1) * self._count
