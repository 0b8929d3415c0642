"""Tries of texts over their bytes, and walks of them: sets whose tokens are the 256 bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.core.sets.session import SetSession, make_view
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.core.tokens.token_trie import sorted_texts
from cdec.core.tokens.vocabulary import BYTES, Vocabulary


def byte_session(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    vocabulary: Vocabulary,
    *,
    ends_itself: bool,
) -> SetSession:
    """Return a run over the bytes of rows of tokens; an end is the token 256.

    Args:
        tokens, offsets: As of ``Listed.member_rows``.
        vocabulary: Of these tokens.
        ends_itself: As in ``SetConstraint``.

    Returns:
        The run. Cost: a sort, some 2 seconds for a million rows.
    """
    arrays, *_ = byte_trie(*bytes_of_rows(tokens, offsets, vocabulary))
    return SetSession(make_view(arrays, BYTES, None, ends_itself=ends_itself))


def bytes_of_rows(
    tokens: NDArray[np.int32], offsets: NDArray[np.int64], vocabulary: Vocabulary
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of rows of tokens, and where each row's begin, int64[R + 1]."""
    flat, byte_offsets = vocabulary.flat_bytes, vocabulary.byte_offsets
    bounds = np.empty(len(offsets), np.int64)
    verdicts = np.empty(len(offsets) - 1, np.int8)
    size = library.spelled_offsets(tokens, offsets, byte_offsets, verdicts, bounds)
    data = np.empty(size, np.uint8)
    library.spell_rows(tokens, offsets, flat, byte_offsets, bounds, data)
    return data, bounds


def byte_trie(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[SetArrays, NDArray[np.int64], NDArray[np.int64]]:
    """Return the trie of texts, their tokens being bytes, and which texts its rows are.

    Args:
        data: uint8, all texts one after another. offsets: int64[S + 1] where each lies.

    Returns:
        The trie of R distinct texts; int64[S] texts by their bytes, equal ones together; and
        int64[R + 1] where those of each row stand. Cost: a sort.
    """
    filled = sorted_texts(data, offsets[:-1], np.diff(offsets).astype(np.int32))
    empty = np.flatnonzero(np.diff(offsets) == 0)
    order: NDArray[np.int64] = np.concatenate((empty, filled)).astype(np.int64)
    picked = np.empty(len(order) + 1, np.int64)
    library.gather_offsets(offsets, order, picked)
    tokens = np.empty(int(picked[-1]), np.int32)
    library.gather_i32(data.astype(np.int32), offsets, order, tokens)
    first = np.empty(len(order), np.bool_)
    every = np.arange(len(order), dtype=np.int64)
    library.mark_distinct(tokens, picked, every, first)
    chosen = np.flatnonzero(first)
    starts = np.empty(len(chosen) + 1, np.int64)
    library.gather_offsets(picked, chosen, starts)
    distinct = np.empty(int(starts[-1]), np.int32)
    library.gather_i32(tokens, picked, chosen, distinct)
    arrays = build_trie(distinct, starts, BYTES.size)
    return arrays, order, np.append(chosen, np.int64(len(order)))
