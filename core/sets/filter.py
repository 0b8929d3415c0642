"""RowFilter: which rows of a set are kept, as a bitmap with rank; the set itself stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError, UsageError

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
