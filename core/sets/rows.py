"""Rows of a set that may be emitted: a bitmap with rank, and their texts and entity ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError, FitError, UsageError
from cdec.core.mask import offsets_of
from cdec.core.sets.members import SetMembers
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.core.tokens.vocabulary import Vocabulary

_WORD = 64


@dataclass(frozen=True, eq=False)
class RowFilter:
    """Kept rows of a set: "does this subtree keep a row" costs two counts of bits.

    Attributes:
        bitmap: uint64[ceil(R / 64)], bit ``r % 64`` of word ``r // 64`` is row r.
        rank: int64[ceil(R / 64)] kept rows before each word.
        n_rows: R.
        n_kept: Rows kept, at least one.
    """

    bitmap: NDArray[np.uint64]
    rank: NDArray[np.int64]
    n_rows: int
    n_kept: int

    @classmethod
    def from_kept(cls, kept: NDArray[np.bool_]) -> RowFilter:
        """Pack booleans ``bool[R]``. O(R).

        Raises:
            EmptySetError: No row is kept.
        """
        packed = np.zeros((len(kept) + _WORD - 1) // _WORD * 8, np.uint8)
        bits = np.packbits(kept, bitorder="little")
        packed[: len(bits)] = bits
        bitmap = packed.view("<u8").astype(np.uint64, copy=False)
        ones = np.bitwise_count(bitmap).astype(np.int64)
        total = int(ones.sum())
        if total == 0:
            raise EmptySetError(
                f"the row filter keeps none of {len(kept)} rows",
                hint="Deny fewer members, or drop the filter.",
            )
        return cls(bitmap, np.cumsum(ones) - ones, len(kept), total)

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """The kept rows as bool[R]."""
        little = self.bitmap.astype("<u8", copy=False).view(np.uint8)
        return np.unpackbits(little, count=self.n_rows, bitorder="little").astype(np.bool_)

    def keeps(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each row whether it is kept, bool[n]."""
        shifts = (rows % _WORD).astype(np.uint64)
        return (self.bitmap[rows // _WORD] >> shifts & np.uint64(1)).astype(np.bool_)

    def below(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the kept rows below each row number 0..R, int64[n]."""
        words = rows // _WORD
        inside = words < len(self.bitmap)
        at = np.where(inside, words, 0)
        low = (np.uint64(1) << (rows % _WORD).astype(np.uint64)) - np.uint64(1)
        partial = self.rank[at] + np.bitwise_count(self.bitmap[at] & low)
        return np.where(inside, partial, self.n_kept)


def intersect(row_filter: RowFilter | None, kept: NDArray[np.bool_], n_rows: int) -> RowFilter:
    """Return the filter that keeps what both keep.

    Raises:
        UsageError: ``kept`` is not bool[R].
        EmptySetError: Nothing is left.
    """
    kept = np.asarray(kept)
    if kept.dtype != np.bool_ or kept.shape != (n_rows,):
        raise UsageError(
            f"a row filter must be bool[{n_rows}], one entry a row, not "
            f"{kept.dtype}{list(kept.shape)}"
        )
    return RowFilter.from_kept(kept if row_filter is None else kept & row_filter.kept)


@dataclass(frozen=True, eq=False)
class SetRows:
    """Rows of a compiled set, or some of them, by their numbers in ``arrays``.

    Attributes:
        arrays: R rows and their trie.
        vocabulary: Of the model that draws.
        members: Texts and entity ids of the compiled rows.
        compiled: int64[R] ascending, the compiled set's row of each row; None: the same.
        row_filter: Rows that are kept; None keeps all.
    """

    arrays: SetArrays
    vocabulary: Vocabulary
    members: SetMembers
    compiled: NDArray[np.int64] | None = None
    row_filter: RowFilter | None = None

    @property
    def n_kept(self) -> int:
        """Rows that may be emitted."""
        return self.arrays.n_rows if self.row_filter is None else self.row_filter.n_kept

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest row that is kept. O(R) once."""
        lengths = np.diff(self.arrays.row_offsets)
        return int((lengths if self.row_filter is None else lengths[self.row_filter.kept]).max())

    def within(self, most: int) -> SetRows:
        """Leave out the rows of more than ``most`` tokens; the trie is shared. O(R).

        Raises:
            FitError: Every row has more.
        """
        lengths = np.diff(self.arrays.row_offsets)
        kept = lengths if self.row_filter is None else lengths[self.row_filter.kept]
        if kept.min() > most:
            raise FitError.of("set", most, int(kept.min()))
        return self if kept.max() <= most else self.keep(lengths <= most)

    def spelled(self, row: int) -> bytes:
        """Return the bytes of a row's tokens."""
        return self.vocabulary.decode(self.arrays.row(row))

    def first_kept(self) -> int:
        """Return the first row that is kept."""
        return 0 if self.row_filter is None else int(self.row_filter.kept.argmax())

    def flat(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the tokens of the kept rows, int32[T], and their offsets, int64[k + 1]."""
        tokens, offsets = self.arrays.tokens, self.arrays.row_offsets
        if self.row_filter is None:
            return tokens, offsets
        kept, lengths = self.row_filter.kept, np.diff(offsets)
        left = np.append(0, np.cumsum(lengths[kept]))
        return tokens[np.repeat(kept, lengths)], left.astype(np.int64)

    def of_text(self, text: bytes) -> NDArray[np.int64]:
        """Return the kept rows of a member text, ascending int64[k]; empty if it is no member."""
        return self._own(self.members.index.lookup(text))

    def entity_ids(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the distinct entity ids of rows int64[k]; line numbers without ids."""
        return self.members.entity_ids(rows if self.compiled is None else self.compiled[rows])

    def keep(self, kept: NDArray[np.bool_]) -> SetRows:
        """Leave rows out, ``kept`` being bool[R]; the trie is shared. O(R).

        Raises:
            EmptySetError: Nothing is left.
            UsageError: Another shape or type.
        """
        return replace(self, row_filter=intersect(self.row_filter, kept, self.arrays.n_rows))

    def without(self, texts: Iterable[bytes]) -> tuple[SetRows, int]:
        """Leave the members of texts out; return the rows and how many texts are no members.

        Raises:
            EmptySetError: Nothing is left.
        """
        kept = np.ones(self.arrays.n_rows, np.bool_)
        unknown = 0
        for text in texts:
            rows = self._own(self.members.rows_of_text(text))
            kept[rows] = False
            unknown += not len(rows)
        return self.keep(kept), unknown

    def candidates(self, texts_or_ids: Sequence[str]) -> SetRows:
        """Return these members, by text or entity id, on a small trie of their own.

        Raises:
            FieldError: No candidates, or some that are no members.
        """
        rows = self.members.candidate_rows(texts_or_ids, self._own)
        parts = [self.arrays.row(row) for row in rows.tolist()]
        offsets = offsets_of([len(part) for part in parts])
        trie = build_trie(np.concatenate(parts), offsets, self.vocabulary.size)
        compiled = rows if self.compiled is None else self.compiled[rows]
        return SetRows(trie, self.vocabulary, self.members, compiled)

    def _own(self, compiled: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the kept rows among rows of the compiled set."""
        rows = compiled
        if self.compiled is not None:
            at = np.searchsorted(self.compiled, compiled)
            inside = at < len(self.compiled)
            inside[inside] = self.compiled[at[inside]] == compiled[inside]
            rows = at[inside]
        return rows if self.row_filter is None else rows[self.row_filter.keeps(rows)]
