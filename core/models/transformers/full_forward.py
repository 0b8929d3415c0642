"""Models without a key-value cache that could be shared: every prefix is computed whole.

Recurrent and hybrid models (RWKV, Mamba and their kin) carry a state that can be neither cut nor
shared by position. Sequences are padded on the right, where a causal model does not look.
Imports torch and transformers: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.models.base import Contexts
from cdec.core.models.context_tree import NONE
from cdec.core.models.transformers.base import TransformersModel

_LOGITS_BYTES = 256 << 20
"""Bytes of float32 logits a forward pass, all its rows and columns; a single row may take more."""


class FullForwardModel(TransformersModel):
    """A causal model that reads each sequence from its beginning; O(length) a new token."""

    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        positions = self._positions(nodes)
        columns = len(np.unique(positions))
        if "logits_to_keep" not in self._accepts:
            columns = int(positions.max()) + 1
        size = 4 * len(nodes) * columns * self.vocabulary.width
        if len(nodes) == 1 or size <= _LOGITS_BYTES:
            return self._run(nodes)
        # subtle: every row gives logits at the columns of all rows, so those of similar lengths
        # go together: 256 rows of 256 lengths would be the square of what is asked for.
        order = np.argsort(positions, kind="stable")
        halves = np.split(order, [len(order) // 2])
        scores = torch.cat([self._evaluate_chunk(nodes[half]) for half in halves])
        return scores[self._tensor(np.argsort(order))]

    def _positions(self, nodes: Contexts) -> NDArray[np.int64]:
        """Return the column of each context's last token, int64[n]."""
        start: NDArray[np.int64] = self._tree.of_root("start", nodes)
        return start + self._tree.depth[nodes] - 1

    def _run(self, nodes: Contexts) -> Tensor:
        """Return the logits after ``nodes`` from one forward pass, float32[M, V]."""
        rows, batch, positions = self._sequences(nodes)
        lengths = np.array([len(row) for row in rows], np.int64)
        tokens = np.zeros((len(rows), int(lengths.max())), np.int64)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = row
        # Logits at the needed columns alone, where the model takes a list of them.
        columns, column = np.unique(positions, return_inverse=True)
        arguments: dict[str, Any] = {}
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = self._tensor(columns)
        else:
            column = positions
        if "attention_mask" in self._accepts and (lengths < tokens.shape[1]).any():
            mask = np.arange(tokens.shape[1]) < lengths[:, None]
            arguments["attention_mask"] = self._tensor(mask.astype(np.int64))
        if "use_cache" in self._accepts:
            arguments["use_cache"] = False
        with torch.no_grad():
            output = self._module(input_ids=self._tensor(tokens), return_dict=True, **arguments)
        logits: Tensor = output.logits[self._tensor(batch), self._tensor(column.reshape(-1))]
        return logits.to(self._device).float()

    def _sequences(
        self, nodes: Contexts
    ) -> tuple[list[list[int]], NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that cover ``nodes``, and for each node its row and its column."""
        row_of: dict[int, int] = {}
        rows: list[list[int]] = []
        heads: list[int] = []
        for node in nodes[np.argsort(-self._tree.depth[nodes], kind="stable")].tolist():
            if node in row_of:
                continue
            rows.append(self.whole_tokens(node))
            heads.append(node)
            # A prefix of a row needs no row of its own.
            above = node
            while above != NONE and above not in row_of:
                row_of[above] = len(rows) - 1
                above = int(self._tree.parent[above])
        self._count(np.array(heads, np.int64), 1, [len(row) for row in rows])
        batch = np.array([row_of[node] for node in nodes.tolist()], np.int64)
        return rows, batch, self._positions(nodes)
