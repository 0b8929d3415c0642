"""Columns of all trees from those of the workers: equal trees and equal masks are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.tables import (
    BRANCH_END,
    BRANCHES,
    DENSE,
    GROUP_END,
    GROUPS,
    MASKS,
    PATH_END,
    PATHS,
    TAKEN_MASK,
    TOKEN_END,
    TOKENS,
    TREES,
    VERIFIED,
    VERIFY_END,
    TreeOutput,
)
from cdec.core.kernels import inner, kernel


class _Joined(NamedTuple):
    """Columns of all workers, one after another; offsets have one more row than what they index."""

    hashes: NDArray[np.uint64]
    tree_paths: NDArray[np.int64]
    tree_groups: NDArray[np.int64]
    tree_verify: NDArray[np.int64]
    tree_taken: NDArray[np.int64]
    group_branches: NDArray[np.int64]
    group_tokens: NDArray[np.int64]
    group_dense: NDArray[np.int64]
    paths: NDArray[np.int32]
    branches: NDArray[np.int32]
    tokens: NDArray[np.int32]
    verified: NDArray[np.int32]


def assemble(
    outputs: Sequence[TreeOutput],
    roots: NDArray[np.int64],
    class_of_state: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Join the workers' trees into the columns of an artifact.

    Args:
        outputs: The workers'.
        roots: int64[n] class of scanner states whose tree each tree is, workers in order.
        class_of_state: int64[C].

    Returns:
        The columns of ``cdec.core.grammars.columns`` that hold trees.
    """
    masks, mask_numbers = _distinct_masks(outputs)
    joined = _joined(outputs, mask_numbers)
    chosen, tree_of_class = _distinct_trees(joined, roots)
    groups, tree_groups = _picked(joined.tree_groups, chosen)
    group_parts = joined.group_branches, joined.group_tokens
    (branches, group_branches), (tokens, group_tokens) = (
        _picked(offsets, groups) for offsets in group_parts
    )
    paths, tree_paths = _picked(joined.tree_paths, chosen)
    verified, tree_verify = _picked(joined.tree_verify, chosen)
    used = np.concatenate((joined.group_dense[groups], joined.tree_taken[chosen]))
    numbers, kept = _renumbered(used, len(masks))
    path_columns, branch_columns = joined.paths[paths], joined.branches[branches]
    return {
        "tree_of_state": tree_of_class[class_of_state].astype(np.int32),
        "tree_paths": tree_paths,
        "path_parent": path_columns[:, 0].copy(),
        "path_terminal": path_columns[:, 1].copy(),
        "path_byte": path_columns[:, 2].copy(),
        "path_next": path_columns[:, 3].copy(),
        "tree_groups": tree_groups,
        "group_branches": group_branches,
        "branch_path": branch_columns[:, 0].copy(),
        "branch_live": branch_columns[:, 1].copy(),
        "branch_depth": branch_columns[:, 2].copy(),
        "group_dense": numbers[: len(groups)].astype(np.int32),
        "group_tokens": group_tokens,
        "tokens": joined.tokens[tokens],
        "tree_verify": tree_verify,
        "verify_tokens": joined.verified[verified],
        "tree_taken": numbers[len(groups) :].astype(np.int32),
        "dense_masks": masks[kept].reshape(-1),
    }


def _used(output: TreeOutput, table: str, place: int) -> NDArray[Any]:
    rows: NDArray[Any] = getattr(output, table)[: int(output.counts[place])]
    return rows


def _distinct_masks(
    outputs: Sequence[TreeOutput],
) -> tuple[NDArray[np.int32], list[NDArray[np.int64]]]:
    """Return all masks, each once, and the numbers of each worker's masks among them."""
    masks = np.concatenate([_used(output, "masks", MASKS) for output in outputs])
    hashes = np.concatenate([_used(output, "mask_hashes", MASKS) for output in outputs])
    _, first, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    same = first[numbers.ravel()]
    # subtle: masks of equal hash are one mask only if they are equal.
    moved = np.flatnonzero(same != np.arange(len(same)))
    wrong = moved[[not np.array_equal(masks[i], masks[same[i]]) for i in moved]]
    same[wrong] = wrong
    ends = np.cumsum([0, *(int(output.counts[MASKS]) for output in outputs)])
    return masks, [same[a:b] for a, b in pairwise(ends.tolist())]


def _joined(outputs: Sequence[TreeOutput], mask_numbers: list[NDArray[np.int64]]) -> _Joined:
    trees = [_used(output, "trees", TREES) for output in outputs]
    groups = [_used(output, "groups", GROUPS) for output in outputs]

    def ends(tables: list[NDArray[np.int64]], column: int, place: int) -> NDArray[np.int64]:
        """Return offsets over all workers from the ends within each."""
        sizes = np.cumsum([0, *(int(output.counts[place]) for output in outputs)])
        parts = [table[:, column] + base for table, base in zip(tables, sizes, strict=False)]
        return np.concatenate((np.zeros(1, np.int64), *parts))

    def numbered(tables: list[NDArray[np.int64]], column: int) -> NDArray[np.int64]:
        """Return masks by their number among all."""
        parts = []
        for table, numbers in zip(tables, mask_numbers, strict=True):
            local = table[:, column]
            known = np.append(numbers, -1)
            parts.append(known[local])
        return np.concatenate(parts)

    def rows(table: str, place: int) -> NDArray[Any]:
        return np.concatenate([_used(output, table, place) for output in outputs])

    return _Joined(
        rows("tree_hashes", TREES),
        ends(trees, PATH_END, PATHS),
        ends(trees, GROUP_END, GROUPS),
        ends(trees, VERIFY_END, VERIFIED),
        numbered(trees, TAKEN_MASK),
        ends(groups, BRANCH_END, BRANCHES),
        ends(groups, TOKEN_END, TOKENS),
        numbered(groups, DENSE),
        rows("paths", PATHS),
        rows("branches", BRANCHES),
        rows("tokens", TOKENS),
        rows("verified", VERIFIED),
    )


def _distinct_trees(
    joined: _Joined, roots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the trees to keep, in the order of their first class, and each class's tree."""
    order = np.argsort(roots, kind="stable")
    _, first, inverse = np.unique(joined.hashes[order], return_index=True, return_inverse=True)
    same = first[inverse.ravel()]
    alike = np.ones(len(order), np.bool_)
    _compare_trees(joined, order, same, alike)
    same[~alike] = np.flatnonzero(~alike)
    kept = np.flatnonzero(same == np.arange(len(same)))
    numbers = np.zeros(len(same), np.int64)
    numbers[kept] = np.arange(len(kept))
    tree_of_class = np.empty(len(roots), np.int64)
    tree_of_class[roots[order]] = numbers[same]
    return order[kept], tree_of_class


@inner
def _same_rows(table: Any, a: int, b: int, stop: int) -> bool:
    """Say whether the rows from a up to stop equal those from b on."""
    return bool((table[a:stop] == table[b : b + stop - a]).all())


@inner
def _same_sizes(offsets: Any, a: int, b: int) -> bool:
    return bool(offsets[a + 1] - offsets[a] == offsets[b + 1] - offsets[b])


@inner
def _same_tree(joined: _Joined, a: int, b: int) -> bool:
    """Say whether two trees are equal."""
    if joined.tree_taken[a] != joined.tree_taken[b]:
        return False
    for offsets in (joined.tree_paths, joined.tree_groups, joined.tree_verify):
        if not _same_sizes(offsets, a, b):
            return False
    first, other = joined.tree_groups[a], joined.tree_groups[b]
    last = joined.tree_groups[a + 1]
    for i in range(last - first):
        for offsets in (joined.group_branches, joined.group_tokens):
            if not _same_sizes(offsets, first + i, other + i):
                return False
        if joined.group_dense[first + i] != joined.group_dense[other + i]:
            return False
    paths, verify = joined.tree_paths, joined.tree_verify
    branches, tokens = joined.group_branches, joined.group_tokens
    return bool(
        _same_rows(joined.paths, paths[a], paths[b], paths[a + 1])
        and _same_rows(joined.branches, branches[first], branches[other], branches[last])
        and _same_rows(joined.tokens, tokens[first], tokens[other], tokens[last])
        and _same_rows(joined.verified, verify[a], verify[b], verify[a + 1])
    )


@kernel
def _compare_trees(joined: _Joined, order: Any, same: Any, alike: Any) -> None:
    """Write which trees equal the first of their hash."""
    for i in range(len(order)):
        if same[i] != i:
            alike[i] = _same_tree(joined, order[i], order[same[i]])


def _picked(
    offsets: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the chosen rows' items, one after another, and their new offsets."""
    sizes = offsets[chosen + 1] - offsets[chosen]
    ends = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    places = np.repeat(offsets[chosen] - ends[:-1], sizes) + np.arange(ends[-1])
    return places, ends


def _renumbered(
    used: NDArray[np.int64], n_masks: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the masks by first use; return the new numbers and the masks that are kept."""
    values, first = np.unique(used[used >= 0], return_index=True)
    kept = values[np.argsort(first, kind="stable")]
    numbers = np.full(n_masks + 1, -1, np.int64)
    numbers[kept] = np.arange(len(kept))
    return numbers[used], kept
