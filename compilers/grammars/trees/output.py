"""Compiled second half of a walk: ranges of tokens with outcomes -> one tree of flat columns.

What is written does not depend on the arena: groups stand in the order of their first token in the
trie, branches in the order of their paths' hashes, path nodes in the order of first use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import COUNT, FIRST, PARENT, ROOT, VERIFY, Arena, inner
from cdec.compilers.grammars.trees.tables import (
    BRANCH_END,
    BRANCHES,
    DENSE,
    GROUP_END,
    GROUPS,
    MASKS,
    OUTCOME,
    PATH_END,
    PATHS,
    RANGES,
    SIZE,
    STAMP,
    TAKEN_MASK,
    TOKEN_END,
    TOKENS,
    TREES,
    VERIFIED,
    VERIFY_END,
    TreeOutput,
    TreeWork,
    hash_tree,
    write_mask,
    write_tokens,
    write_verified,
)
from cdec.compilers.grammars.trees.walk_kernels import DONE, TOO_MANY_NODES, WalkTrie, walk_tokens
from cdec.compilers.grammars.trees.walk_steps import WalkScanner
from cdec.core.kernels import kernel

NEED_OUTPUT = 3
"""A batch's end besides those of a walk: larger output tables wanted."""


@inner
def _number_path(
    arena: Arena, output: TreeOutput, work: TreeWork, node: int, first: int, n: int
) -> int:
    """Give a path node and its ancestors their numbers within the tree; return how many are given.

    -1 stands for no room.
    """
    paths, marks, climb, stamp = arena.paths, work.path_marks, work.climb, output.counts[STAMP]
    height = 0
    while node != ROOT and marks[node] >> 32 != stamp:
        climb[height] = node
        height += 1
        node = paths[node, PARENT]
    parent = marks[node] & 0xFFFFFFFF if node != ROOT else ROOT
    while height > 0:
        height -= 1
        node = climb[height]
        if first + n >= len(output.paths):
            output.wanted[PATHS] = first + n + 1
            return -1
        marks[node] = stamp << 32 | n
        output.paths[first + n, 0] = parent
        for column in range(1, 4):
            output.paths[first + n, column] = paths[node, column]
        parent = n
        n += 1
    return n


@inner
def _collect_groups(arena: Arena, output: TreeOutput, work: TreeWork, n_ranges: int) -> Any:
    """Number the groups by first token and sort the ranges by group.

    Returns:
        Groups, their branches, tokens to verify.
    """
    counts, marks, ranges, groups = output.counts, work.outcome_marks, work.ranges, work.groups
    counts[STAMP] += 1
    stamp = counts[STAMP]
    n, branches, verified = 0, 0, 0
    for r in range(n_ranges):
        outcome, size = ranges[r, 0], ranges[r, 2] - ranges[r, 1]
        if outcome == VERIFY:
            verified += size
            continue
        if marks[outcome] >> 32 != stamp:
            marks[outcome] = stamp << 32 | n
            groups[n, OUTCOME], groups[n, SIZE], groups[n, RANGES] = outcome, 0, 0
            branches += arena.outcomes[outcome, COUNT]
            n += 1
        group = marks[outcome] & 0xFFFFFFFF
        groups[group, SIZE] += size
        groups[group, RANGES] += 1
    at = 0
    for group in range(n):
        at += groups[group, RANGES]
        groups[group, RANGES] = at
    groups[n, RANGES] = at
    for r in range(n_ranges - 1, -1, -1):
        if ranges[r, 0] != VERIFY:
            group = marks[ranges[r, 0]] & 0xFFFFFFFF
            groups[group, RANGES] -= 1
            work.sorted_ranges[groups[group, RANGES]] = r
    return n, branches, verified


@inner
def _has_output_room(
    output: TreeOutput, work: TreeWork, n: int, branches: int, verified: int, dense_from: int
) -> bool:
    """Say whether a tree's groups, branches, tokens and masks fit; its paths are another matter."""
    counts = output.counts
    tokens, masks = 0, 1
    for group in range(n):
        size = work.groups[group, SIZE]
        if size >= dense_from:
            masks += 1
        else:
            tokens += size
    wanted = output.wanted
    wanted[TREES], wanted[GROUPS] = counts[TREES] + 1, counts[GROUPS] + n
    wanted[BRANCHES], wanted[TOKENS] = counts[BRANCHES] + branches, counts[TOKENS] + tokens
    wanted[VERIFIED], wanted[MASKS] = counts[VERIFIED] + verified, counts[MASKS] + masks
    wanted[PATHS] = counts[PATHS]
    return bool(
        wanted[TREES] <= len(output.trees)
        and wanted[GROUPS] <= len(output.groups)
        and wanted[BRANCHES] <= len(output.branches)
        and wanted[TOKENS] <= len(output.tokens)
        and wanted[VERIFIED] <= len(output.verified)
        and wanted[MASKS] <= len(output.masks)
    )


@inner
def _write_groups(
    arena: Arena, output: TreeOutput, work: TreeWork, token_ids: Any, n: int, dense_from: int
) -> Any:
    """Write n groups with their branches, path nodes and tokens behind the last tree.

    Returns:
        Path nodes of the tree (-1: no room), ends of the branch and token columns.
    """
    counts, paths = output.counts, np.int64(0)
    branch, token, first_group = counts[BRANCHES], counts[TOKENS], counts[GROUPS]
    for group in range(n):
        outcome = work.groups[group, OUTCOME]
        first = np.int64(arena.outcomes[outcome, FIRST])
        for i in range(first, first + arena.outcomes[outcome, COUNT]):
            node = np.int64(arena.results[i, 0])
            paths = _number_path(arena, output, work, node, counts[PATHS], paths)
            if paths < 0:
                return paths, branch, token
            local = work.path_marks[node] & 0xFFFFFFFF if node != ROOT else ROOT
            output.branches[branch, 0] = local
            output.branches[branch, 1] = arena.results[i, 1]
            output.branches[branch, 2] = arena.results[i, 2]
            branch += 1
        token, dense = write_tokens(output, work, token_ids, group, token, dense_from)
        row = output.groups[first_group + group]
        row[BRANCH_END], row[TOKEN_END], row[DENSE] = branch, token, dense
    return paths, branch, token


@inner
def _write_tree(
    arena: Arena, output: TreeOutput, work: TreeWork, token_ids: Any, sizes: Any, dense_from: int
) -> bool:
    """Write a tree behind the last one; False: no room, and nothing counts as written."""
    n_ranges, n_taken = sizes
    n, branches, verified = _collect_groups(arena, output, work, n_ranges)
    if not _has_output_room(output, work, n, branches, verified, dense_from):
        return False
    paths, branch, token = _write_groups(arena, output, work, token_ids, n, dense_from)
    if paths < 0:
        return False
    counts, tree = output.counts, output.counts[TREES]
    taken = write_mask(output, token_ids, work.taken, n_taken)
    verify_end = write_verified(output, work, token_ids, n_ranges)
    path_end, group_end = counts[PATHS] + paths, counts[GROUPS] + n
    output.tree_hashes[tree] = hash_tree(output, path_end, group_end, verify_end, taken)
    row = output.trees[tree]
    row[PATH_END], row[GROUP_END] = path_end, group_end
    row[VERIFY_END], row[TAKEN_MASK] = verify_end, taken
    counts[PATHS], counts[GROUPS], counts[BRANCHES] = path_end, group_end, branch
    counts[TOKENS], counts[VERIFIED], counts[TREES] = token, verify_end, tree + 1
    return True


@kernel
def build_batch(
    scanner: WalkScanner,
    trie: WalkTrie,
    arena: Arena,
    output: TreeOutput,
    work: TreeWork,
    token_ids: NDArray[np.int32],
    roots: NDArray[np.int32],
    wants_taken: NDArray[np.bool_],
    dense_from: int,
) -> Any:
    """Write the trees of scanner states, one after another.

    Args:
        scanner: The scanner.
        trie: The vocabulary.
        arena, output, work: Of this worker.
        token_ids: int32[T] in the trie's order.
        roots: int32[n] scanner states.
        wants_taken: bool[C] whether the tokens that complete a state's terminal are asked for.
        dense_from: Size from which a group is a mask.

    Returns:
        What stopped it (DONE: nothing), and how many trees were written.
    """
    space = work.open_walks, work.ranges, work.taken
    for i in range(len(roots)):
        root = np.int64(roots[i])
        status, ranges, n_taken = walk_tokens(scanner, trie, arena, root, wants_taken[root], space)
        if status != DONE:
            return status, i
        if not _write_tree(arena, output, work, token_ids, (ranges, n_taken), dense_from):
            return NEED_OUTPUT, i
        if output.counts[PATHS] + output.counts[GROUPS] > scanner.max_nodes:
            return TOO_MANY_NODES, i
    return DONE, len(roots)
