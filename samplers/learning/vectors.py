"""Vectors: the masses of the allowed ids of a prefix tree's nodes, in a byte-bounded cache.

Two halves of an arena take turns: when one is full the other is emptied and filled next, so what
was built last stays. Whatever is dropped can be built again; the tree's bounds do not need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.samplers.learning import descent_kernels as kernels
from cdec.samplers.learning.descent_kernels import BLOCK
from cdec.samplers.learning.tree.kernels import NIL
from cdec.samplers.learning.tree.prefix_tree import PrefixTree

_IDS_PER_BLOCK = 16
"""Allowed ids for which one block sum is set aside: short vectors have a block as well."""
_BLOCKS_PER_VECTOR = 2
_ID_BYTES = 12 + (8 + 32 / _BLOCKS_PER_VECTOR) / _IDS_PER_BLOCK
"""Bytes of one allowed id: its number, its mass, its share of block sums and slots."""


class Vectors:
    """The cache, and the column ``slot`` of the tree that finds a node's vector in it.

    Args:
        tree: Whose nodes.
        budget: Bytes of both halves together; a single vector may always be held.

    Attributes:
        slots: ``start``, ``length``, ``first_block`` (int64) and ``shift`` (float64) by slot.
        pool: ``ids`` int32, ``values`` and ``blocks`` float64: the arena.
    """

    def __init__(self, tree: PrefixTree, budget: int) -> None:
        self._tree = tree
        self._owners: list[list[NDArray[np.int64]]] = [[], []]
        self._half = 0
        tree.add_column("slot", np.int32, NIL)
        self._allot(max(1024, int(budget / _ID_BYTES / 2)))

    @property
    def nbytes(self) -> int:
        """Bytes of the arena and of the slots; the system gives them as they are written to."""
        arrays: tuple[NDArray[Any], ...] = (*self.slots, *self.pool)
        return sum(array.nbytes for array in arrays)

    def fitting(self, lengths: NDArray[np.int64]) -> int:
        """Return how many vectors of these lengths, the first ones, half the arena can take."""
        by_ids = np.searchsorted(np.cumsum(lengths), self._sizes[0], side="right")
        by_blocks = np.searchsorted(np.cumsum(_blocks(lengths)), self._sizes[1], side="right")
        return max(1, int(min(by_ids, by_blocks)))

    def build(self, asked: kernels.Asked, lengths: NDArray[np.int64]) -> bool:
        """Store vectors of nodes that have none; older ones are dropped where needed.

        Args:
            asked: Distinct nodes, no more than ``fitting`` says, and what is known there.
            lengths: int64[n] allowed ids of each.

        Returns:
            False if the scores hold NaN.
        """
        numbers = self._reserve(asked.nodes, lengths)
        tree = self._tree
        tree["slot"][asked.nodes] = numbers
        stored = library.vectors_build(
            asked, numbers, tree.nodes, tree["token"], self.slots, self.pool
        )
        return bool(stored)

    def _reserve(self, nodes: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give each node a slot and a place in the arena."""
        blocks = _blocks(lengths)
        wanted = np.array([lengths.sum(), blocks.sum(), len(nodes)])
        if np.any(wanted > self._sizes):
            # One vector longer than half the arena: a larger arena.
            self._drop()
            self._drop()
            self._allot(2 * int(wanted[0]))
        elif np.any(self._used + wanted > self._sizes):
            self._drop()
        ids, first, slot = (self._half * self._sizes + self._used).tolist()
        self._used += wanted
        numbers: NDArray[np.int64] = slot + np.arange(len(nodes))
        start, length, first_block, _ = self.slots
        start[numbers] = ids + np.cumsum(lengths) - lengths
        first_block[numbers] = first + np.cumsum(blocks) - blocks
        length[numbers] = lengths
        self._owners[self._half].append(nodes)
        return numbers

    def _drop(self) -> None:
        """Turn to the other half, emptied."""
        self._half = 1 - self._half
        for nodes in self._owners[self._half]:
            self._tree["slot"][nodes] = NIL
        self._owners[self._half] = []
        self._used = np.zeros(3, np.int64)

    def _allot(self, ids: int) -> None:
        """Allot an arena of two halves of ``ids`` allowed ids each."""
        blocks = ids // _IDS_PER_BLOCK + _BLOCKS_PER_VECTOR
        # Of each half: allowed ids, block sums, slots.
        self._sizes = np.array([ids, blocks, blocks // _BLOCKS_PER_VECTOR])
        self._used = np.zeros(3, np.int64)
        self._half = 0
        slots = 2 * int(self._sizes[2])
        self.slots = kernels.Slots(
            start=np.empty(slots, np.int64),
            length=np.empty(slots, np.int64),
            first_block=np.empty(slots, np.int64),
            shift=np.empty(slots),
        )
        self.pool = kernels.Pool(
            np.empty(2 * ids, np.int32), np.empty(2 * ids), np.empty(2 * blocks)
        )


def _blocks(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block sums of vectors of these lengths, and room for the kernel's last one."""
    return lengths // BLOCK + _BLOCKS_PER_VECTOR
