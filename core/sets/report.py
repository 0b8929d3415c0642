"""Descriptions of a set: its sizes, and part of its trie as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdec.core.sets.rows import SetRows
from cdec.core.sets.trie import END

__all__ = ["TreeNode", "describe_tree", "statistics"]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of a trie as it is shown.

    Attributes:
        token_ids: The tokens from the parent on: one, or all that follows in a row that is alone.
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

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-ready data; bytes that are no UTF-8 are escaped."""
        return {
            "text": self.text.decode("utf-8", "backslashreplace"),
            "token_ids": self.token_ids,
            "rows": self.rows,
            "is_member": self.is_member,
            "children": [child.to_json() for child in self.children],
            "hidden": self.hidden,
        }

    def lines(self, indent: int = 0) -> list[str]:
        """Return it as indented lines, every text quoted."""
        member = "  member" if self.is_member else ""
        # The root has a text of its own where the set has a single row.
        text = self.text.decode("utf-8", "backslashreplace")
        label = f'"{text}"' if indent or text else "(root)"
        lines = [f"{'  ' * indent}{label}  {self.rows:,}{member}"]
        for child in self.children:
            lines += child.lines(indent + 1)
        if self.hidden:
            lines.append(f"{'  ' * (indent + 1)}... {self.hidden:,} more")
        return lines


def statistics(rows: SetRows) -> dict[str, int | float]:
    """Return sizes of a set in rows, tokens, nodes and bytes. O(N + R)."""
    arrays = rows.arrays
    lengths = np.diff(arrays.row_offsets)
    inner = arrays.node_degree[arrays.node_degree > 0]
    members_inside = int((arrays.node_token[1:] == END).sum())
    return {
        "rows": arrays.n_rows,
        "rows_kept": rows.n_kept,
        "tokens": len(arrays.tokens),
        "shortest_row": int(lengths.min()),
        "longest_row": int(lengths.max()),
        "mean_row": float(lengths.mean()),
        "nodes": arrays.n_nodes,
        "inner_nodes": len(inner),
        "dense_nodes": len(arrays.dense_nodes),
        "largest_degree": int(inner.max(initial=0)),
        "levels": _levels(rows),
        "rows_that_prefix_others": members_inside,
        "trie_bytes": sum(
            array.nbytes for name, array in arrays.to_mapping().items() if name[:4] == "node"
        ),
        "token_bytes": arrays.tokens.nbytes + arrays.row_offsets.nbytes,
        "mask_bytes": arrays.dense_masks.nbytes,
    }


def describe_tree(rows: SetRows, depth: int = 3, width: int = 10) -> TreeNode:
    """Return the top of the trie, the children with most rows first.

    Args:
        rows: Of the set; rows that a filter drops are not counted or shown.
        depth: Levels below the root.
        width: Children shown a node.
    """
    return _describe(rows, 0, 0, depth, width)


def _levels(rows: SetRows) -> int:
    """Count the levels of the trie, the root's included."""
    degree = rows.arrays.node_degree
    children_before = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    levels, start, stop = 0, 0, 1
    while start < stop:
        # The children of the nodes [start, stop) are the next nodes of the level order.
        start, stop = stop, 1 + int(children_before[stop])
        levels += 1
    return levels


def _describe(rows: SetRows, node: int, at: int, depth: int, width: int) -> TreeNode:
    """Describe one node, ``at`` tokens below the root."""
    arrays = rows.arrays
    row, degree = int(arrays.node_row[node]), int(arrays.node_degree[node])
    if degree == 0:
        ids = arrays.row(row)[max(at - 1, 0) :].tolist()
        return TreeNode(ids, rows.vocabulary.decode(ids), 1, True, [], 0)
    ids = [int(arrays.node_token[node])] if node else []
    # Children stand behind their parents: this ends, whatever the file holds.
    first = max(int(arrays.node_link[node]), node + 1)
    children = np.arange(first, min(first + degree, arrays.n_nodes))
    kept = _kept_rows(rows, children)
    ends_here = bool(arrays.node_token[first] == END and kept[0])
    ordinary = (kept > 0) & (arrays.node_token[children] != END)
    order = np.argsort(-kept[ordinary], kind="stable")
    best = children[ordinary][order][: width if depth > 0 else 0].tolist()
    return TreeNode(
        token_ids=ids,
        text=rows.vocabulary.decode(ids),
        rows=int(kept.sum()),
        is_member=ends_here,
        children=[_describe(rows, child, at + 1, depth - 1, width) for child in best],
        hidden=int(ordinary.sum()) - len(best),
    )


def _kept_rows(rows: SetRows, nodes: np.ndarray[Any, Any]) -> Any:
    """Count the kept rows of some nodes' subtrees, int64[n]."""
    arrays = rows.arrays
    first, count = arrays.node_row[nodes].astype(np.int64), arrays.node_count[nodes]
    if rows.row_filter is None:
        return count.astype(np.int64)
    return rows.row_filter.below(first + count) - rows.row_filter.below(first)
