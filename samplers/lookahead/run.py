"""Lookahead at work on one batch: models, reward and accounts, and the choice that they make.

A ``Plan`` holds the next events of some walks, decided ahead, and the walks then take them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError
from cdec.samplers.lookahead.rollout import DraftEvents, Greedy, TargetEvents, onward, roll_out
from cdec.samplers.rewards.base import prompt_of
from cdec.samplers.walks.candidates import LENGTH, Candidates, TrajectoryBuffer
from cdec.samplers.walks.decoding import follow_events, note_step
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step, with_room

if TYPE_CHECKING:
    from cdec.samplers.rewards.base import Reward
    from cdec.samplers.walks.batch import Batch


@dataclass(slots=True)
class Plan:
    """The next events of W walks; grows as they are appended.

    Attributes:
        events: int64[W, L] tokens or END; NONE at a dead end. log_p: float64[W, L] log P of each
            under the target.
        lengths: int64[W] how many of them count, at least 1 once planned.
    """

    events: NDArray[np.int64]
    log_p: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> Plan:
        """Return n plans of no events yet."""
        return cls(np.full((n, 1), NONE), np.full((n, 1), -np.inf), np.zeros(n, np.int64))

    def append(
        self, rows: NDArray[np.int64], events: NDArray[np.int64], log_p: NDArray[np.float64]
    ) -> None:
        """Append an event (int64[n], with log P float64[n]) to the plans ``rows`` (int64[n])."""
        at = self.lengths[rows]
        room = self.events.shape[1]
        if int(at.max(initial=0)) >= room:
            more = ((0, 0), (0, room))
            self.events = np.pad(self.events, more, constant_values=NONE)
            self.log_p = np.pad(self.log_p, more, constant_values=-np.inf)
        self.events[rows, at], self.log_p[rows, at] = events, log_p
        self.lengths[rows] += 1


def follow(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    frontier: Frontier,
    plan: Plan,
    target: TargetEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Let walks take the events planned; return those that go on, in the order of ``alive``.

    Args:
        buffer: Written.
        alive: int64[W] rows of ``buffer``, ascending. frontier: The W walks.
        plan: Theirs; the target knows every prefix that an event is taken at.
        target: Says what the masks left there.
    """
    everyone, stopped = alive, []
    for at in range(int(plan.lengths.max(initial=0))):
        walks = np.searchsorted(everyone, alive)
        goes_on = plan.lengths[walks] > at
        stops = np.flatnonzero(~goes_on)
        if stops.size:
            stopped.append((alive[stops], frontier.take(stops)))
            rows = np.flatnonzero(goes_on)
            alive, frontier, walks = alive[rows], frontier.take(rows), walks[rows]
        if not alive.size:
            break
        alive, frontier = _emit(
            buffer, alive, frontier, plan.events[walks, at], plan.log_p[walks, at], target
        )
        alive, frontier = without_overlong(buffer, alive, frontier)
    for rows, walks_there in stopped:
        alive, frontier = np.concatenate([alive, rows]), frontier.joined(walks_there)
    order = np.argsort(alive)
    return (alive[order], frontier.take(order)) if stopped else (alive, frontier)


def without_overlong(
    buffer: TrajectoryBuffer, alive: NDArray[np.int64], frontier: Frontier
) -> tuple[NDArray[np.int64], Frontier]:
    """Finish the walks that have all their tokens and are no members; return the others."""
    cut = frontier.is_cut()
    if not cut.any():
        return alive, frontier
    buffer.finish(alive[cut], LENGTH, frontier.context[cut])
    rows = np.flatnonzero(~cut)
    return alive[rows], frontier.take(rows)


def _emit(
    buffer: TrajectoryBuffer,
    alive: NDArray[np.int64],
    frontier: Frontier,
    chosen: NDArray[np.int64],
    log_p: NDArray[np.float64],
    target: TargetEvents,
) -> tuple[NDArray[np.int64], Frontier]:
    """Let each walk take an event, as ``decoding.step_on`` does once it is chosen."""
    n = len(alive)
    log_z, log_end = target.masses(frontier.context)
    # The ledger counts the calls, so the tree must not: as what a run covers.
    frontier = replace(frontier, in_run=np.ones(n, np.bool_))
    everyone = np.arange(n)
    step = Step(frontier, everyone, np.arange(n + 1), everyone, None, None, everyone)
    taken = SampledEvents(chosen, log_p, log_z, np.zeros(n), log_end, np.zeros(0))
    note_step(step, taken)
    alive, frontier = follow_events(buffer, alive, frontier, step, taken)
    # subtle: where none goes on, the frontier comes back as it was.
    return alive, frontier if alive.size else frontier.take(alive)


class Scorer:
    """Scores what was generated after the prompts of a batch.

    A record whose reward fails gets its error in ``batch.errors``, and scores NaN from then on.

    Args:
        batch: The open requests; those whose record the reward refuses fail at once.
        reward: Scores texts.

    Attributes:
        failed: bool[R] requests with an error.
    """

    def __init__(self, batch: Batch, reward: Reward) -> None:
        self._batch = batch
        self._reward = reward
        self._tree: Any = batch.model.tree
        self._scores = np.zeros(1024)
        self._is_known = np.zeros(1024, np.bool_)
        roots = np.unique(batch.roots[batch.roots >= 0]).tolist()
        self._empty: dict[int, bytes] = dict.fromkeys(roots, b"")
        self._bytes = dict(self._empty)
        self._asked = [
            "" if number in batch.errors else prompt_of(request, batch.model.vocabulary)
            for number, request in enumerate(batch.requests)
        ]
        # Of a begun answer, what stands in the prompt is of the text as well.
        self._begun = [
            b"" if request.constraint is None else request.constraint.facts.begun
            for request in batch.requests
        ]
        self.failed = np.zeros(len(batch.requests), np.bool_)
        for number, request in enumerate(batch.requests):
            try:
                reward.check(request.input)
            except CdecError as error:
                self._fail(number, error)

    def scores(
        self, request: NDArray[np.int64], contexts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the rewards of the texts at ``contexts`` (int64[n]) of requests, float64[n].

        Cost: one call of the reward for those that were not scored before.
        """
        self._is_known = with_room(self._is_known, contexts, 0)
        self._scores = with_room(self._scores, contexts, np.nan)
        new, first = np.unique(contexts[~self._is_known[contexts]], return_index=True)
        if new.size:
            owners = request[~self._is_known[contexts]][first]
            self._score(new[~self.failed[owners]], owners[~self.failed[owners]])
        found: NDArray[np.float64] = self._scores[contexts]
        return np.where(self.failed[request], np.nan, found)

    def remember(self, contexts: NDArray[np.int64]) -> None:
        """Keep the texts at ``contexts`` (int64[n]), where walks stand now, and no others."""
        texts = {node: self._text(node) for node in set(contexts.tolist())}
        self._bytes = self._empty | texts

    def _score(self, contexts: NDArray[np.int64], owners: NDArray[np.int64]) -> None:
        if not contexts.size:
            return
        requests = self._batch.requests
        numbers = owners.tolist()
        texts = [
            (self._begun[number] + self._text(node)).decode("utf-8", "replace")
            for node, number in zip(contexts.tolist(), numbers, strict=True)
        ]
        found, errors = self._reward.evaluate(
            texts, [requests[n].input for n in numbers], [self._asked[n] for n in numbers]
        )
        self._scores[contexts] = found
        self._is_known[contexts] = True
        for row, error in sorted(errors.items()):
            self._fail(numbers[row], error)

    def _fail(self, number: int, error: CdecError) -> None:
        self._batch.errors.setdefault(number, error)
        self.failed[number] = True

    def _text(self, node: int) -> bytes:
        """Return the bytes of a context's text, from the nearest one above that is remembered."""
        parent, token = self._tree.parent, self._tree.token
        tokens: list[int] = []
        while node not in self._bytes:
            tokens.append(int(token[node]))
            node = int(parent[node])
        return self._bytes[node] + self._batch.model.vocabulary.decode(tokens[::-1])


Planner: TypeAlias = Callable[[Frontier, NDArray[np.int64]], Plan]
"""Plans the next events of W walks; int64[W] are their rows in the recorder, ascending."""


class Lookahead:
    """Choice among candidates by looking ahead.

    Args:
        batch: The open requests.
        reward: Scores generated texts.
        target: Candidates of a position.
        draft: A greedy draft that rolls out; None lets the target do it.
        depth: d, events of a rollout.

    Attributes:
        target, scorer: As named. roller: What rolls out: the draft, or the target.
    """

    def __init__(
        self,
        batch: Batch,
        reward: Reward,
        target: TargetEvents,
        draft: DraftEvents | None,
        depth: int,
    ) -> None:
        self.target = target
        self.draft = draft
        self.roller: Greedy = target if draft is None else draft
        self.scorer = Scorer(batch, reward)
        self.depth = depth
        self._batch = batch

    def decode(
        self, request: NDArray[np.int64], draw: NDArray[np.int64], planner: Planner
    ) -> Candidates:
        """Walk from the prompts to the ends, as planned; W walks of draws (int64[W]) of requests.

        Walks of a record whose reward fails are left where they stand.
        """
        buffer = TrajectoryBuffer(len(request), loops=self._batch.loop_watch(request))
        alive, frontier = np.arange(len(request)), Frontier.at_start(self._batch, request, draw)
        alive, frontier = without_overlong(buffer, alive, frontier)
        while alive.size:
            rows = np.flatnonzero(~self.scorer.failed[frontier.request])
            if len(rows) < len(alive):
                alive, frontier = alive[rows], frontier.take(rows)
                continue
            self.scorer.remember(frontier.context)
            plan = planner(frontier, alive)
            alive, frontier = follow(buffer, alive, frontier, plan, self.target)
        return buffer.candidates()

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
        target = int(self._batch.path_calls.sum())
        return 0 if self.draft is None else self.draft.path_calls, target

    def satisfaction(self, reward: Reward, chosen: Candidates) -> dict[str, list[Any]]:
        """Return ``reward`` and what follows from it of every draw's text, D values each."""
        return reward.satisfaction(self.scorer.scores(self._batch.draw_request, chosen.last))
