"""What ``inspect`` shows of a set: statistics, and part of the trie as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cdec.core.sets.trie import END

if TYPE_CHECKING:
    from cdec.core.sets.constraint import SetConstraint

__all__ = ["TreeNode", "describe_tree", "statistics"]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of a trie as it is shown.

    Attributes:
        token_ids: The tokens from the parent on: one, or the whole rest of a row that is alone.
        text: Their bytes, not escaped.
        rows: Rows below, itself included.
        is_member: A row ends here.
        children: Those with most rows, at most as many as asked for.
        hidden: Children left out.
    """

    token_ids: list[int]
    text: bytes
    rows: int
    is_member: bool
    children: list[TreeNode]
    hidden: int


def statistics(constraint: SetConstraint) -> dict[str, int | float]:
    """Return sizes of a set in rows, tokens, nodes and bytes. O(N + R)."""
    arrays = constraint.arrays
    lengths = np.diff(arrays.row_offsets)
    inner = arrays.node_degree[arrays.node_degree > 0]
    members_inside = int((arrays.node_token[1:] == END).sum())
    return {
        "rows": arrays.n_rows,
        "rows_kept": constraint.n_rows,
        "tokens": len(arrays.tokens),
        "shortest_row": int(lengths.min()),
        "longest_row": int(lengths.max()),
        "mean_row": float(lengths.mean()),
        "nodes": arrays.n_nodes,
        "inner_nodes": len(inner),
        "dense_nodes": len(arrays.dense_nodes),
        "largest_degree": int(inner.max(initial=0)),
        "levels": _levels(constraint),
        "rows_that_prefix_others": members_inside,
        "trie_bytes": sum(
            array.nbytes for name, array in arrays.to_mapping().items() if name[:4] == "node"
        ),
        "token_bytes": arrays.tokens.nbytes + arrays.row_offsets.nbytes,
        "mask_bytes": arrays.dense_masks.nbytes,
    }


def describe_tree(constraint: SetConstraint, depth: int = 3, width: int = 10) -> TreeNode:
    """Return the top of the trie, the children with most rows first.

    Args:
        constraint: The set; rows that a filter drops are not counted or shown.
        depth: Levels below the root.
        width: Children shown a node.
    """
    return _describe(constraint, 0, 0, depth, width)


def _levels(constraint: SetConstraint) -> int:
    """Count the levels of the trie, the root's included."""
    degree = constraint.arrays.node_degree
    children_before = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    levels, start, stop = 0, 0, 1
    while start < stop:
        # The children of the nodes [start, stop) are the next nodes of the level order.
        start, stop = stop, 1 + int(children_before[stop])
        levels += 1
    return levels


def _describe(constraint: SetConstraint, node: int, at: int, depth: int, width: int) -> TreeNode:
    """Describe one node, ``at`` tokens below the root."""
    arrays = constraint.arrays
    row, degree = int(arrays.node_row[node]), int(arrays.node_degree[node])
    if degree == 0:
        ids = arrays.row(row)[max(at - 1, 0) :].tolist()
        return TreeNode(ids, constraint.vocabulary.decode(ids), 1, True, [], 0)
    ids = [int(arrays.node_token[node])] if node else []
    first = int(arrays.node_link[node])
    children = np.arange(first, first + degree)
    kept = _kept_rows(constraint, children)
    ends_here = bool(arrays.node_token[first] == END and kept[0])
    ordinary = (kept > 0) & (arrays.node_token[children] != END)
    order = np.argsort(-kept[ordinary], kind="stable")
    best = children[ordinary][order][: width if depth > 0 else 0].tolist()
    return TreeNode(
        token_ids=ids,
        text=constraint.vocabulary.decode(ids),
        rows=int(kept.sum()),
        is_member=ends_here,
        children=[_describe(constraint, child, at + 1, depth - 1, width) for child in best],
        hidden=int(ordinary.sum()) - len(best),
    )


def _kept_rows(constraint: SetConstraint, nodes: np.ndarray[Any, Any]) -> Any:
    """Count the kept rows of some nodes' subtrees, int64[n]."""
    arrays = constraint.arrays
    first, count = arrays.node_row[nodes].astype(np.int64), arrays.node_count[nodes]
    if constraint.row_filter is None:
        return count.astype(np.int64)
    return constraint.row_filter.below(first + count) - constraint.row_filter.below(first)
