"""Hypotheses of a beam search: partial or whole texts, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cdec.samplers.loops.watch import LoopWatch


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """H partial or whole texts.

    Attributes:
        group: int64[H]. tokens: int32[H, depth]. log_p, log_x, log_kept: float64[H] as Candidates.
        loops: Sees whether they loop; None where nobody asks.
    """

    group: NDArray[np.int64]
    tokens: NDArray[np.int32]
    log_p: NDArray[np.float64]
    log_x: NDArray[np.float64]
    log_kept: NDArray[np.float64]
    loops: LoopWatch | None

    def take(self, rows: NDArray[np.int64]) -> Hypotheses:
        """Return some of them, in the given order, repetitions welcome."""
        return Hypotheses(
            self.group[rows],
            self.tokens[rows],
            self.log_p[rows],
            self.log_x[rows],
            self.log_kept[rows],
            None if self.loops is None else self.loops.take(rows),
        )

    def plus(
        self, log_p: NDArray[np.float64], log_z: NDArray[np.float64], missed: NDArray[np.float64]
    ) -> Hypotheses:
        """Return these after one event each, its token not yet written."""
        return Hypotheses(
            self.group,
            self.tokens,
            self.log_p + log_p,
            self.log_x + log_z,
            self.log_kept + np.log1p(-missed),
            self.loops,
        )
