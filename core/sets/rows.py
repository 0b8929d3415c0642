"""SetRows: the rows of a set that may be emitted, and their texts and entity ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cdec.core.sets.filter import RowFilter, intersect
from cdec.core.sets.members import SetMembers
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.core.tokens.vocabulary import Vocabulary


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
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
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
