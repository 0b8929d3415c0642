"""The arrays of a compiled set, and the trie built from its sorted token rows.

Worked example: the rows [5], [5, 7], [5, 8, 9], [6, 2] in that order.

    node   token  degree  link             row  count
    0      -1     2       1 (child)        0    4       root
    1      5      3       3 (child)        0    3
    2      6      0       7 (position)     3    1       cut here: "6" belongs to row 3 alone
    3      -1     0       1 (position)     0    1       END: the row [5] is a member
    4      7      0       3 (position)     1    1
    5      8      0       5 (position)     2    1

Children are contiguous and sorted by token, END (-1) first; nodes lie in level order. A leaf holds
one row, whose further tokens are read from ``tokens``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError, LimitError, UsageError
from cdec.core.mask import mask_words
from cdec.core.native import element_types, library

__all__ = ["DENSE_DEGREE", "DTYPES", "END", "SetArrays", "build_trie"]

END = -1
"""Token of the sentinel child that says: a member may end at the parent."""
DENSE_DEGREE = 256
"""Nodes with at least this many children have a packed mask of their own."""

_MAX_ROWS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class SetArrays:
    """A set's token rows and trie; read-only arrays, often views of a mapped file.

    Attributes:
        tokens: int32[T] flat token ids of the rows, end not included.
        row_offsets: int64[R + 1]; row r is ``tokens[row_offsets[r]:row_offsets[r + 1]]``. Rows are
            distinct and sorted lexicographically, a prefix before its continuations.
        node_token: int32[N] last token of the node's prefix; END for the root and END leaves.
        node_link: int64[N] first child's id; of a leaf, the flat position after its prefix.
        node_degree: int32[N] number of children; 0 for a leaf.
        node_row: int32[N] first row of the subtree.
        node_count: int32[N] rows of the subtree.
        dense_nodes: int32[D] the nodes of degree >= DENSE_DEGREE, ascending.
        dense_masks: int32[D * words] their children as packed masks, END left out.
    """

    tokens: NDArray[np.int32]
    row_offsets: NDArray[np.int64]
    node_token: NDArray[np.int32]
    node_link: NDArray[np.int64]
    node_degree: NDArray[np.int32]
    node_row: NDArray[np.int32]
    node_count: NDArray[np.int32]
    dense_nodes: NDArray[np.int32]
    dense_masks: NDArray[np.int32]

    def __post_init__(self) -> None:
        for name, dtype in DTYPES.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype).view()
            # Read-only, wherever the arrays come from.
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def from_mapping(cls, arrays: Mapping[str, NDArray[Any]]) -> SetArrays:
        """Pick a set's arrays out of an artifact's."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    def to_mapping(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by column name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_rows(self) -> int:
        """Number of rows R."""
        return len(self.row_offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number of trie nodes N."""
        return len(self.node_token)

    @property
    def dense_words(self) -> int:
        """Words of one dense mask; 0 where there is none."""
        return len(self.dense_masks) // len(self.dense_nodes) if len(self.dense_nodes) else 0

    def row(self, row: int) -> NDArray[np.int32]:
        """Return the tokens of one row."""
        return self.tokens[self.row_offsets[row] : self.row_offsets[row + 1]]


DTYPES: Mapping[str, str] = element_types(SetArrays)
"""Element type of every array of a set."""


class _Nodes(NamedTuple):
    """The trie's N nodes, level by level; the root is node 0. ``cdec_nodes`` of the library.

    Attributes:
        token: int32[N] token that leads to the node; END: a member ends at the parent.
        link: int64[N] first child; of a leaf the place in the row's tokens where its tail begins.
        degree: int32[N] children, which stand one after another; 0 for a leaf.
        first_row: int32[N] first row of the subtree.
        row_count: int32[N] rows of the subtree.
    """

    token: NDArray[np.int32]
    link: NDArray[np.int64]
    degree: NDArray[np.int32]
    first_row: NDArray[np.int32]
    row_count: NDArray[np.int32]


def build_trie(
    tokens: NDArray[np.int32],
    row_offsets: NDArray[np.int64],
    vocabulary_size: int | None = None,
) -> SetArrays:
    """Build the level-order trie of sorted distinct rows, cut at the first unique row.

    Args:
        tokens: int32[T] flat token ids.
        row_offsets: int64[R + 1], rows sorted lexicographically, distinct, a prefix before its
            continuations.
        vocabulary_size: Token ids the dense masks cover; default the largest token id plus one.

    Returns:
        The set's arrays. Cost: O(T) time; 24 bytes a node plus the dense masks.

    Raises:
        EmptySetError: No row.
        LimitError: More than 2**31 - 1 rows or nodes.
        UsageError: Rows that are not sorted, not distinct, or hold ids out of range.
    """
    tokens = np.ascontiguousarray(tokens, np.int32)
    row_offsets = np.ascontiguousarray(row_offsets, np.int64)
    largest = _check_rows(tokens, row_offsets)
    if vocabulary_size is None:
        vocabulary_size = largest + 1
    elif largest >= vocabulary_size:
        raise UsageError(f"token id {largest} is not below the vocabulary size {vocabulary_size}")
    shared = np.empty(len(row_offsets) - 1, np.int32)
    unsorted = library.common_prefixes(tokens, row_offsets, shared)
    if unsorted >= 0:
        raise UsageError(
            f"row {unsorted} does not come after row {unsorted - 1} in lexicographic order",
            hint="Sort the rows by token id and remove duplicates before building the trie.",
        )
    return _fill(tokens, row_offsets, shared, mask_words(vocabulary_size))


def _fill(
    tokens: NDArray[np.int32],
    row_offsets: NDArray[np.int64],
    shared: NDArray[np.int32],
    words: int,
) -> SetArrays:
    """Allocate and fill nodes and dense masks of checked rows; ``shared`` as measured."""
    size = library.count_nodes(shared)
    if size > _MAX_ROWS:
        raise LimitError(f"the trie has {size} nodes, more than {_MAX_ROWS}", limit=_MAX_ROWS)
    token, degree, first_row, count = (np.empty(size, np.int32) for _ in range(4))
    nodes = _Nodes(token, np.empty(size, np.int64), degree, first_row, count)
    library.fill_nodes(tokens, row_offsets, shared, nodes)
    dense = np.flatnonzero(degree >= DENSE_DEGREE).astype(np.int32)
    masks = np.zeros((len(dense), words), np.uint32)
    library.fill_dense_masks(nodes, dense, masks)
    return SetArrays(
        tokens=tokens,
        row_offsets=row_offsets,
        node_token=nodes.token,
        node_link=nodes.link,
        node_degree=nodes.degree,
        node_row=nodes.first_row,
        node_count=nodes.row_count,
        dense_nodes=dense,
        dense_masks=masks.view(np.int32).reshape(-1),
    )


def _check_rows(tokens: NDArray[np.int32], row_offsets: NDArray[np.int64]) -> int:
    """Check what the compiled loops rely on; return the largest token id, -1 without tokens."""
    rows = len(row_offsets) - 1
    if rows < 1:
        raise EmptySetError("a set without rows has no trie", hint="Give at least one member.")
    if rows > _MAX_ROWS:
        raise LimitError(f"{rows} rows are more than {_MAX_ROWS}", limit=_MAX_ROWS)
    lengths = np.diff(row_offsets)
    if row_offsets[0] != 0 or row_offsets[-1] != len(tokens) or lengths.min() < 0:
        raise UsageError(
            f"row offsets do not divide {len(tokens)} tokens: they begin at {row_offsets[0]}, "
            f"end at {row_offsets[-1]}, shortest row {lengths.min()}"
        )
    if len(tokens) and tokens.min() < 0:
        raise UsageError(f"token id {int(tokens.min())} is negative")
    return int(tokens.max(initial=-1))
