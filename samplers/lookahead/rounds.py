"""DraftedPlanner: the rounds of constrained decoding with speculative lookaheads (CDSL).

Algorithm 1 of "Constrained Decoding with Speculative Lookaheads": the draft runs ahead, one pass of
the target verifies it, the reward judges what was accepted, and four scenarios say what follows.
Where the listing is silent or would not go on:
- Scenario 1 that accepted nothing (possible with a threshold of 0) emits one event as scenario 4.
- A draft that says nothing, its context being full, counts as nothing accepted: a = 0.
- An accepted end event finishes the text in every scenario, if the accepted events are kept.
- At the length limit there is nothing to draft: the target's most probable event decides whether
  the text ends there; no scenario is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.lookahead.plan import Plan
from cdec.samplers.lookahead.rollout import Rollout, onward, roll_out
from cdec.samplers.lookahead.verification import Tests, verify
from cdec.samplers.walks.events import END, NONE

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.lookahead.run import Lookahead
    from cdec.samplers.walks.frontier import Frontier

SCENARIOS = ("S1", "S2", "S3", "S4")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What rounds are judged by.

    Attributes:
        tries: b, greedy events of the target that are tried where the draft was refused.
        accept: a_t, share of the drafted events accepted from which a draft is good.
        reward: r_t, reward from which a text is good.
        keeps: Whether scenarios 2 to 4 keep the events accepted.
    """

    tries: int
    accept: float
    reward: float
    keeps: bool


class DraftedPlanner:
    """Plans a round of events a walk.

    Args:
        ahead: Drafts, scores and chooses.
        thresholds: Judge.
        ledger: Books what drafting gained, and the scenarios.
        tests: Of speculative sampling; None for hard rejection.
    """

    def __init__(
        self,
        ahead: Lookahead,
        thresholds: Thresholds,
        ledger: Ledger,
        tests: Tests | None,
    ) -> None:
        self._ahead, self._target = ahead, ahead.target
        self._thresholds = thresholds
        self._ledger = ledger
        self._tests = tests

    def __call__(self, walks: Frontier, alive: NDArray[np.int64]) -> Plan:
        """Return the events of each walk's round."""
        drafted = roll_out(self._ahead.roller, walks, self._ahead.depth)
        self._target.path_calls += len(alive)
        self._target.evaluate(drafted.prefixes())
        accepted, log_p = verify(self._target, drafted, alive, self._tests)
        scenario = self._scenarios(walks, drafted, accepted)
        self._book(walks, drafted, accepted, scenario)
        kept = np.where(self._thresholds.keeps | (scenario == 0), accepted, 0)
        plan = Plan.empty(len(alive))
        for at in range(int(kept.max(initial=0))):
            rows = np.flatnonzero(kept > at)
            plan.append(rows, drafted.events[rows, at], log_p[rows, at])
        everyone = np.arange(len(alive))
        wanting = ((scenario > 0) | (kept == 0)) & drafted.is_open(everyone, kept)
        trying = np.flatnonzero(wanting & ((scenario == 1) | (scenario == 2)))
        wanting[trying[self._tried(plan, drafted.at(trying, kept[trying]), trying)]] = False
        rows = np.flatnonzero(wanting)
        if rows.size:
            self._choose(plan, rows, drafted.at(rows, kept[rows]))
        return plan

    def _scenarios(
        self, walks: Frontier, drafted: Rollout, accepted: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return each walk's scenario, int64[W] from 0; 4 is the length limit."""
        share = accepted / np.maximum(drafted.lengths, 1)
        reached = drafted.contexts[np.arange(len(accepted)), accepted]
        is_good = self._ahead.scores_at(walks, reached) >= self._thresholds.reward
        scenario = np.where(is_good, 0, 3)
        low = share < self._thresholds.accept
        scenario[low] = np.where(is_good[low], 2, 1)
        scenario[walks.depth >= walks.batch.limits[walks.request]] = len(SCENARIOS)
        return scenario

    def _tried(self, plan: Plan, walks: Frontier, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Let walks (of plans ``rows``, int64[n]) try the target's own events; who succeeded.

        Those whose reward ahead reaches the threshold get the events tried into their plans.
        """
        succeeded, at_walks = np.zeros(len(rows), np.bool_), np.arange(len(rows))
        tried: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        for at in range(self._thresholds.tries):
            below = np.flatnonzero(walks.depth < walks.batch.limits[walks.request])
            at_walks, walks = at_walks[below], walks.take(below)
            if not at_walks.size:
                break
            # The verification told what the first of them is; each further one takes a call.
            self._target.path_calls += len(at_walks) if at else 0
            self._target.evaluate([walks])
            best, log_best = self._target.best(walks.context)
            tried.append((np.full(len(rows), NONE), np.zeros(len(rows))))
            tried[at][0][at_walks], tried[at][1][at_walks] = best[:, 0], log_best[:, 0]
            scores, onto, is_open = self._looked_ahead(walks, best[:, 0])
            good = scores >= self._thresholds.reward
            succeeded[at_walks[good]] = True
            taken = at_walks[good]
            for tokens, log_p in tried if taken.size else ():
                plan.append(rows[taken], tokens[taken], log_p[taken])
            still = np.flatnonzero(~good[is_open])
            at_walks, walks = at_walks[is_open[still]], onto.take(still)
        return succeeded

    def _looked_ahead(
        self, walks: Frontier, events: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], Frontier, NDArray[np.int64]]:
        """Score each walk after its event (int64[n]) and a rollout.

        Returns:
            float64[n], NaN at dead ends; where those that go on stand after the event; int64[m]
            which of the walks these are.
        """
        scores = np.full(len(events), np.nan)
        ends = np.flatnonzero(events == END)
        tokens = np.flatnonzero(events >= 0)
        reached, is_open = onward(walks, tokens, events[tokens])
        contexts = reached.context.copy()
        open_walks = reached.take(is_open)
        if is_open.size:
            contexts[is_open] = roll_out(self._ahead.roller, open_walks, self._ahead.depth).last
        rows = np.concatenate([tokens, ends])
        contexts = np.concatenate([contexts, walks.context[ends]])
        if rows.size:
            scores[rows] = self._ahead.scorer.scores(walks.request[rows], contexts)
        return scores, open_walks, tokens[is_open]

    def _choose(self, plan: Plan, rows: NDArray[np.int64], walks: Frontier) -> None:
        """Append one event of ``cdlh-approx`` to plans ``rows`` (int64[n])."""
        plan.append(rows, *self._ahead.choose(walks))

    def _book(
        self,
        walks: Frontier,
        drafted: Rollout,
        accepted: NDArray[np.int64],
        scenario: NDArray[np.int64],
    ) -> None:
        """Book the events put to the test, those accepted, and the scenario of each walk."""
        place = np.arange(drafted.events.shape[1])
        asked = (place < drafted.lengths[:, None]) & ~drafted.forced
        tested = (asked & (place <= accepted[:, None])).sum(1)
        passed = (asked & (place < accepted[:, None])).sum(1)
        owner = walks.request, walks.draw
        self._ledger.add("verified", *owner, tested)
        self._ledger.add("accepted", *owner, passed)
        self._ledger.add("rounds", *owner, tested > 0)
        for number, name in enumerate(SCENARIOS):
            self._ledger.add(name, *owner, scenario == number)
