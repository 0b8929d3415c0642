"""Text -> rows of a compiled set: a sorted array of 64-bit hashes, then an exact comparison.

The texts themselves are not stored, since a row decodes to its text. The hash is FNV-1a (Fowler,
Noll, Vo; 64 bits) followed by the finaliser of MurmurHash3 (Appleby), which spreads the bits of
short texts; equal hashes of different texts cost a comparison and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


def hash_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of every text ``data[offsets[i]:offsets[i + 1]]``, uint64[n]."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    library.hash_texts(data, offsets, hashes)
    return hashes


def build_text_index(
    hashes: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Sort the hashes of the rows' texts.

    Args:
        hashes: uint64[R], hash of the member text of row r.

    Returns:
        text_hash uint64[R] sorted, text_row int32[R] (rows of equal hashes ascending).
        Cost: one sort, O(R log R).
    """
    rows = np.argsort(hashes, kind="stable").astype(np.int32)
    return hashes[rows], rows


class TextIndex:
    """Exact lookup of member texts.

    Args:
        text_hash: uint64[R] sorted hashes.
        text_row: int32[R] row of each hash.
        tokens: int32[T] flat tokens of all rows.
        row_offsets: int64[R + 1].
        vocabulary: Spells the tokens.
        heads: What precedes the member in a row's bytes: prefix and leading space, one entry; or
            two where members were compiled both with and without the space.
        tail: What follows it.
        empty_head: What precedes the empty member, which takes no leading space; default: the
            first head.
    """

    def __init__(
        self,
        text_hash: NDArray[np.uint64],
        text_row: NDArray[np.int32],
        tokens: NDArray[np.int32],
        row_offsets: NDArray[np.int64],
        vocabulary: Vocabulary,
        *,
        heads: Sequence[bytes] = (b"",),
        tail: bytes = b"",
        empty_head: bytes | None = None,
    ) -> None:
        self._text_hash = text_hash
        self._text_row = text_row
        self._tokens = tokens
        self._row_offsets = row_offsets
        self._vocabulary = vocabulary
        self.heads = tuple(heads)
        self.tail = tail
        self.empty_head = self.heads[0] if empty_head is None else empty_head

    def lookup(self, text: bytes) -> NDArray[np.int64]:
        """Return the rows whose member text is exactly ``text``, ascending.

        Args:
            text: The member alone, without prefix, leading space and suffix.

        Returns:
            int64[k]; empty where no member has this text, more than one row where members were
            compiled with and without a leading space, or a token set spells a text twice.
            Cost: O(log R + length), some 20 microseconds.
        """
        data = np.frombuffer(text, np.uint8)
        wanted = hash_texts(data, np.array([0, len(text)], np.int64))
        first = int(np.searchsorted(self._text_hash, wanted[0], "left"))
        last = int(np.searchsorted(self._text_hash, wanted[0], "right"))
        candidates = self._text_row[first:last].tolist()
        heads = self.heads if text else (self.empty_head,)
        spelled = [np.frombuffer(head + text + self.tail, np.uint8) for head in heads]
        rows = [row for row in candidates if any(self._spells(row, full) for full in spelled)]
        return np.array(rows, np.int64)

    def _spells(self, row: int, full: NDArray[np.uint8]) -> bool:
        vocabulary = self._vocabulary
        if not 0 <= row < len(self._row_offsets) - 1:
            return False
        start, stop = int(self._row_offsets[row]), int(self._row_offsets[row + 1])
        flat, offsets = vocabulary.flat_bytes, vocabulary.byte_offsets
        return bool(library.row_spells(self._tokens, start, stop, flat, offsets, full))
