"""Samples taken from the candidates of a shared tree: their cost, and the budget of candidates."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import Notice
from cdec.core.progress import Progress, Stage, silent
from cdec.core.text_warnings import BUDGET, MOST_NEEDED, about, over_budget
from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import LENGTH, STUCK, Candidates, TrajectoryBuffer, concatenate
from cdec.samplers.walks.decoding import candidate_uniforms, chunks, draw_candidates
from cdec.samplers.walks.mass import distinct_ess, estimate, length_mass_upper, rising

if TYPE_CHECKING:
    from cdec.samplers.drafts.base import Draft


class Learning:
    """Candidates and taken samples of every record of a batch, D draws in all.

    Args:
        batch: The open requests.
        rounds: Where candidates come from.
        estimated: int64[R] candidates, the first ones of each record, from which the mass is
            estimated: numbers fixed in advance, however many are drawn.

    Attributes:
        constrained: int64[...] requests with a constraint and at least one draw.
        wanted: int64[R] draws of each request. taken: int64[R] samples taken so far.
        iteration: int64[D] number of the candidate taken in this run, from 1; 0 for none.
    """

    def __init__(self, batch: Batch, rounds: Rounds, estimated: NDArray[np.int64]) -> None:
        self._batch = batch
        self._rounds = rounds
        count = len(batch.requests)
        self.wanted = wanted_of(batch)
        self.taken = np.zeros(count, np.int64)
        self.constrained = np.flatnonzero((self.wanted > 0) & (batch.session_of != UNCONSTRAINED))
        self._first = np.cumsum(self.wanted) - self.wanted
        self._estimated = estimated
        self._drawn: dict[int, list[Round]] = {}
        self._parts: list[Candidates] = []
        self._rows: list[NDArray[np.int64]] = []
        self.iteration = np.zeros(len(batch.seeds), np.int64)
        self._spent = np.zeros(len(batch.seeds), np.int64)

    def add(self, drawn: Round) -> None:
        """Remember the weights of a round's candidates; their tokens only if they are taken."""
        self._drawn.setdefault(drawn.request, []).append(drawn.slim())

    def take(
        self, drawn: Round, rows: NDArray[np.int64], *, whole: bool = False
    ) -> NDArray[np.int64]:
        """Take candidates of a round as the record's next samples.

        Args:
            drawn: The round.
            rows: int64[n] candidates, in order.
            whole: Whether all of the round was spent on them, not only what comes before.

        Returns:
            int64[m] the draws they became, m <= n: never more than the record still wants.
        """
        r = drawn.request
        rows = rows[: self.wanted[r] - self.taken[r]]
        draws: NDArray[np.int64] = self._first[r] + self.taken[r] + np.arange(len(rows))
        self.taken[r] += len(rows)
        self.iteration[draws] = drawn.first + rows + 1
        self._spent[draws] = drawn.first + (len(drawn.tests) if whole else rows + 1)
        self._parts.append(drawn.candidates.take(rows))
        self._rows.append(draws)
        return draws

    def take_nothing(self, request: int, n: int) -> NDArray[np.int64]:
        """Fill the next ``n`` samples of a record with no text; return the draws they became.

        They end as dead ends, or by the length limit where that is what cut valid texts off.
        """
        draws: NDArray[np.int64] = self._first[request] + self.taken[request] + np.arange(n)
        buffer = TrajectoryBuffer(n)
        is_cut = self._batch.tree.log_truncated[request] > -np.inf
        buffer.finish(np.arange(n), LENGTH if is_cut else STUCK, np.full(n, -1, np.int64))
        self.taken[request] += n
        self._parts.append(buffer.candidates())
        self._rows.append(draws)
        return draws

    def draw_unconstrained(self, max_walks: int, draft: Draft | None = None) -> None:
        """Draw the samples of the requests without a constraint, from the model itself."""
        batch = self._batch
        rows = np.flatnonzero(batch.session_of[batch.draw_request] == UNCONSTRAINED)
        for chunk in chunks(len(rows), max_walks):
            draws = rows[chunk]
            uniforms = candidate_uniforms(batch, draws, 1)
            if draft is None:
                self._parts.append(draw_candidates(batch, draws, uniforms))
            else:
                self._parts.append(draft.draw_candidates(batch, draws, uniforms))
            self._rows.append(draws)
            self.iteration[draws] = 1

    def chosen(self) -> Candidates:
        """Return the D samples."""
        return concatenate(self._parts).take(np.argsort(np.concatenate(self._rows)))

    def owners(self) -> dict[int, NDArray[np.int64]]:
        """Return for each constrained request the draw that each candidate was drawn for."""
        found = {}
        for r in self.constrained.tolist():
            numbers = np.arange(self._rounds.drawn[r])
            owner = np.searchsorted(self._until(r), numbers, side="right")
            found[r] = np.minimum(owner, self.wanted[r] - 1)
        return found

    def fields(self) -> dict[int, dict[str, object]]:
        """Return the mass fields that all samples of a record share, by request."""
        fields: dict[int, dict[str, object]] = {}
        for r in self.constrained.tolist():
            first = slice(int(self._estimated[r]))
            log_x = self._column(r, "log_x")[first]
            weights = rising(len(log_x), int(self._rounds.before[r]))
            bracket = self._batch.tree.bounds(r, int(self._batch.roots[r]))
            fields[r] = {
                **estimate(log_x, bracket, weights).fields(),
                **bracket.fields(),
                "length_mass_upper": length_mass_upper(
                    log_x, self._column(r, "log_truncated")[first]
                ),
                "ess": distinct_ess(log_x, self._column(r, "last")[first]),
                "round": self._rounds.size,
            }
        return fields

    def iterations(self) -> list[int]:
        """Return how many candidates the tree had seen with each draw's own, 0 for none, D ints.

        Candidates of earlier runs on the same tree count.
        """
        before = self._rounds.before[self._batch.draw_request]
        numbers: list[int] = np.where(self.iteration > 0, before + self.iteration, 0).tolist()
        return numbers

    def seeds(self) -> list[int]:
        """Return the seed each draw's candidates come from, D of them."""
        return [self._rounds.seed(r) for r in self._batch.draw_request.tolist()]

    def draws(self) -> list[int | None]:
        """Return the candidates after the sample taken before, up to each draw's own, D of them.

        None without a constraint.
        """
        found: list[int | None] = [None] * len(self.iteration)
        for r in self.constrained.tolist():
            rows = slice(int(self._first[r]), int(self._first[r] + self.wanted[r]))
            found[rows] = np.diff(self._until(r), prepend=0).tolist()
        return found

    def _until(self, request: int) -> NDArray[np.int64]:
        """Return how many candidates were drawn when each sample was taken, rising, int64[n]."""
        rows = slice(int(self._first[request]), int(self._first[request] + self.wanted[request]))
        until = self._spent[rows]
        return np.where(until > 0, until, self._rounds.drawn[request])

    def _column(self, request: int, name: str) -> NDArray[Any]:
        drawn = self._drawn.get(request, [])
        parts = [
            drawing.log_truncated if name == "log_truncated" else getattr(drawing.candidates, name)
            for drawing in drawn
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def wanted_of(batch: Batch) -> NDArray[np.int64]:
    """Return the draws of each request, int64[R]."""
    return np.bincount(batch.draw_request, minlength=len(batch.requests))


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
