"""One thread's share of the trees; it enlarges its tables when the compiled walk asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import Arena, fill_table, new_arena, with_room
from cdec.compilers.grammars.trees.output import NEED_OUTPUT, build_batch
from cdec.compilers.grammars.trees.tables import (
    BRANCHES,
    GROUPS,
    MASKS,
    PATHS,
    TOKENS,
    TREES,
    VERIFIED,
    TreeOutput,
    TreeWork,
)
from cdec.compilers.grammars.trees.walk_kernels import (
    DONE,
    NEED_ARENA,
    WalkTrie,
)
from cdec.compilers.grammars.trees.walk_steps import WalkScanner

_ARENA_CELLS = 1 << 24
"""Transitions that an arena may hold before the next scanner state gets a fresh one: 64 MB."""


class TreeWorker:
    """Builds trees, one behind the other, into ``output``.

    Args:
        scanner: The scanner.
        trie: The vocabulary.
        token_ids: int32[T] tokens in the trie's order.
        words: int32 words of a mask.
        dense_from: Size from which a group is a mask.
    """

    def __init__(
        self,
        scanner: WalkScanner,
        trie: WalkTrie,
        token_ids: NDArray[np.int32],
        words: int,
        dense_from: int,
    ) -> None:
        self._scanner = scanner
        self._trie = trie
        self._token_ids = token_ids
        self._dense_from = dense_from
        self._arena = self._fresh_arena()
        self._work = _new_work(trie, self._arena)
        self.output = _new_output(words)

    def build(self, roots: NDArray[np.int32], wants_taken: NDArray[np.bool_]) -> bool:
        """Add the trees of scanner states.

        Args:
            roots: int32[n] scanner states.
            wants_taken: bool[C] states whose ``tree_taken`` is asked for.

        Returns:
            False where a limit was passed.
        """
        while len(roots):
            status, done = build_batch(
                self._scanner,
                self._trie,
                self._arena,
                self.output,
                self._work,
                self._token_ids,
                roots,
                wants_taken,
                self._dense_from,
            )
            roots = roots[done:]
            if status == NEED_ARENA:
                self._arena = with_room(self._arena)
                self._work = _with_marks(self._work, self._arena)
            elif status == NEED_OUTPUT:
                self.output = _with_output_room(self.output)
            elif status != DONE:
                return False
            elif self._arena.transitions.size > _ARENA_CELLS:
                self._arena = self._fresh_arena()
                self._work = _with_marks(self._work, self._arena)
        return True

    def _fresh_arena(self) -> Arena:
        scanner = self._scanner
        return new_arena(scanner.classes, 4 * scanner.max_branches)


def _new_work(trie: WalkTrie, arena: Arena) -> TreeWork:
    rows = len(trie.depth) + 2
    longest = int(trie.depth.max(initial=0))
    return TreeWork(
        np.zeros(longest + 2, np.int32),
        np.zeros((rows, 3), np.int32),
        np.zeros((rows, 3), np.int32),
        np.zeros((rows, 3), np.int64),
        np.zeros(rows, np.int32),
        np.zeros(len(arena.outcomes), np.int64),
        np.zeros(len(arena.paths), np.int64),
        np.zeros(2 * longest + 4, np.int32),
    )


def _with_marks(work: TreeWork, arena: Arena) -> TreeWork:
    """Return work space for the arena's size; stamps of earlier trees are never used again."""
    return work._replace(
        outcome_marks=np.zeros(len(arena.outcomes), np.int64),
        path_marks=np.zeros(len(arena.paths), np.int64),
    )


def _new_output(words: int) -> TreeOutput:
    rows = 1 << 10
    return TreeOutput(
        np.zeros(8, np.int64),
        np.zeros(8, np.int64),
        np.zeros((rows, 4), np.int64),
        np.zeros(rows, np.uint64),
        np.zeros((rows, 4), np.int32),
        np.zeros((rows, 3), np.int64),
        np.zeros((rows, 3), np.int32),
        np.zeros(1 << 16, np.int32),
        np.zeros(rows, np.int32),
        np.zeros((16, words), np.int32),
        np.zeros(16, np.uint64),
        np.full(32, -1, np.int32),
    )


def _with_output_room(output: TreeOutput) -> TreeOutput:
    """Return the columns with those enlarged that the tree under construction does not fit into."""
    groups = (
        (PATHS, ("paths",)),
        (GROUPS, ("groups",)),
        (BRANCHES, ("branches",)),
        (TOKENS, ("tokens",)),
        (VERIFIED, ("verified",)),
        (TREES, ("trees", "tree_hashes")),
        (MASKS, ("masks", "mask_hashes")),
    )
    parts: dict[str, NDArray[Any]] = {}
    for place, names in groups:
        wanted, used = int(output.wanted[place]), int(output.counts[place])
        for name in names:
            column: NDArray[Any] = getattr(output, name)
            if wanted > len(column):
                larger = np.zeros((max(wanted, 2 * len(column)), *column.shape[1:]), column.dtype)
                larger[:used] = column[:used]
                parts[name] = larger
    if "masks" in parts:
        size = 1 << (2 * len(parts["masks"]) - 1).bit_length()
        parts["mask_table"] = np.full(size, -1, np.int32)
        fill_table(output.mask_hashes, int(output.counts[MASKS]), parts["mask_table"])
    return output._replace(**parts)
