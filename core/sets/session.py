"""SetSession: a decoding run over a set on the CPU, by the compiled walks of its trie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import mask_words
from cdec.core.native import library
from cdec.core.session import Session
from cdec.core.session_arguments import integers, require_mask, require_rows
from cdec.core.sets.completions import SetCompletions
from cdec.core.sets.view import TAIL, TrieView

__all__ = ["SetSession"]


class SetSession(Session):
    """A walk over the trie; states are integers, so the session itself holds none.

    Safe to use from several threads.

    Args:
        view: What the walks read.
    """

    device = "cpu"

    def __init__(self, view: TrieView) -> None:
        self._view = view
        self._trie = library.hold_trie(view)
        self.words = mask_words(view.width)
        # A set of one row has a root that is a leaf: its tail begins at once.
        self._start = 0 if view.degree[0] > 0 else TAIL

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return np.full(n, self._start, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        """Follow one token a state, int64[n]; O(log degree) each.

        Args:
            states: int64[n].
            token_ids: int[n].

        Returns:
            int64[n]: DEAD where the token is not allowed, DONE after an end id and after the last
            token of a row that ends itself.
        """
        before = integers(states, 1, "states")
        tokens = integers(token_ids, 1, "token ids")
        require_rows(len(before), len(tokens), "token ids")
        after = np.empty(len(before), np.int64)
        library.trie_advance(self._trie, before, tokens, after)
        return after

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` with the exact masks of ``states``.

        Args:
            states: int64[n].
            mask: int32[n, ceil(width / 32)]; fastest if C-contiguous.
        """
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        if mask.flags.c_contiguous:
            library.trie_fill_mask(self._trie, at, mask.view(np.uint32))
            return
        packed = np.empty(shape, np.uint32)
        library.trie_fill_mask(self._trie, at, packed)
        mask[:] = packed.view(np.int32)

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""
        at = integers(states, 1, "states")
        tokens = integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        result = np.empty(tokens.shape, np.bool_)
        library.trie_check(self._trie, at, tokens, result)
        return result

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the allowed tokens: offsets int64[n + 1], ids int32[...] ascending by state."""
        at = integers(states, 1, "states")
        offsets = np.empty(len(at) + 1, np.int64)
        library.trie_count_allowed(self._trie, at, offsets)
        ids = np.empty(offsets[-1], np.int32)
        library.trie_fill_allowed(self._trie, at, offsets, ids)
        return offsets, ids

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        """Say where the text so far is a member (or DONE), bool[n]."""
        at = integers(states, 1, "states")
        result = np.empty(len(at), np.bool_)
        library.trie_complete(self._trie, at, result)
        return result

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next event where there is one: offsets int64[n + 1], ids int32.

        A state has one entry or none; a forced end event is given as the smallest end id.
        """
        at = integers(states, 1, "states")
        only = np.empty(len(at), np.int32)
        library.trie_forced(self._trie, at, only)
        is_forced = only >= 0
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(is_forced, out=offsets[1:])
        return offsets, only[is_forced]

    def completions(self, scores: NDArray[np.float64], ends: NDArray[np.float64]) -> SetCompletions:
        """Find the members that are best by scores of single tokens: one pass over the trie."""
        return SetCompletions(self._view, scores, ends)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return the states: places in the trie, equal in every session.

        Only conjunctions ask: in a set alone, forced tokens are evaluated ahead anyway.
        """
        return integers(states, 1, "states")
