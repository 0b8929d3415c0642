"""Speculative decoding: a draft runs ahead of every walk, one pass of the target verifies it.

Each round, the walks of all prompts are drafted together, level by level, then all their prefixes
go through the target in one pass, and the walks follow what it accepts, each as far as it goes;
one more event comes from the target itself. Decoding is that of ``decoding.step_on``, with another
choice of events: lengths, ends, dead ends and the visited tree are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.ledger import Tested
from cdec.samplers.drafts.proposals import Proposal, propose
from cdec.samplers.drafts.verify import Judge, Level, Verifier
from cdec.samplers.walks.candidates import Candidates, Recorder
from cdec.samplers.walks.decoding import step_on
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.randomness import DRAFT

if TYPE_CHECKING:
    from cdec.samplers.drafts.run import DraftRun
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Step
    from cdec.samplers.walks.randomness import CandidateUniforms


def speculate_on(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    judge: Judge,
    run: DraftRun,
    uniforms: CandidateUniforms | None,
    *,
    weighed: bool = True,
) -> None:
    """Walk from where walks stand to their ends, as ``decoding.walk_on``, with a draft.

    Args:
        record: Written.
        alive: int64[n] rows of ``record``. frontier: The n walks.
        judge: Verifies proposals.
        run: The draft at work, and its accounts.
        uniforms: Of the draft's draws; None proposes the most probable events.
        weighed: As in ``decoding.walk_on``.
    """
    run.begin(len(record.log_p))
    while alive.size:
        following = Following(alive, frontier, judge, run, weighed)
        _round(record, following, uniforms)
        alive, frontier = following.stopped()


def decode(
    batch: Batch,
    request: NDArray[np.int64],
    draw: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    run: DraftRun,
    judge: Judge | None = None,
    *,
    weighed: bool = True,
) -> Candidates:
    """Walk from the prompts to the ends, as ``decoding.decode``, with a draft.

    Args:
        batch: The open requests.
        request: int64[W] request of each walk. draw: int64[W] its draw's position there.
        uniforms: Of the W walks; None takes the most probable event everywhere.
        run: The draft at work.
        judge: Verifies proposals; None is lossless.
        weighed: Whether masks are known, so that what the length limit cuts off can be weighed.
    """
    record = Recorder(len(request), loops=batch.loop_watch(request))
    frontier = Frontier.at_start(batch, request, draw)
    drafts = None if uniforms is None else uniforms.stream(DRAFT)
    judge = Verifier(uniforms) if judge is None else judge
    everyone = np.arange(len(request))
    speculate_on(record, everyone, frontier, judge, run, drafts, weighed=weighed)
    return record.candidates()


def _round(record: Recorder, walks: Following, uniforms: CandidateUniforms | None) -> None:
    """Draft, evaluate, and follow what the target accepts."""
    frontier, run = walks.tested.start, walks.run
    open_ones = np.flatnonzero(~frontier.is_overlong())
    started = frontier.take(open_ones)
    alive = walks.alive[open_ones]
    levels, reached = propose(run.drafting, started, run.gammas(alive), uniforms, alive)
    contexts = np.concatenate([level.context for level in (started, *reached)])
    if contexts.size:
        run.ledger.evaluate([started, *reached])
        frontier.batch.model.evaluate(contexts)
    at = 0
    while walks.alive.size:
        proposal = None
        if at < len(levels):
            proposal = replace(levels[at], walks=open_ones[levels[at].walks])
        walks.level(record, proposal)
        at += 1
    run.close_round(walks.tested)


class Following:
    """The walks of a round while they follow what was proposed, W at first.

    Attributes:
        tested: What was put to the test so far.
        run: The draft at work.
        alive: int64[n] candidates that still follow.
    """

    def __init__(
        self,
        alive: NDArray[np.int64],
        frontier: Frontier,
        judge: Judge,
        run: DraftRun,
        weighed: bool,
    ) -> None:
        self.tested, self.run = Tested.nothing(frontier, alive), run
        self._judge, self._weighed = judge, weighed
        self.alive, self._frontier = alive, frontier
        self._stopped: list[tuple[NDArray[np.int64], Frontier]] = []

    def level(self, record: Recorder, proposal: Proposal | None) -> None:
        """Take one event a walk; those whose event was not the proposed one stop following."""
        tally = self.tested
        took = np.zeros(len(tally.candidates), np.bool_)

        def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
            walks = np.searchsorted(tally.candidates, alive)
            level = Level.of(proposal, walks)
            verdict = self._judge.judge(step, alive, level)
            # A law of another aim is weighed back to the target's, before anything is cut off.
            record.log_x[alive] += verdict.log_ratio
            tested = walks[(level.kinds > 0) & ~level.forced]
            tally.verified[tested] += 1
            took[walks] = verdict.accepted
            tally.accepted[tested] += took[tested]
            tally.refused[tested] = ~took[tested]
            self.run.drafting.learn(step, verdict.chosen)
            return verdict.chosen

        covered = np.ones(len(self.alive), np.bool_)
        start = replace(self._frontier, in_run=covered)
        how = {"look_ahead": False, "weighed": self._weighed}
        alive, frontier = step_on(record, self.alive, start, choose, **how)
        goes_on = took[np.searchsorted(tally.candidates, alive)]
        stops = np.flatnonzero(~goes_on)
        if stops.size:
            self._stopped.append((alive[stops], frontier.take(stops)))
        follow = np.flatnonzero(goes_on)
        self.alive, self._frontier = alive[follow], frontier.take(follow)

    def stopped(self) -> tuple[NDArray[np.int64], Frontier]:
        """Return the walks that are not finished, in order."""
        alive, frontier = self.alive, self._frontier
        for rows, walks in self._stopped:
            alive, frontier = np.concatenate([alive, rows]), frontier.joined(walks)
        order = np.argsort(alive)
        return alive[order], frontier.take(order)
