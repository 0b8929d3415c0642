"""Compiled loops that build the trie of a set from its sorted token rows; nothing else."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import kernel

END = -1
"""Token of the sentinel child that says: a member may end at the parent."""


class Nodes(NamedTuple):
    """The trie's N nodes, level by level; the root is node 0.

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


@kernel
def common_prefixes(tokens: NDArray[np.int32], row_offsets: NDArray[np.int64]) -> Any:
    """Measure how many tokens each row shares with the row before it.

    Args:
        tokens: int32[T] flat tokens.
        row_offsets: int64[R + 1], non-decreasing, within 0..T.

    Returns:
        int32[R] lengths, -1 for row 0; the number of the first row that does not follow its
        predecessor in lexicographic order (duplicates included), or -1. O(T).
    """
    rows = len(row_offsets) - 1
    shared = np.empty(rows, np.int32)
    shared[0] = -1
    for row in range(1, rows):
        left = row_offsets[row - 1]
        right = row_offsets[row]
        left_size = right - left
        right_size = row_offsets[row + 1] - right
        limit = min(left_size, right_size)
        n = 0
        while n < limit and tokens[left + n] == tokens[right + n]:
            n += 1
        shared[row] = n
        if n == right_size or (n < left_size and tokens[left + n] > tokens[right + n]):
            return shared, row
    return shared, -1


@kernel
def count_nodes(shared: NDArray[np.int32]) -> int:
    """Count the nodes of the trie that is cut at the first unique row.

    Each row ends in one leaf. A prefix of length L is an inner node where two rows share it, and is
    counted at the second of them: there ``shared`` rises over L.
    """
    nodes = len(shared)
    for row in range(1, len(shared)):
        nodes += max(0, shared[row] - shared[row - 1])
    return nodes


@kernel
def fill_nodes(
    tokens: NDArray[np.int32],
    row_offsets: NDArray[np.int64],
    shared: NDArray[np.int32],
    nodes: Nodes,
) -> None:
    """Write all ``count_nodes(shared)`` nodes.

    Rows under one parent at depth d share d tokens, so a child begins exactly where ``shared``
    is d. Each level reads ``shared`` in order: O(T) in all.
    """
    token, link, degree, first_row, count = nodes
    token[0], first_row[0], count[0] = END, 0, len(shared)
    level_start, used, depth = 0, 1, 0
    while level_start < used:
        level_stop = used
        for node in range(level_start, level_stop):
            start = first_row[node]
            if count[node] == 1:
                degree[node] = 0
                # subtle: an END leaf hangs one level deeper than its row is long.
                link[node] = min(row_offsets[start] + depth, row_offsets[start + 1])
                continue
            link[node] = used
            stop = start + count[node]
            begin = start
            for row in range(start + 1, stop + 1):
                if row < stop and shared[row] != depth:
                    continue
                position = row_offsets[begin] + depth
                token[used] = tokens[position] if position < row_offsets[begin + 1] else END
                first_row[used], count[used] = begin, row - begin
                used += 1
                begin = row
            degree[node] = used - link[node]
        level_start = level_stop
        depth += 1


@kernel
def fill_dense_masks(
    nodes: Nodes, dense_nodes: NDArray[np.int32], masks: NDArray[np.uint32]
) -> None:
    """Set the bits of the children of ``dense_nodes`` int32[D] in zeroed ``masks`` [D, words]."""
    token, link, degree = nodes.token, nodes.link, nodes.degree
    width = masks.shape[1] * 32
    for slot in range(len(dense_nodes)):
        node = dense_nodes[slot]
        for child in range(link[node], link[node] + degree[node]):
            t = token[child]
            if 0 <= t < width:
                masks[slot, t >> 5] |= np.uint32(1) << np.uint32(t & 31)
