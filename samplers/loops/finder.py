"""The loops of a whole text, as its record warns of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cdec.core.native import library
from cdec.core.record_fields.text_warnings import LOOP_BYTES, loop
from cdec.samplers.loops import kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdec.core.tokens.vocabulary import Vocabulary


def find_loops(text: bytes) -> list[tuple[int, int, int]]:
    """Return the loops of a text: first byte, bytes, and period (0 for white space) of each.

    Cost: some 30 ns a byte; none for texts below ``LOOP_BYTES``.
    """
    if len(text) < LOOP_BYTES:
        return []
    loops = np.empty((len(text) // LOOP_BYTES, 3), np.int64)
    state = kernels.empty(1)
    data = np.frombuffer(text, np.uint8)
    count = library.loops_find(data, state, kernels.NEEDED, loops)
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
