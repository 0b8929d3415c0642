"""TrieView: the arrays and scalars that the compiled walks of a set read, and how it is made.

States, int64: ``0 <= s < TAIL`` is an inner node; from ``TAIL`` up it is a position in one row's
tail, ``(row + 1) << TAIL_SHIFT | depth``; then DEAD and DONE. Leaves are never states: a step onto
one gives the tail state, so equal prefixes have equal states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.core.sets.filter import RowFilter
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
