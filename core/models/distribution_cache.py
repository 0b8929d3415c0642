"""Next-token distributions kept by context: blocks of rows, under a byte budget, oldest out first.

One forward pass gives one block. A batch whose contexts all lie in one block (every step of a plain
decoding loop) gets that block and row numbers, and nothing is copied.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.language_model import BlockRows, Distributions, like

_BLOCK_BYTES = 1024
"""What a block costs besides its arrays' values, about: with few tokens and contexts evaluated one
by one, that is most of the memory."""


@dataclass(slots=True)
class _Block:
    scores: Any
    log_normalizer: Any
    nodes: NDArray[np.int64]
    live: int

    @property
    def nbytes(self) -> int:
        """Bytes it keeps from being used again."""
        held = self.scores.nbytes + self.log_normalizer.nbytes + self.nodes.nbytes
        return int(held) + _BLOCK_BYTES


class DistributionCache:
    """Blocks of distributions by context; columns ``block`` and ``row`` of the tree find them.

    Args:
        tree: The model's contexts.
        budget: Bytes of blocks kept; the newest block always stays.
    """

    def __init__(self, tree: ContextTree, budget: int) -> None:
        self._tree = tree
        self._budget = budget
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._free: list[int] = []
        self.bytes = 0
        tree.add_column("block", np.int32, NONE)
        tree.add_column("row", np.int32, 0)

    def missing(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct nodes without a kept distribution, sorted.

        Raises:
            UsageError: One of ``nodes`` (int64[n]) is no live context.
        """
        return self._tree.missing("block", nodes)

    def store(
        self,
        nodes: NDArray[np.int64],
        scores: Any,
        log_normalizer: Any,
        keep: NDArray[np.int64],
    ) -> None:
        """Keep a block, dropping the least recently used ones beyond the budget.

        Args:
            nodes: int64[M] distinct.
            scores: float[M, V].
            log_normalizer: float64[M].
            keep: Contexts whose blocks must stay for now, though the budget be passed.
        """
        columns = self._tree.columns
        needed = set(columns["block"][keep].tolist()) - {NONE}
        for block in needed:
            self._blocks.move_to_end(block)
        # Numbers of dropped blocks, to which no node points any more, are used again.
        number = self._free.pop() if self._free else len(self._blocks)
        added = _Block(scores, log_normalizer, nodes, len(nodes))
        self._blocks[number] = added
        columns["block"][nodes] = number
        columns["row"][nodes] = np.arange(len(nodes))
        self.bytes += added.nbytes
        needed.add(number)
        while self.bytes > self._budget:
            oldest = next(iter(self._blocks))
            if oldest in needed:
                break
            self._drop(oldest)

    def collect(self, nodes: NDArray[np.int64], newest: NDArray[np.int64]) -> Distributions:
        """Return the kept distributions of ``nodes`` (one or more): a block, or rows of several.

        Args:
            nodes: int64[n] kept.
            newest: int64[m] those of the block that was stored just now; empty for none.
        """
        if len(nodes) == len(newest) and np.array_equal(nodes, newest):
            block = next(reversed(self._blocks.values()))
            return Distributions(block.scores, block.log_normalizer, np.arange(len(nodes)))
        blocks = self._tree.columns["block"][nodes]
        if (blocks == blocks[0]).all():
            block = self._blocks[int(blocks[0])]
            self._blocks.move_to_end(int(blocks[0]))
            rows = self._tree.columns["row"][nodes].astype(np.int64)
            return Distributions(block.scores, block.log_normalizer, rows)
        return self._gather(nodes)

    def parts(self, nodes: NDArray[np.int64]) -> list[BlockRows]:
        """Return the kept distributions of ``nodes`` block by block, without copying scores."""
        if not nodes.size:
            return []
        blocks = self._tree.columns["block"][nodes]
        rows = self._tree.columns["row"][nodes].astype(np.int64)
        order = np.argsort(blocks, kind="stable")
        ordered = blocks[order]
        edges = (np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()
        parts = []
        for start, stop in zip([0, *edges], [*edges, len(order)], strict=True):
            positions = order[start:stop]
            number = int(ordered[start])
            kept = self._blocks[number]
            self._blocks.move_to_end(number)
            parts.append(BlockRows(positions, kept.scores, kept.log_normalizer, rows[positions]))
        return parts

    def forget(self, nodes: NDArray[np.int64]) -> None:
        """Drop the blocks of which only ``nodes``, about to be freed, were left."""
        held = self._tree.columns["block"][nodes]
        blocks, counts = np.unique(held[held != NONE], return_counts=True)
        for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
            self._blocks[block].live -= count
            if not self._blocks[block].live:
                self._remove(block)
        self._tree.columns["block"][nodes] = NONE

    def _gather(self, nodes: NDArray[np.int64]) -> Distributions:
        """Copy the rows of the distinct ``nodes`` into one block, each once."""
        distinct, inverse = np.unique(nodes, return_inverse=True)
        parts = self.parts(distinct)
        order = np.concatenate([part.positions for part in parts])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        rows = [part.rows for part in parts]
        return Distributions(
            _joined([part.scores for part in parts], rows),
            _joined([part.log_normalizer for part in parts], rows),
            place[inverse.reshape(-1)],
        )

    def _remove(self, block: int) -> _Block:
        gone = self._blocks.pop(block)
        self.bytes -= gone.nbytes
        self._free.append(block)
        return gone

    def _drop(self, block: int) -> None:
        gone = self._remove(block)
        # subtle: a freed node may live again under its old id, in another block.
        mine = gone.nodes[self._tree.columns["block"][gone.nodes] == block]
        self._tree.columns["block"][mine] = NONE


def _joined(blocks: list[Any], rows: list[NDArray[np.int64]]) -> Any:
    """Return ``rows`` of ``blocks`` of one kind as one new array, without another copy between."""
    first = blocks[0]
    shape = (sum(len(chosen) for chosen in rows), *first.shape[1:])
    if isinstance(first, np.ndarray):
        joined = np.empty(shape, first.dtype)
        _copy_rows(blocks, rows, joined)
        return joined
    joined = first.new_empty(shape)
    if first.device.type == "cpu":
        _copy_rows([block.detach().numpy() for block in blocks], rows, joined.numpy())
        return joined
    import torch

    # One index for all blocks: a transfer to the device costs more than its values.
    index = like(np.concatenate(rows), first)
    sizes = [len(chosen) for chosen in rows]
    for block, chosen, out in zip(blocks, index.split(sizes), joined.split(sizes), strict=True):
        torch.index_select(block, 0, chosen, out=out)
    return joined


def _copy_rows(
    blocks: list[NDArray[Any]], rows: list[NDArray[np.int64]], out: NDArray[Any]
) -> None:
    stop = 0
    for block, chosen in zip(blocks, rows, strict=True):
        start, stop = stop, stop + len(chosen)
        # subtle: with mode="raise", numpy fills a buffer first.
        np.take(block, chosen, axis=0, out=out[start:stop], mode="clip")
