"""Speculative lookahead: a draft runs ahead, the target verifies it, a reward judges the text.

"Constrained Decoding with Speculative Lookaheads", Algorithm 1 (design, ALGORITHMS section 4): the
draft runs ahead, one pass of the target verifies it, the reward judges what was accepted, and four
scenarios say what follows. Where the listing is silent or would not go on:
- Scenario 1 that accepted nothing (possible with a threshold of 0) emits one event as scenario 4.
- a = n / d is over the events that the draft said, fewer than the depth where its text ended; the
  listing divides by the depth always, and would call such a draft bad that was accepted whole.
- A draft that says nothing, its context being full, counts as nothing accepted: a = 0.
- An accepted end event finishes the text in every scenario, if the accepted events are kept.
- At the length limit there is nothing to draft: the target's most probable event decides whether
  the text ends there; no scenario is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.speculate import DraftRun, opened
from cdec.samplers.lookahead.rollout import Rollout, onward, roll_out
from cdec.samplers.lookahead.run import Plan
from cdec.samplers.lookahead.sampler import RewardSampler
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.decoding import candidate_uniforms
from cdec.samplers.walks.frontier import END, NONE
from cdec.samplers.walks.randomness import TEST

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.lookahead.rollout import DraftEvents, TargetEvents
    from cdec.samplers.lookahead.run import Lookahead, Planner
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.randomness import CandidateUniforms


class Tests:
    """The tests of speculative sampling: each has a uniform of its own.

    A draft that was refused is proposed again where a round kept what came before it: whether it is
    then accepted does not depend on its being refused before.

    Args:
        numbers: Uniforms, by walk and number of the test.
        draft: Knows p, the draft's probability of what it says; None for p = 1.
    """

    def __init__(self, numbers: CandidateUniforms, draft: DraftEvents | None) -> None:
        self._numbers = numbers
        self._draft = draft
        self._done = np.zeros(len(numbers), np.int64)

    def uniforms(self, walks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the number of the next test of distinct walks (int64[n]), float64[n]."""
        found = self._numbers.at(self._done[walks], walks)
        self._done[walks] += 1
        return found

    def log_draft(self, drafted: Rollout, rows: NDArray[np.int64], at: int) -> NDArray[np.float64]:
        """Return log p of what walks ``rows`` drafted, float64[n]; 0 where it is sure."""
        log_p = np.zeros(len(rows))
        if self._draft is not None:
            free = np.flatnonzero(~drafted.forced[rows, at])
            log_p[free] = self._draft.log_share_of(drafted.contexts[rows[free], at])
        return log_p


def verify(
    target: TargetEvents,
    drafted: Rollout,
    alive: NDArray[np.int64],
    tests: Tests | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Accept the events of a draft up to the first refusal.

    Hard rejection accepts what the target thinks most probable. Speculative sampling accepts with
    min(1, q / p), and the law of a greedy draft is a one-hot one: p = 1, so q it is. The rule that
    the paper prints takes for p what the draft's own distribution gives its most probable event:
    more is accepted, and it is not lossless, for that is not the law that the event was drawn from.
    p and q are of the allowed events alone, each of its model.

    Args:
        target: Knows the prefixes of ``drafted``.
        drafted: W walks' drafts.
        alive: int64[W] the walks' numbers in ``tests``.
        tests: Of speculative sampling; None for hard rejection.

    Returns:
        int64[W] events accepted; float64[W, d] log P of the events drafted, -inf from the first
        that was refused on.
    """
    n, depth = drafted.events.shape
    accepted, log_p = np.zeros(n, np.int64), np.full((n, depth), -np.inf)
    going = np.arange(n)
    for at in range(depth):
        going = going[drafted.lengths[going] > at]
        if not going.size:
            break
        if tests is None:
            taken, found = _most_probable(target, drafted, going, at)
        else:
            uniforms = tests.uniforms(alive[going])
            log_draft = tests.log_draft(drafted, going, at)
            taken, found = _sampled(target, drafted, going, at, (uniforms, log_draft))
        going, found = going[taken], found[taken]
        log_p[going, at] = found
        accepted[going] += 1
    return accepted, log_p


def _most_probable(
    target: TargetEvents, drafted: Rollout, rows: NDArray[np.int64], at: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Say which walks ``rows`` drafted the target's best event, bool[n]; its log P, float64[n]."""
    best, log_best = target.best(drafted.contexts[rows, at])
    return best[:, 0] == drafted.events[rows, at], log_best[:, 0]


def _sampled(
    target: TargetEvents,
    drafted: Rollout,
    rows: NDArray[np.int64],
    at: int,
    numbers: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Say which walks ``rows`` pass the test of speculative sampling, bool[n]; log P, float64[n].

    Args:
        numbers: float64[n] uniforms; float64[n] log p.
    """
    uniforms, log_draft = numbers
    walks = drafted.at(rows, np.full(len(rows), at))
    found = target.log_p_of(walks, drafted.events[rows, at])
    return _passes(target, walks, found - log_draft, uniforms), found


def _passes(
    target: TargetEvents,
    walks: Frontier,
    log_p: NDArray[np.float64],
    uniforms: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Say whether each uniform is below q / p, q the masked and renormalised target, bool[n].

    Args:
        log_p: float64[n] log of the target's probability of each event over p.
    """
    log_z = target.masses(walks.context)[0]
    with np.errstate(invalid="ignore"):
        ratio = np.exp(np.minimum(0.0, log_p - log_z))
    # subtle: strictly below, so that an event of probability 0 never passes; nor does NaN, which
    # is what a dead end of the target gives.
    passes: NDArray[np.bool_] = uniforms < ratio
    return passes


SCENARIOS = ("S1", "S2", "S3", "S4")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds by which rounds are judged.

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
        walks.batch.count_calls(walks.request, walks.draw)
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
            walks.batch.count_calls(walks.request, walks.draw, int(at > 0))
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


class CdslSampler(RewardSampler):
    """Keeps what draft, target and reward agree on; looks ahead event by event where they do not.

    Each round the draft proposes d greedy events, one pass of the target accepts the first n, and
    r is the reward of the text with these. Accepted share n/d and r against their thresholds give
    the scenario: S1, both good: the n are kept, and nothing else. S2 and S3, few accepted (r bad,
    r good): up to b greedy events of the target follow, until a rollout of the draft behind them
    has a good reward; if none has, one event by ``cdlh-approx``. S4, r bad: one by ``cdlh-approx``.

    Args:
        draft: A language model of the same vocabulary; the mask applies to it as well.
        branch: k, candidates of ``cdlh-approx``.
        depth: d, events of a draft and of a rollout.
        target_tries: b.
        accept_threshold: From which share accepted a draft is good, 0 to 1.
        reward_threshold: From which reward a text is good.
        verify: ``hard`` accepts the target's most probable events; ``speculative`` accepts each
            with its probability under the target, the lossless test of a greedy draft; ``ratio``,
            the rule as the paper prints it, with that over its probability under the draft, which
            accepts more and is not lossless.
        on_reject: Whether S2 to S4 ``keep`` the n (as the paper's listing) or ``discard`` them (as
            its prose).

    Raises:
        UsageError: No draft model, or an option out of range.
    """

    method: ClassVar[Method] = METHODS["cdsl"]
    verifies: ClassVar[bool] = True
    target_tries: int
    accept_threshold: float
    reward_threshold: float
    verify: str
    on_reject: str

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.thresholds = Thresholds(
            tries=self.target_tries,
            accept=self.accept_threshold,
            reward=self.reward_threshold,
            keeps=self.on_reject == "keep",
        )

    @property
    def takes_most_probable(self) -> bool:
        """True where texts are the most probable ones that are found."""
        return self.verify == "hard"

    def planner(
        self, ahead: Lookahead, draft: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans a round of events a walk."""
        tests = None
        if self.verify != "hard":
            numbers = candidate_uniforms(batch, draws, 1).stream(TEST)
            tests = Tests(numbers, ahead.draft if self.verify == "ratio" else None)
        return DraftedPlanner(ahead, self.thresholds, opened(draft).ledger, tests)

    def fields(
        self, draft: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return what drafting cost and gained, and how often each scenario came up."""
        counts = np.stack([ledger.totals(name) for name in SCENARIOS], 1).astype(np.int64)
        scenarios = [dict(zip(SCENARIOS, row, strict=True)) for row in counts.tolist()]
        return {**opened(draft).fields(events), "scenario_counts": scenarios}
