"""Lookahead with a reward: of the likeliest next events, the one with the best future.

Constrained decoding with lookahead heuristics (Lu et al. 2022), as "Constrained Decoding with
Speculative Lookaheads" puts it in Algorithm 2 (design, ALGORITHMS section 4). Two deviations from
the listing: an event is emitted after all candidates were scored, not inside their loop, and what
is scored holds the candidate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.ledger import TARGET_CALLS
from cdec.samplers.drafts.speculate import DraftRun, opened
from cdec.samplers.lookahead.rollout import forced_chain
from cdec.samplers.lookahead.run import Plan
from cdec.samplers.lookahead.sampler import RewardSampler
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.frontier import with_room

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.lookahead.run import Lookahead, Planner
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.frontier import Frontier


class CdlhSampler(RewardSampler):
    """Takes the candidate whose rollout by the target itself has the best reward.

    At each position the k most probable allowed events of the target are candidates, the end of
    the text being one event; each is followed by d greedy ones, and the reward scores all that was
    generated. Of equal rewards the more probable candidate wins; where the constraint leaves one
    event, or at the length limit, nothing is rolled out. k is ``branch``, d is ``depth``.
    """

    method: ClassVar[Method] = METHODS["cdlh"]

    def planner(
        self, ahead: Lookahead, draft: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans one event a walk."""
        return EventPlanner(ahead)

    def fields(
        self, draft: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return the cost: target calls an event."""
        calls = ledger.totals(TARGET_CALLS).tolist()
        pairs = zip(calls, events.tolist(), strict=True)
        return {"cost_per_token": [call / n if n else None for call, n in pairs]}


class CdlhApproxSampler(RewardSampler):
    """``CdlhSampler`` whose draft model rolls out, so the target is called once an event.

    Args:
        draft: A language model of the same vocabulary; the mask applies to it as well.

    Raises:
        UsageError: No draft model.
    """

    method: ClassVar[Method] = METHODS["cdlh-approx"]

    def planner(
        self, ahead: Lookahead, draft: DraftRun | None, batch: Batch, draws: NDArray[np.int64]
    ) -> Planner:
        """Return what plans one event a walk."""
        return EventPlanner(ahead)

    def fields(
        self, draft: DraftRun | None, ledger: Ledger, events: NDArray[np.int64]
    ) -> dict[str, list[Any]]:
        """Return the draft's calls, and the cost of both models."""
        return opened(draft).fields(events)


class EventPlanner:
    """Plans one event at a time.

    Args:
        ahead: Chooses it.
    """

    def __init__(self, ahead: Lookahead) -> None:
        self._ahead = ahead
        ahead.target.begin()
        # By context: whether a pass read all that is forced from there on.
        self._is_covered = np.zeros(1024, np.bool_)

    def __call__(self, walks: Frontier, alive: NDArray[np.int64]) -> Plan:
        """Return the event of each walk; what the constraint forces next shares its pass."""
        target = self._ahead.target
        # What a rollout of the target read already is no further call.
        is_new = (~target.is_read(walks.context)).astype(np.int64)
        walks.batch.count_calls(walks.request, walks.draw, is_new)
        self._read_on(walks)
        plan = Plan.empty(len(alive))
        plan.append(np.arange(len(alive)), *self._ahead.choose(walks))
        return plan

    def _read_on(self, walks: Frontier) -> None:
        """Evaluate walks and what the constraint forces behind them, each such chain once."""
        self._is_covered = with_room(self._is_covered, walks.context, 0)
        new = np.flatnonzero(~self._is_covered[walks.context])
        if not new.size:
            return
        # Draws that share a prefix come to it together, as nothing is random: so its owner, the
        # lowest of them, is among those that walk the chain.
        levels = forced_chain(walks.take(new))
        self._ahead.target.evaluate(levels)
        for level in levels:
            self._is_covered = with_room(self._is_covered, level.context, 0)
            self._is_covered[level.context] = True
