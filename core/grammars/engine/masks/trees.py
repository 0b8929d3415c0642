"""The trees of subterminals read downwards: where items stand, and what lies beneath a path node.

An *item* is a number within a tree: a path node, then a branch behind all nodes, then a token that
is read byte by byte behind all branches. What a mask *allows* is numbered likewise: a group, then a
token behind all groups. Links to what lies beneath a node are made at a tree's first use.
"""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import int32s, int64s, size, span
from cdec.core.kernels import inner

__all__ = ["branches_of", "group_of", "groups_of", "link", "nodes_of", "tokens_of"]


@inner
def nodes_of(e: int, tree: int) -> tuple[int, int]:
    """Return where a tree's path nodes begin and end."""
    return span(int64s(e, f.TREE_PATHS), tree, size(e, f.PATH_PARENT))


@inner
def groups_of(e: int, tree: int) -> tuple[int, int]:
    """Return where a tree's groups begin and end."""
    return span(int64s(e, f.TREE_GROUPS), tree, size(e, f.GROUP_DENSE))


@inner
def branches_of(e: int, tree: int) -> tuple[int, int]:
    """Return where a tree's branches begin and end."""
    low, high = groups_of(e, tree)
    offsets, most = int64s(e, f.GROUP_BRANCHES), size(e, f.BRANCH_PATH)
    start = min(max(offsets[low], 0), most)
    return start, min(max(offsets[high], start), most)


@inner
def tokens_of(e: int, tree: int) -> tuple[int, int]:
    """Return where a tree's tokens that are read byte by byte begin and end."""
    return span(int64s(e, f.TREE_VERIFY), tree, size(e, f.VERIFY_TOKENS))


@inner
def group_of(e: int, tree: int, branch: int) -> int:
    """Return the group of a tree's branch."""
    link(e, tree)
    return int32s(e, f.BRANCH_GROUP)[branch]


@inner
def link(e: int, tree: int) -> None:
    """Link a tree's nodes and branches to the nodes above them, once.

    The first of those beneath a node stand in NODE_CHILD and NODE_BRANCH (beneath the root in
    TREE_CHILD and TREE_BRANCH), the next ones in NODE_NEXT and BRANCH_NEXT; -1: no more. They
    ascend, whatever a damaged artifact holds, so that every walk ends.
    """
    children, branches = int32s(e, f.TREE_CHILD), int32s(e, f.TREE_BRANCH)
    if children[tree] != -2:
        return
    children[tree], branches[tree] = -1, -1
    first, stop = nodes_of(e, tree)
    child, own = int32s(e, f.NODE_CHILD), int32s(e, f.NODE_BRANCH)
    for node in range(first, stop):
        child[node], own[node] = -1, -1
    _link_nodes(e, tree, first, stop)
    low, high = groups_of(e, tree)
    paths = int32s(e, f.BRANCH_PATH)
    begin, end = branches_of(e, tree)
    for group in range(high - 1, low - 1, -1):
        start, after = span(int64s(e, f.GROUP_BRANCHES), group, size(e, f.BRANCH_PATH))
        for branch in range(min(after, end) - 1, max(start, begin) - 1, -1):
            int32s(e, f.BRANCH_GROUP)[branch] = group
            path = paths[branch]
            if path == -1:
                branches[tree] = _before(e, branch, branches[tree])
            elif 0 <= path < stop - first:
                own[first + path] = _before(e, branch, own[first + path])


@inner
def _before(e: int, branch: int, following: int) -> int:
    """Put a branch before those of a list that come later; of two equal ones the list's stays."""
    if following >= 0 and following <= branch:
        return following
    int32s(e, f.BRANCH_NEXT)[branch] = following
    return branch


@inner
def _link_nodes(e: int, tree: int, first: int, stop: int) -> None:
    parents, following = int32s(e, f.PATH_PARENT), int32s(e, f.NODE_NEXT)
    children, child = int32s(e, f.TREE_CHILD), int32s(e, f.NODE_CHILD)
    for node in range(stop - 1, first - 1, -1):
        parent = parents[node]
        if parent == -1:
            following[node], children[tree] = children[tree], node
        elif 0 <= parent < node - first:
            following[node], child[first + parent] = child[first + parent], node
