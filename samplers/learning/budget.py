"""Budget of candidates that are accepted or refused: how much is spent, and whether it will do."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import Notice
from cdec.core.progress import Progress, Stage, silent
from cdec.core.record_fields.text_warnings import BUDGET, MOST_NEEDED, about, over_budget

if TYPE_CHECKING:
    from cdec.samplers.learning.bookkeeping import Learning
    from cdec.samplers.learning.rounds import Round, Rounds
    from cdec.samplers.walks.batch import Batch

FIRST_GUESS = 200
"""Calls of the model after which the cost is guessed, when a round ends; then at twice as many."""


class Budget:
    """Budget of the records of a batch, each of which draws until enough is accepted.

    Args:
        batch: The open requests.
        rounds: Where candidates come from.
        learning: Which samples are wanted and taken.
        max_draws: Candidates per sample, all samples of a record together.
        progress: Is told.

    Attributes:
        most: int64[R] candidates of each request.
    """

    def __init__(
        self, batch: Batch, rounds: Rounds, learning: Learning, max_draws: int, progress: Progress
    ) -> None:
        self.most: NDArray[np.int64] = learning.wanted * max_draws
        self._batch = batch
        self._rounds = rounds
        self._learning = learning
        self._max_draws = max_draws
        self._progress = progress
        self._log_sum = np.full(len(batch.requests), -np.inf)
        # By request: candidates that the tree had seen, and the bound that they left.
        self._bounds: dict[int, list[tuple[int, float]]] = {}
        self._calls = batch.model.total_usage.calls
        self._next_guess: float = FIRST_GUESS

    def add(self, drawn: Round) -> None:
        """Take the weights of a round, and the bound that it began with."""
        seen = int(self._rounds.before[drawn.request]) + drawn.first
        self._bounds.setdefault(drawn.request, []).append((seen, drawn.log_root))
        log_x = np.append(drawn.candidates.log_x, self._log_sum[drawn.request])
        self._log_sum[drawn.request] = np.logaddexp.reduce(log_x)

    def acceptance_rate(self, request: int) -> float:
        """Estimate which share of a record's next candidates is accepted.

        A candidate of weight x is accepted with probability x / c(root), and x is unbiased for
        P(S); so their mean over the present bound. It rises as the bound falls.
        """
        log_sum = float(self._log_sum[request])
        if log_sum == -math.inf:
            return 0.0
        log_mean = log_sum - math.log(self._rounds.drawn[request])
        log_rate = min(0.0, log_mean - self._rounds.log_root(request))
        return max(math.exp(log_rate), sys.float_info.min)

    def needed(self, request: int) -> float:
        """Estimate the candidates of a record, of which some are drawn, until its last sample.

        With a bound that goes on falling as candidates^-f, as since half as many, the rate a rises
        as candidates^f: from m candidates on, a * m * ((n / m)^(f + 1) - 1) / (f + 1) of n pass.
        """
        drawn = int(self._rounds.drawn[request])
        missing = int(self._learning.wanted[request] - self._learning.taken[request])
        # Where none had any weight, one of as many as were drawn is the best to hope for.
        rate = self.acceptance_rate(request) or 1 / drawn
        seen = drawn + int(self._rounds.before[request])
        bounds = self._bounds[request]
        since, log_root = next((at for at in reversed(bounds) if 2 * at[0] <= seen), bounds[0])
        fallen = max(0.0, log_root - self._rounds.log_root(request))
        power = 1 + fallen / math.log((1 + seen) / (1 + since))
        log_growth = math.log1p(missing * power / rate / seen) / power
        return drawn + max(missing, seen * math.expm1(min(log_growth, 700.0)))

    def warning(self, request: int) -> dict[str, object]:
        """Return the warning of a record's samples past the budget."""
        needed = self.needed(request) / int(self._learning.wanted[request])
        return over_budget(needed, self._max_draws)

    def tell(self, active: NDArray[np.int64]) -> None:
        """Tell how far the records that are still open (int64[n], n > 0) are.

        That is the one with the most budget left, and the widest bracket.
        """
        if self._progress is silent:
            return
        drawn, tree, roots = self._rounds.drawn, self._batch.tree, self._batch.roots
        slowest = active[np.argmin(drawn[active] / self.most[active])]
        width = max(tree.bounds(r, int(roots[r])).width for r in active.tolist())
        note = f"bracket {width:.1f} nats" if width < math.inf else "bracket open"
        done, total = int(drawn[slowest]), int(self.most[slowest])
        notice = self._first_guess(active)
        self._progress(Stage("drawing", done, total, "draws", note, notice))

    def _first_guess(self, active: NDArray[np.int64]) -> Notice | None:
        """Return the warning of the record that needs most, once, where it cannot have it."""
        calls = self._batch.model.total_usage.calls - self._calls
        if calls < self._next_guess:
            return None
        self._next_guess = 2 * calls
        needs = {r: self.needed(r) for r in active.tolist() if self._rounds.drawn[r]}
        short = {r: needed for r, needed in needs.items() if needed > self.most[r]}
        if not short:
            return None
        self._next_guess = math.inf
        worst = max(short, key=lambda r: short[r])
        id, most = self._batch.requests[worst].id, int(self.most[worst])
        return Notice(
            BUDGET,
            f"after {calls:,} calls of the model, by a guess, record {id} needs "
            f"{about(short[worst])} draws and has {most:,} (`max_draws`); a sample past them is "
            "its `fallback`: take disc, or smc with weights, or end sooner with a smaller "
            "`max_draws`",
            {"record": id, "needed": min(round(short[worst]), MOST_NEEDED), "budget": most},
        )
