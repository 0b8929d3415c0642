"""Tables of finished trees and the work space they are made in; writing masks and token lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import NONE, VERIFY, inner, mixed

# Places of TreeOutput.counts.
PATHS, GROUPS, BRANCHES, TOKENS, VERIFIED, MASKS, TREES, STAMP = 0, 1, 2, 3, 4, 5, 6, 7
# Columns of TreeOutput.trees and of TreeOutput.groups.
PATH_END, GROUP_END, VERIFY_END, TAKEN_MASK = 0, 1, 2, 3
BRANCH_END, TOKEN_END, DENSE = 0, 1, 2
# Rows of TreeWork.groups.
OUTCOME, SIZE, RANGES = 0, 1, 2
_PRIME = np.uint64(0x100000001B3)


class TreeOutput(NamedTuple):
    """Growable columns of finished trees; the first ``counts[...]`` rows are in use."""

    counts: NDArray[np.int64]  # [8]
    wanted: NDArray[np.int64]  # [8] rows that the tree under construction needs
    trees: NDArray[np.int64]  # [E, 4] PATH_END, GROUP_END, VERIFY_END, TAKEN_MASK (or -1)
    tree_hashes: NDArray[np.uint64]  # [E]
    paths: NDArray[np.int32]  # [P, 4] parent within the tree, terminal, byte class, next state
    groups: NDArray[np.int64]  # [G, 3] BRANCH_END, TOKEN_END, DENSE (or -1)
    branches: NDArray[np.int32]  # [B, 3] path within the tree, live row, depth
    tokens: NDArray[np.int32]
    verified: NDArray[np.int32]
    masks: NDArray[np.int32]  # [D, words]
    mask_hashes: NDArray[np.uint64]  # [D]
    mask_table: NDArray[np.int32]  # open addressing, -1 free


class TreeWork(NamedTuple):
    """Work space of one worker; N trie nodes."""

    open_walks: NDArray[np.int32]  # [longest token + 2]
    ranges: NDArray[np.int32]  # [N + 1, 3]
    taken: NDArray[np.int32]  # [N + 1, 3]
    groups: NDArray[np.int64]  # [N + 2, 3] OUTCOME, SIZE in tokens, RANGES: first of sorted
    sorted_ranges: NDArray[np.int32]  # [N + 1] ranges by group
    outcome_marks: NDArray[np.int64]  # [outcomes] STAMP << 32 | group
    path_marks: NDArray[np.int64]  # [path nodes] STAMP << 32 | number within the tree
    climb: NDArray[np.int32]  # [2 * longest token + 4] path nodes without a number


@inner
def folded(value: Any, item: Any) -> Any:
    """FNV-1a over words: cheap, for what is compared in full before it counts as equal."""
    return (value ^ np.uint64(item)) * _PRIME


@inner
def _equal_words(masks: Any, a: int, b: int) -> bool:
    return bool((masks[a] == masks[b]).all())


@inner
def intern_mask(output: TreeOutput) -> int:
    """Return the number of the mask in row ``counts[MASKS]``, new or known."""
    masks, hashes, table, counts = (
        output.masks,
        output.mask_hashes,
        output.mask_table,
        output.counts,
    )
    row = counts[MASKS]
    value = np.uint64(4)
    for word in range(masks.shape[1]):
        value = folded(value, masks[row, word])
    value = mixed(value, 0)
    last = np.uint64(len(table) - 1)
    slot = value & last
    while table[slot] >= 0:
        known = table[slot]
        if hashes[known] == value and _equal_words(masks, known, row):
            return int(known)
        slot = (slot + np.uint64(1)) & last
    table[slot], hashes[row] = row, value
    counts[MASKS] = row + 1
    return int(row)


@inner
def set_bits(mask: Any, token_ids: Any, first: int, last: int) -> None:
    """Set the bits of the token ids from place ``first`` up to ``last`` in a packed mask."""
    for place in range(first, last):
        token = token_ids[place]
        mask[token >> 5] |= np.int32(1) << np.int32(token & 31)


@inner
def write_mask(output: TreeOutput, token_ids: Any, ranges: Any, n: int) -> Any:
    """Return the number of the mask of n ranges of tokens, -1 where there are none."""
    if n == 0:
        return NONE
    mask = output.masks[output.counts[MASKS]]
    mask[:] = 0
    for i in range(n):
        set_bits(mask, token_ids, ranges[i, 1], ranges[i, 2])
    return np.int64(intern_mask(output))


@inner
def write_tokens(
    output: TreeOutput, work: TreeWork, token_ids: Any, group: int, at: int, dense_from: int
) -> Any:
    """Write a group's tokens; return the end of the token column and the mask's row or -1."""
    first, last = work.groups[group, RANGES], work.groups[group + 1, RANGES]
    if work.groups[group, SIZE] >= dense_from:
        mask = output.masks[output.counts[MASKS]]
        mask[:] = 0
        for i in range(first, last):
            r = work.sorted_ranges[i]
            set_bits(mask, token_ids, work.ranges[r, 1], work.ranges[r, 2])
        return at, np.int64(intern_mask(output))
    start = at
    for i in range(first, last):
        r = work.sorted_ranges[i]
        for place in range(work.ranges[r, 1], work.ranges[r, 2]):
            output.tokens[at] = token_ids[place]
            at += 1
    if at - start > 1:
        output.tokens[start:at].sort()
    return at, NONE


@inner
def write_verified(output: TreeOutput, work: TreeWork, token_ids: Any, n_ranges: int) -> int:
    """Write the tokens to verify, ascending; return the end of the column."""
    start = output.counts[VERIFIED]
    at = start
    for r in range(n_ranges):
        if work.ranges[r, 0] == VERIFY:
            for place in range(work.ranges[r, 1], work.ranges[r, 2]):
                output.verified[at] = token_ids[place]
                at += 1
    if at - start > 1:
        output.verified[start:at].sort()
    return int(at)


@inner
def hash_tree(output: TreeOutput, paths: int, groups: int, verified: int, taken: int) -> Any:
    """Hash the tree that ends at these places and begins where the last one ended."""
    counts, value = output.counts, np.uint64(5)
    for i in range(counts[PATHS], paths):
        for column in range(4):
            value = folded(value, output.paths[i, column])
    branch, token = counts[BRANCHES], counts[TOKENS]
    for group in range(counts[GROUPS], groups):
        value = mixed(value, output.groups[group, BRANCH_END] - counts[BRANCHES])
        for i in range(branch, output.groups[group, BRANCH_END]):
            for column in range(3):
                value = folded(value, output.branches[i, column])
        for i in range(token, output.groups[group, TOKEN_END]):
            value = folded(value, output.tokens[i])
        dense = output.groups[group, DENSE]
        value = mixed(value, output.mask_hashes[dense] if dense >= 0 else np.uint64(0))
        branch, token = output.groups[group, BRANCH_END], output.groups[group, TOKEN_END]
    for i in range(counts[VERIFIED], verified):
        value = folded(value, output.verified[i])
    return mixed(value, output.mask_hashes[taken] if taken >= 0 else np.uint64(0))
