"""Decoding runs over a set on the CPU, by the compiled walks of its trie.

States, int64: ``0 <= s < TAIL`` is an inner node; from ``TAIL`` up it is a position in one row's
tail, ``(row + 1) << TAIL_SHIFT | depth``; then DEAD and DONE. Leaves are never states: a step onto
one gives the tail state, so equal prefixes have equal states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.mask import forced_rows, mask_words
from cdec.core.native import library
from cdec.core.session import Completions, HostSession, integers

if TYPE_CHECKING:
    from cdec.core.sets.rows import RowFilter
    from cdec.core.sets.trie import SetArrays
    from cdec.core.tokens.vocabulary import Vocabulary

TAIL_SHIFT = 32
TAIL = 1 << TAIL_SHIFT


class TrieView(NamedTuple):
    """All that a walk reads: the arrays of ``SetArrays``, the end ids and a row filter.

    ``cdec_trie`` of the compiled library, field by field.

    Attributes:
        dense_masks: uint32[D, words], read-only.
        end_ids: int64[E] sorted end-of-sequence ids.
        kept: uint64[ceil(R / 64)] bitmap of the rows a filter keeps; empty without a filter.
        kept_rank: int64[ceil(R / 64)] kept rows before each word of ``kept``.
        hot_masks: uint32[D, words] filtered dense masks, written on first use; empty without.
        hot_ready: uint8[D] whether ``hot_masks`` holds the node's mask.
        width: Logits width; ids at or above it are never allowed.
        ends_itself: Whether the last token of a row gives DONE.
    """

    token: NDArray[np.int32]
    link: NDArray[np.int64]
    degree: NDArray[np.int32]
    row: NDArray[np.int32]
    row_count: NDArray[np.int32]
    tokens: NDArray[np.int32]
    row_offsets: NDArray[np.int64]
    dense_nodes: NDArray[np.int32]
    dense_masks: NDArray[np.uint32]
    end_ids: NDArray[np.int64]
    kept: NDArray[np.uint64]
    kept_rank: NDArray[np.int64]
    hot_masks: NDArray[np.uint32]
    hot_ready: NDArray[np.uint8]
    width: int
    ends_itself: bool


def make_view(
    arrays: SetArrays,
    vocabulary: Vocabulary,
    row_filter: RowFilter | None,
    *,
    ends_itself: bool,
) -> TrieView:
    """Bind a set's arrays to a vocabulary and a row filter.

    Raises:
        UsageError: The logits are narrower than the set's dense masks by a word or more.
    """
    words = arrays.dense_words
    if words * 32 >= vocabulary.width + 32:
        raise UsageError(
            f"the set was compiled for about {words * 32} token ids, the vocabulary has "
            f"{vocabulary.width}",
            hint="Use the model the set was compiled for.",
        )
    dense = arrays.dense_masks.view(np.uint32).reshape(len(arrays.dense_nodes), words)
    hot = len(arrays.dense_nodes) if row_filter is not None else 0
    return TrieView(
        token=arrays.node_token,
        link=arrays.node_link,
        degree=arrays.node_degree,
        row=arrays.node_row,
        row_count=arrays.node_count,
        tokens=arrays.tokens,
        row_offsets=arrays.row_offsets,
        dense_nodes=arrays.dense_nodes,
        dense_masks=dense,
        end_ids=np.array(vocabulary.eos_token_ids, np.int64),
        kept=np.empty(0, np.uint64) if row_filter is None else row_filter.bitmap,
        kept_rank=np.empty(0, np.int64) if row_filter is None else row_filter.rank,
        # Untouched pages of np.empty cost nothing: only nodes that are visited take memory.
        hot_masks=np.empty((hot, words), np.uint32),
        hot_ready=np.zeros(hot, np.uint8),
        width=int(vocabulary.width),
        ends_itself=bool(ends_itself),
    )


class SetCompletions(Completions):
    """One pass over the trie, O(nodes + tokens) when it is made; then O(tokens that follow).

    Args:
        view: The set, with its filter.
        scores, ends: As in ``Session.completions``.
    """

    def __init__(
        self, view: TrieView, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> None:
        self._trie = library.hold_trie(view)
        self._scores, self._ends = scores, ends
        self._best = np.empty(len(view.token))
        self._choice = np.empty(len(view.token), np.int64)
        library.completions_fold(self._trie, scores, ends, self._best, self._choice)

    def totals(self, states: Any) -> NDArray[np.float64]:
        """Return the score of what follows best, float64[n]."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty(len(at))
        library.completions_totals(self._trie, self._scores, self._ends, self._best, at, found)
        return found

    def tokens(self, states: Any, most: int) -> NDArray[np.int64]:
        """Return the tokens that follow best, int64[n, most], -1 after the last."""
        at = np.ascontiguousarray(states, np.int64)
        found = np.empty((len(at), most), np.int64)
        library.completions_paths(self._trie, self._choice, at, found)
        return found


class SetSession(HostSession):
    """A walk over the trie; states are integers, so the session itself holds none.

    Safe to use from several threads. A token costs O(log degree).

    Args:
        view: What the walks read.
    """

    def __init__(self, view: TrieView) -> None:
        self._view = view
        self._trie = library.hold_trie(view)
        self.words = mask_words(view.width)
        # A set of one row has a root that is a leaf: its tail begins at once.
        self._start = 0 if view.degree[0] > 0 else TAIL

    def allowed(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        at = integers(states, 1, "states")
        offsets = np.empty(len(at) + 1, np.int64)
        library.trie_count_allowed(self._trie, at, offsets)
        ids = np.empty(offsets[-1], np.int32)
        library.trie_fill_allowed(self._trie, at, offsets, ids)
        return offsets, ids

    def forced(self, states: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the only possible next events; an end event is given as the smallest end id."""
        at = integers(states, 1, "states")
        only = np.empty(len(at), np.int32)
        library.trie_forced(self._trie, at, only)
        return forced_rows(only)

    def completions(self, scores: NDArray[np.float64], ends: NDArray[np.float64]) -> SetCompletions:
        """Find the members that are best by scores of single tokens: one pass over the trie."""
        return SetCompletions(self._view, scores, ends)

    def speculation_keys(self, states: Any) -> NDArray[np.int64]:
        """Return the states: places in the trie, equal in every session.

        Only conjunctions ask: in a set alone, forced tokens are evaluated ahead anyway.
        """
        return integers(states, 1, "states")

    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        library.trie_advance(self._trie, at, tokens, out)

    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        library.trie_fill_mask(self._trie, at, packed.view(np.uint32))

    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        library.trie_check(self._trie, at, tokens, out)

    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        library.trie_complete(self._trie, at, out)
