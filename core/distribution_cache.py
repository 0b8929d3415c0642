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

from cdec.core.context_tree import NONE, ContextTree


@dataclass(frozen=True, slots=True)
class Distributions:
    """Next-token distributions of n contexts, equal contexts sharing a row.

    ``log P(t | context i) = scores[rows[i], t] - log_normalizer[rows[i]]``, natural logs.

    Attributes:
        scores: float[M, V], warped, not normalised; numpy float64 of a tabular model, a float32
            torch tensor on the model's device otherwise. Shared with the model: never write to it.
        log_normalizer: float64[M], of the same kind and device as ``scores``.
        rows: int64[n], numpy.
    """

    scores: Any
    log_normalizer: Any
    rows: NDArray[np.int64]

    def logprobs(self) -> Any:
        """Return log P(t | context i), a new float[n, V] of the scores' dtype."""
        rows = like(self.rows, self.scores)
        taken = self.scores[rows]
        taken -= self.log_normalizer[rows][:, None]
        return taken


@dataclass(slots=True)
class _Block:
    scores: Any
    log_normalizer: Any
    nodes: NDArray[np.int64]
    live: int


class DistributionCache:
    """Blocks of distributions by context; columns ``block`` and ``row`` of the tree find them.

    Args:
        tree: The model's contexts.
        budget: Bytes of scores kept; the newest block always stays.
    """

    def __init__(self, tree: ContextTree, budget: int) -> None:
        self._tree = tree
        self._budget = budget
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._next = 0
        self.bytes = 0
        tree.add_column("block", np.int64, NONE)
        tree.add_column("row", np.int64, 0)

    def missing(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct nodes without a kept distribution, sorted."""
        return np.unique(nodes[self._tree.columns["block"][nodes] == NONE])

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
        needed = set(np.unique(columns["block"][keep]).tolist()) - {NONE}
        for block in needed:
            self._blocks.move_to_end(block)
        self._blocks[self._next] = _Block(scores, log_normalizer, nodes, len(nodes))
        columns["block"][nodes] = self._next
        columns["row"][nodes] = np.arange(len(nodes))
        self.bytes += scores.nbytes
        needed.add(self._next)
        self._next += 1
        while self.bytes > self._budget:
            oldest = next(iter(self._blocks))
            if oldest in needed:
                break
            self._drop(oldest)

    def collect(self, nodes: NDArray[np.int64]) -> Distributions:
        """Return the kept distributions of ``nodes`` (one or more): a block, or rows of several."""
        blocks = self._tree.columns["block"][nodes]
        rows = self._tree.columns["row"][nodes]
        if (blocks == blocks[0]).all():
            block = self._blocks[int(blocks[0])]
            self._blocks.move_to_end(int(blocks[0]))
            return Distributions(block.scores, block.log_normalizer, rows)
        return self._gather(nodes)

    def forget(self, nodes: NDArray[np.int64]) -> None:
        """Drop the blocks of which only ``nodes``, about to be freed, were left."""
        held = self._tree.columns["block"][nodes]
        blocks, counts = np.unique(held[held != NONE], return_counts=True)
        for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
            self._blocks[block].live -= count
            if not self._blocks[block].live:
                self.bytes -= self._blocks.pop(block).scores.nbytes
        self._tree.columns["block"][nodes] = NONE

    def _gather(self, nodes: NDArray[np.int64]) -> Distributions:
        distinct, inverse = np.unique(nodes, return_inverse=True)
        blocks = self._tree.columns["block"][distinct]
        order = np.argsort(blocks, kind="stable")
        parts, norms = [], []
        used, starts = np.unique(blocks[order], return_index=True)
        for block, chosen in zip(used.tolist(), np.split(order, starts[1:]), strict=True):
            kept = self._blocks[block]
            self._blocks.move_to_end(block)
            rows = like(self._tree.columns["row"][distinct[chosen]], kept.scores)
            parts.append(kept.scores[rows])
            norms.append(kept.log_normalizer[rows])
        place = np.empty(len(distinct), np.int64)
        place[order] = np.arange(len(distinct))
        return Distributions(concatenate(parts), concatenate(norms), place[inverse.reshape(-1)])

    def _drop(self, block: int) -> None:
        gone = self._blocks.pop(block)
        self.bytes -= gone.scores.nbytes
        # subtle: a freed node may live again under its old id, in another block.
        mine = gone.nodes[self._tree.columns["block"][gone.nodes] == block]
        self._tree.columns["block"][mine] = NONE


def like(rows: NDArray[np.int64], scores: Any) -> Any:
    """Return row numbers as an index of the scores' kind and device."""
    if isinstance(scores, np.ndarray):
        return rows
    import torch

    return torch.from_numpy(np.ascontiguousarray(rows)).to(scores.device)


def concatenate(parts: list[Any]) -> Any:
    """Concatenate blocks of one kind along their rows."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)
