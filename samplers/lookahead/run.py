"""Lookahead: models, reward and accounts at work on one batch, and the choice that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.lookahead.models import DraftEvents, Greedy, TargetEvents
from cdec.samplers.lookahead.plan import Plan, follow, without_overlong
from cdec.samplers.lookahead.rollout import onward, roll_out
from cdec.samplers.lookahead.scoring import Scorer
from cdec.samplers.walks.candidates import Candidates, Recorder
from cdec.samplers.walks.events import END, NONE
from cdec.samplers.walks.frontier import Frontier

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.drafts.model_draft import ModelDrafting
    from cdec.samplers.rewards.base import Reward
    from cdec.samplers.walks.batch import Batch

Planner: TypeAlias = Callable[[Frontier, NDArray[np.int64]], Plan]
"""Plans the next events of W walks; int64[W] are their rows in the recorder, ascending."""


class Lookahead:
    """What chooses among candidates by looking ahead.

    Args:
        batch: The open requests.
        reward: Scores generated texts.
        ledger: Books the target's calls.
        branch: k, candidates a position; no more than there are ids. depth: d, events of a rollout.
        max_rows: Prefixes that are evaluated together; bounds memory, changes no account.
        drafting: A greedy draft that rolls out; None lets the target do it.

    Attributes:
        target, scorer: As named. roller: What rolls out: the draft, or the target.
    """

    def __init__(
        self,
        batch: Batch,
        reward: Reward,
        ledger: Ledger,
        branch: int,
        depth: int,
        max_rows: int,
        drafting: ModelDrafting | None = None,
    ) -> None:
        self.target = TargetEvents(ledger, branch, max_rows)
        self.draft = None if drafting is None else DraftEvents(drafting, max_rows)
        self.roller: Greedy = self.target if self.draft is None else self.draft
        self.scorer = Scorer(batch, reward)
        self.depth = depth
        self._batch = batch

    def decode(
        self, request: NDArray[np.int64], draw: NDArray[np.int64], planner: Planner
    ) -> Candidates:
        """Walk from the prompts to the ends, as planned; W walks of draws (int64[W]) of requests.

        Walks of a record whose reward fails are left where they stand.
        """
        record = Recorder(len(request), loops=self._batch.loop_watch(request))
        alive, frontier = np.arange(len(request)), Frontier.at_start(self._batch, request, draw)
        alive, frontier = without_overlong(record, alive, frontier)
        while alive.size:
            rows = np.flatnonzero(~self.scorer.failed[frontier.request])
            if len(rows) < len(alive):
                alive, frontier = alive[rows], frontier.take(rows)
                continue
            self.scorer.remember(frontier.context)
            plan = planner(frontier, alive)
            alive, frontier = follow(record, alive, frontier, plan, self.target)
        return record.candidates()

    def scores_at(self, walks: Frontier, contexts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rewards of the texts at ``contexts`` (int64[n]) of n walks, float64[n]."""
        return self.scorer.scores(walks.request, contexts)

    def rolled(self, walks: Frontier) -> NDArray[np.float64]:
        """Return the rewards of n walks after a rollout of each, float64[n]."""
        return self.scores_at(walks, roll_out(self.roller, walks, self.depth).last)

    def choose(self, walks: Frontier) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Choose the candidate whose rollout has the best reward; a tie goes to the more probable.

        At the length limit, where nothing but an end can come, the most probable event is taken.

        Args:
            walks: W prefixes that the target knows.

        Returns:
            int64[W] events, NONE at dead ends; float64[W] log P of each.
        """
        events, log_p = self.target.best(walks.context)
        at_limit = walks.depth >= walks.batch.limits[walks.request]
        candidate = events != NONE
        candidate[at_limit | (candidate.sum(1) < 2)] = False
        best = np.zeros(len(events), np.int64)
        if candidate.any():
            scores = self._candidate_scores(walks, events, candidate)
            best = scores.argmax(1)
        everyone = np.arange(len(events))
        return events[everyone, best], log_p[everyone, best]

    def _candidate_scores(
        self, walks: Frontier, events: NDArray[np.int64], candidate: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the reward after each candidate, float64[W, k]; -inf for what is none."""
        rows, places = np.nonzero(candidate)
        chosen = events[rows, places]
        # An end event leaves the text as it is; after a token, something may still come.
        contexts = walks.context[rows]
        tokens = np.flatnonzero(chosen != END)
        reached, is_open = onward(walks, rows[tokens], chosen[tokens])
        contexts[tokens] = reached.context
        if is_open.size:
            rollout = roll_out(self.roller, reached.take(is_open), self.depth)
            contexts[tokens[is_open]] = rollout.last
        scores = np.full(events.shape, -np.inf)
        found = self.scorer.scores(walks.request[rows], contexts)
        scores[rows, places] = np.where(np.isnan(found), -np.inf, found)
        return scores

    def path_calls(self) -> tuple[int, int]:
        """Return draft and target calls without any cache, as papers count them."""
        return 0 if self.draft is None else self.draft.path_calls, self.target.path_calls

    def satisfaction(self, reward: Reward, chosen: Candidates) -> dict[str, list[Any]]:
        """Return ``reward`` and what follows from it of every draw's text, D values each."""
        return reward.satisfaction(self.scorer.scores(self._batch.draw_request, chosen.last))
