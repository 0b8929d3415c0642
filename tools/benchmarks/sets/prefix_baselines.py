"""Other ways to constrain to a set, as baselines: a dict trie, prefix verification as published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from cdec.core.sets.trie import SetArrays


class DictTrie:
    """Nested dicts, as GENRE's trie (arXiv 2010.00904), for transformers' prefix function.

    Args:
        rows: Token rows.
        end: End-of-sequence id.
    """

    def __init__(self, rows: Sequence[Sequence[int]], end: int) -> None:
        self._root: dict[int, Any] = {}
        for row in rows:
            node = self._root
            for token in row:
                node = node.setdefault(token, {})
            node[end] = {}

    def allowed(self, prefix: Sequence[int]) -> list[int]:
        """Return the tokens allowed after a prefix."""
        node = self._root
        for token in prefix:
            node = node[token]
        return list(node)

    def processor(self, width: int, n: int) -> Callable[[Sequence[Sequence[int]]], torch.Tensor]:
        """Return a step: prefixes -> masked scores float32[n, width]."""
        from transformers import PrefixConstrainedLogitsProcessor

        scores = torch.zeros((n, width))

        def step(prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
            def function(row: int, _: torch.Tensor) -> list[int]:
                return self.allowed(prefixes[row])

            process = PrefixConstrainedLogitsProcessor(function, num_beams=1)
            return process(torch.zeros((n, 1), dtype=torch.long), scores)

        return step


class PrefixVerification:
    """Parallel prefix verification as published (arXiv 2504.09135, section 3.3).

    Every proposed token is verified by a binary search for prefix + token in the whole sorted
    matrix; all searches of a step run side by side. Deviation: rows are compared by their first
    column that differs, since sums of per-column signs are not the lexicographic order.
    """

    def __init__(self, arrays: SetArrays) -> None:
        lengths = np.diff(arrays.row_offsets)
        matrix = np.full((arrays.n_rows, int(lengths.max()) + 1), -1, np.int32)
        matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = arrays.tokens
        self._matrix = torch.from_numpy(matrix)

    def check(self, prefixes: Sequence[Sequence[int]], proposed: Any) -> torch.Tensor:
        """Say of proposed tokens int[n, M] whether prefix + token begins a row, bool[n, M]."""
        n, m = proposed.shape
        depths = torch.tensor([len(prefix) for prefix in prefixes])
        width = int(depths.max()) + 1
        queries = torch.full((n, m, width), -1, dtype=torch.int32)
        for row, prefix in enumerate(prefixes):
            queries[row, :, : len(prefix)] = torch.tensor(prefix, dtype=torch.int32)
        at = depths[:, None, None].expand(n, m, 1)
        queries.scatter_(2, at, torch.as_tensor(proposed, dtype=torch.int32)[..., None])
        queries = queries.reshape(n * m, width)
        used = torch.arange(width) <= depths.repeat_interleave(m)[:, None]
        low = torch.zeros(n * m, dtype=torch.long)
        high = torch.full_like(low, len(self._matrix))
        for _ in range(len(self._matrix).bit_length()):
            middle = (low + high) // 2
            below = self._compare(middle, queries, used) < 0
            active = low < high
            low = torch.where(active & below, middle + 1, low)
            high = torch.where(active & ~below, middle, high)
        inside = low < len(self._matrix)
        found = self._compare(low, queries, used) == 0
        return (inside & found).reshape(n, m)

    def _compare(
        self, rows: torch.Tensor, queries: torch.Tensor, used: torch.Tensor
    ) -> torch.Tensor:
        """Compare rows with queries over the used columns: negative, zero or positive, [n]."""
        rows = rows.clamp(max=len(self._matrix) - 1)
        difference = (self._matrix[rows, : queries.shape[1]] - queries) * used
        first = (difference != 0).int().argmax(1, keepdim=True)
        return difference.gather(1, first)[:, 0]
