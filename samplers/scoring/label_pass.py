"""One pass of a model over the label tries of many prompts: log P of every label.

Every distinct prefix of a prompt is evaluated once, whichever labels share it; nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.samplers.scoring.label_trie import LabelTrie

if TYPE_CHECKING:
    from cdec.core.models.base import BlockRows, LanguageModel

CHUNK_BYTES = 64 << 20
"""Bytes of distributions that are evaluated at a time."""


def label_log_probs(
    model: LanguageModel,
    roots: NDArray[np.int64],
    tries: Sequence[LabelTrie],
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> list[NDArray[np.float64]]:
    """Return log P of every label after every prompt, end events included.

    Args:
        model: Its warping is that of the roots.
        roots: int64[P] contexts of the prompts, each with room for its longest label.
        tries: P tries of labels; those of several prompts may be one.
        chunk_bytes: Most bytes of distributions evaluated at a time; changes no result.

    Returns:
        P arrays float64[L], one value a label; -inf where the model rules it out. Cost: every
        distinct prefix of a prompt is evaluated once, and 60 bytes a prefix.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    found = _Pass(model, roots, tries)
    found.evaluate(chunk_bytes)
    return found.labels()


class _Pass:
    """The nodes of all prompts' tries one after another, G of them, and what is known there.

    Attributes:
        log_edge: float64[G] log P of each node's last token. log_end: float64[G] log P(end).
    """

    def __init__(
        self, model: LanguageModel, roots: NDArray[np.int64], tries: Sequence[LabelTrie]
    ) -> None:
        self._model = model
        self._tries = tries
        sizes = [len(trie.parent) for trie in tries]
        self._base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        shift = np.repeat(self._base[:-1], sizes)
        self._token = np.concatenate([trie.token for trie in tries])
        self._parent = np.concatenate([trie.parent for trie in tries]) + shift
        self._first = np.concatenate([trie.first_child[:-1] for trie in tries]) + shift
        self._children = np.concatenate([np.diff(trie.first_child) for trie in tries])
        self._depth = np.concatenate(
            [np.repeat(np.arange(trie.depth + 1), np.diff(trie.levels)) for trie in tries]
        )
        self._levels = [np.flatnonzero(self._depth == d) for d in range(self._depth.max() + 1)]
        self._context = np.empty(len(self._token), np.int64)
        self._context[self._base[:-1]] = roots
        for level in self._levels[1:]:
            above = self._context[self._parent[level]]
            self._context[level] = model.advance(above, self._token[level])
        self._is_ending = np.zeros(len(self._token), np.bool_)
        for trie, base in zip(tries, self._base.tolist(), strict=False):
            self._is_ending[base + trie.ending] = True
        self.log_edge = np.zeros(len(self._token))
        self.log_end = np.zeros(len(self._token))

    def evaluate(self, chunk_bytes: int) -> None:
        """Evaluate all nodes that an event follows, level by level.

        So the prefixes of a chunk are as long as each other, and those above them are cached.
        """
        order = np.concatenate(self._levels)
        order = order[(self._children[order] > 0) | self._is_ending[order]]
        size = max(1, chunk_bytes // (4 * self._model.vocabulary.width))
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            for part in self._model.scores_of(self._context[chunk]):
                self._read(chunk[part.positions], part)
        if np.isnan(self.log_edge).any() or np.isnan(self.log_end).any():
            raise ModelError(
                "the model's scores hold NaN",
                hint="Load the model with another dtype, such as float32 or bfloat16.",
            )

    def labels(self) -> list[NDArray[np.float64]]:
        """Return log P of every label of every prompt."""
        log_prefix = self.log_edge
        for level in self._levels[1:]:
            log_prefix[level] += log_prefix[self._parent[level]]
        found = []
        for trie, base in zip(self._tries, self._base.tolist(), strict=False):
            leaf = base + trie.leaf
            log_row = log_prefix[leaf] + np.where(trie.ends, self.log_end[leaf], 0.0)
            log_label = np.full(len(trie.texts), -np.inf)
            np.logaddexp.at(log_label, trie.label, log_row)
            found.append(log_label)
        return found

    def _read(self, nodes: NDArray[np.int64], part: BlockRows) -> None:
        """Note what the distributions at ``nodes`` (int64[k], a row each) say of their children."""
        counts = self._children[nodes]
        place = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        children = self._first[nodes][place] + within
        self.log_edge[children] = _log_p(part, place, self._token[children])
        ending = np.flatnonzero(self._is_ending[nodes])
        if ending.size:
            ends = [
                _log_p(part, ending, np.full(len(ending), end))
                for end in self._model.vocabulary.eos_token_ids
            ]
            self.log_end[nodes[ending]] = np.logaddexp.reduce(ends, axis=0)


def _log_p(
    part: BlockRows, place: NDArray[np.int64], tokens: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return log P of one token at each of ``place`` (int64[n], rows of the part)."""
    rows = part.rows[place]
    if isinstance(part.scores, np.ndarray):
        gathered: Any = part.scores[rows, tokens] - part.log_normalizer[rows]
        return np.asarray(gathered, np.float64)
    import torch

    device = part.scores.device
    at = torch.from_numpy(rows).to(device)
    scores = part.scores[at, torch.from_numpy(tokens).to(device)].double()
    return np.asarray((scores - part.log_normalizer[at].double()).cpu().numpy())
