"""Exact sampling: adaptive rejection, so that every accepted text is an independent draw of Q.

Constrained adaptive rejection sampling over ASAp's tree (arXiv 2405.21047, section 3, as proposal):
a candidate is drawn with probability P * (prod of 1 / Z over the prefixes the tree does not hold) /
c(root) and accepted with probability prod Z, so each text comes out accepted with probability
P / c(root), whatever the tree knows. What candidates see, accepted or not, lowers c(root) towards
P(S), so fewer and fewer are refused. A round's acceptance tests are read in index order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.learning.bookkeeping import Budget, Learning, wanted_of
from cdec.samplers.learning.rounds import Rounds, SavedTree
from cdec.samplers.method import Method
from cdec.samplers.options import TRIES
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import resample

FALLBACKS = {"disc": "asymptotic", "asap": "asymptotic", "none": "exact"}
"""Method of a sample past the budget, and its exactness: one of K more candidates, taken in
proportion to its weight; the next candidate, with its weight; or no text at all."""
MOST_TRIES = 1 << 16
"""Largest K of the fallback ``disc``: its candidates are one round, which is never split, and take
a kilobyte and more each."""


class ExactSampler(Sampler):
    """Draws independent exact samples of Q = P(. | S), within a budget of candidates.

    A sample past the budget has ``finish_reason`` "budget" and ``accepted`` false. Where nothing
    has any mass, the samples end as ``dead_end`` at once.

    Args:
        abort: Draw unmasked where the tree knows nothing and give up at the first event that is not
            allowed, instead of masking and testing at the end: the same law.
        max_draws: Budget: candidates per sample asked for, all samples of a record together.
        fallback: ``disc``, ``asap`` or ``none``: what a sample past the budget is.
        K: K of the fallback ``disc``, at most ``MOST_TRIES``.
        tree: Kept between runs; a budget is a run's own.
        draft: Proposes the tokens of candidates where the tree knows nothing, the same law; not
            with ``abort``.
    """

    method: ClassVar[Method] = METHODS["exact"]
    exactness = "exact"
    round: int
    abort: bool
    max_draws: int
    fallback: str
    K: int
    tree_cache: int
    max_walks: int
    tree: SavedTree | None

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse too many tries of the fallback, and a draft of candidates that have no masks."""
        if options["fallback"] == "disc":
            replace(TRIES, at_most=MOST_TRIES).check(options["K"])
        if options["abort"] and options["draft"] is not None:
            raise UsageError(
                "`abort` and `draft` were both given: one draws without masks, one verifies with "
                "them",
                hint="Give one of `abort` and `draft`.",
                option="abort",
            )

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        rounds = self._rounds(batch, draft)
        wanted = wanted_of(batch)
        # The first candidates, rounds being whole: as many as the samples, which are drawn anyway.
        estimated = np.minimum(-(-wanted // self.round) * self.round, wanted * self.max_draws)
        learning = Learning(batch, rounds, estimated)
        learning.draw_unconstrained(self.max_walks, draft)
        budget = Budget(batch, rounds, learning, self.max_draws, self.progress)
        active = learning.constrained
        while active.size:
            budget.tell(active)
            counts = np.minimum(self.round, (budget.most - rounds.drawn)[active])
            for drawn in rounds.draw(active, counts):
                learning.add(drawn)
                budget.add(drawn)
                learning.take(drawn, np.flatnonzero(drawn.passed))
            is_open = (learning.taken < wanted) & (rounds.drawn < budget.most)
            active = active[is_open[active]]
            active = np.array([r for r in active.tolist() if rounds.log_root(r) > -np.inf], int)
        accepted = learning.iteration > 0
        open_ones = learning.constrained[(learning.taken < wanted)[learning.constrained]].tolist()
        spent = {r: budget.warning(r) for r in open_ones if rounds.log_root(r) > -np.inf}
        over_budget = self._fill(batch, learning, rounds)
        rounds.save()
        late = np.flatnonzero(over_budget).tolist()
        warnings = {row: spent[int(batch.draw_request[row])] for row in late}
        return self._outcome(learning, accepted, over_budget, warnings)

    def _rounds(self, batch: Batch, draft: Draft | None) -> Rounds:
        return Rounds(
            batch,
            size=self.round,
            max_walks=self.max_walks,
            tree_cache=self.tree_cache,
            aborting=self.abort,
            file=self.tree,
            draft=draft,
        )

    def _fill(self, batch: Batch, learning: Learning, rounds: Rounds) -> NDArray[np.bool_]:
        """Give every draw that is still open its fallback; return which ran out of budget."""
        over_budget = np.zeros(len(batch.seeds), np.bool_)
        open_ones = learning.constrained[(learning.taken < learning.wanted)[learning.constrained]]
        has_mass = np.array([rounds.log_root(r) > -np.inf for r in open_ones.tolist()], np.bool_)
        falling = has_mass & (self.fallback != "none")
        for r, late in zip(open_ones[~falling].tolist(), has_mass[~falling], strict=True):
            missing = int(learning.wanted[r] - learning.taken[r])
            over_budget[learning.take_nothing(r, missing)] = late
        self._fall_back(learning, rounds, open_ones[falling], over_budget)
        return over_budget

    def _fall_back(
        self,
        learning: Learning,
        rounds: Rounds,
        active: NDArray[np.int64],
        over_budget: NDArray[np.bool_],
    ) -> None:
        """Draw the open samples of requests (int64[n]) without acceptance, and mark them."""
        rounds.aborting = False
        tries = self.K if self.fallback == "disc" else 1
        while active.size:
            for drawn in rounds.draw(active, np.full(len(active), tries)):
                learning.add(drawn)
                # The last acceptance test's number is free: nothing is tested here.
                row = resample(drawn.candidates.log_x[None], drawn.tests[-1:])
                over_budget[learning.take(drawn, row, whole=True)] = True
            active = active[(learning.taken < learning.wanted)[active]]

    def _outcome(
        self,
        learning: Learning,
        accepted: NDArray[np.bool_],
        over_budget: NDArray[np.bool_],
        warnings: Mapping[int, Mapping[str, object]],
    ) -> Outcome:
        chosen = learning.chosen()
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        late = log_x if self.fallback == "asap" else np.full(len(log_x), np.nan)
        other = FALLBACKS[self.fallback]
        return Outcome(
            chosen=chosen,
            exactness=[other if late else self.exactness for late in over_budget.tolist()],
            log_weight=np.where(accepted & chosen.is_complete, 0.0, late),
            log_candidate_weight=log_x,
            per_draw={
                "accepted": accepted.tolist(),
                "iteration": learning.iterations(),
                "draws": learning.draws(),
            },
            per_request=learning.fields(),
            owners=learning.owners(),
            seeds=learning.seeds(),
            over_budget=over_budget,
            warnings=warnings,
        )
