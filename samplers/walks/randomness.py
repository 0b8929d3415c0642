"""Random numbers by decision and candidate: a fixed layout for each draw.

A draw has a seed; its numbers are the outputs of ``PCG64(seed)``. Candidate ``t`` of the draw owns
the outputs from ``t * 2**32`` on, in four streams of ``2**30``: the first number of all is its
acceptance test; number ``1 + s`` of a stream belongs to its token ``s``. FIRST decides it, AGAIN
decides it where the first choice was not allowed (``opportunistic``); where a draft proposes it,
DRAFT decides what is proposed, TEST whether that is accepted, and FIRST what is taken if not. Draws
that share a prefix tree share the candidates of their record's first draw (``rounds``); populations
and chains lay theirs out in ``smc`` and ``mcmc``. So a draw does not depend on the batch, on
chunks, on other records or on limits, and the first candidates of K = 2 are those of K = 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_STRIDE = 1 << 32
_BLOCK = 64
"""Most uniforms generated at once for a candidate."""

FIRST, DRAFT, AGAIN, TEST = (quarter * (_STRIDE // 4) for quarter in range(4))
"""Beginnings of the streams of a candidate."""


def draw_seeds(rng: np.random.Generator, n: int) -> list[int]:
    """Return ``n`` seeds, below 2**53 so that JSON numbers hold them exactly."""
    return [int(seed) for seed in rng.integers(0, 1 << 53, size=n)]


def opening_uniforms(seeds: Sequence[int], candidate: int) -> NDArray[np.float64]:
    """Return the uniforms that open the layouts of a candidate of draws, float64[n].

    Args:
        seeds: n seeds, below 2**64.
        candidate: Number of the candidate within its draw.
    """
    return CandidateUniforms(seeds, np.full(len(seeds), candidate), steps=0).acceptance()


def resample(log_weights: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Take one of K with probability proportional to its weight, in each row.

    Args:
        log_weights: float64[n, K] natural logs; -inf is weight 0.
        uniforms: float64[n] in [0, 1).

    Returns:
        int64[n]; 0 where all weights are 0.
    """
    peak = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(peak == -np.inf, 0.0, peak))
    running = np.cumsum(weights, axis=1)
    below = (running <= (uniforms * running[:, -1])[:, None]).sum(axis=1)
    # Rounding must not push the choice past the last weight that is positive.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.where(peak[:, 0] == -np.inf, 0, np.minimum(below, last))


class CandidateUniforms:
    """Uniforms in [0, 1) of a batch of candidates, generated in blocks of steps.

    Args:
        seeds: One seed a candidate, W of them, below 2**64.
        candidates: int64[W] number of each candidate within its draw.
        steps: How many steps are expected at most; sizes the blocks, changes no number.
        stream: Which of the candidate's streams: FIRST, DRAFT, AGAIN or TEST.

    Attributes:
        width: Numbers of a block. blocks: int64[W] block that ``values`` float64[W, width] holds of
            each candidate; number ``1 + s``, which decides token s, is in block (1 + s) // width.
    """

    def __init__(
        self,
        seeds: Sequence[int] | NDArray[np.uint64],
        candidates: NDArray[np.int64],
        steps: int,
        *,
        stream: int = FIRST,
    ) -> None:
        self._steps = steps
        self._seeds = np.array(seeds, np.uint64)
        self._candidates = candidates
        self._starts = candidates.astype(np.uint64) * np.uint64(_STRIDE) + np.uint64(stream)
        self.width = max(2, min(_BLOCK, steps + 2))
        self.blocks = np.full(len(seeds), -1, np.int64)
        self.values = np.zeros((len(seeds), self.width))

    def __len__(self) -> int:
        return len(self._seeds)

    def stream(self, stream: int) -> CandidateUniforms:
        """Return another stream of the same candidates."""
        return CandidateUniforms(self._seeds, self._candidates, self._steps, stream=stream)

    def acceptance(self) -> NDArray[np.float64]:
        """Return the acceptance test's uniform of every candidate, float64[W]."""
        everyone = np.arange(len(self._seeds))
        self._fill(everyone, np.zeros_like(everyone))
        return self.values[:, 0].copy()

    def at(self, steps: NDArray[np.int64], walks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the uniforms that decide the next tokens of ``walks``.

        Args:
            steps: int64[n] tokens drawn so far; best if they rarely fall from call to call.
            walks: int64[n] candidates still walking.

        Returns:
            float64[n]. Cost: about 0.3 microseconds a candidate at the start of each of its blocks.
        """
        blocks, columns = np.divmod(steps + 1, self.width)
        late = np.flatnonzero(self.blocks[walks] != blocks)
        if late.size:
            self._fill(walks[late], blocks[late])
            if (self.blocks[walks] != blocks).any():
                return self._by_blocks(steps, walks, blocks)
        numbers: NDArray[np.float64] = self.values[walks, columns]
        return numbers

    def _by_blocks(
        self, steps: NDArray[np.int64], walks: NDArray[np.int64], blocks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return what ``at`` does, of walks that are asked for in several blocks at once."""
        numbers = np.empty(len(steps))
        for block in np.unique(blocks).tolist():
            rows = np.flatnonzero(blocks == block)
            numbers[rows] = self.at(steps[rows], walks[rows])
        return numbers

    def _fill(self, walks: NDArray[np.int64], blocks: NDArray[np.int64]) -> None:
        starts = self._starts[walks] + (blocks * self.width).astype(np.uint64)
        library.fill_uniforms(self._seeds[walks], starts, walks, self.values)
        self.blocks[walks] = blocks
