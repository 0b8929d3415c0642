"""Speculative decoding: a draft runs ahead of every walk, one pass of the target verifies it.

Each round, the walks of all prompts are drafted together, level by level, then all their prefixes
go through the target in one pass, and the walks follow what it accepts, each as far as it goes;
one more event comes from the target itself. Decoding is that of ``decoding.step_on``, with another
choice of events: lengths, ends, dead ends and the visited tree are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.candidates import Candidates, Recorder
from cdec.samplers.decoding import step_on
from cdec.samplers.drafts.proposals import Proposal, propose
from cdec.samplers.drafts.verify import Level, Verdict, Verifier
from cdec.samplers.frontier import Frontier
from cdec.samplers.randomness import DRAFT

if TYPE_CHECKING:
    from cdec.samplers.batch import Batch
    from cdec.samplers.drafts.run import DraftRun
    from cdec.samplers.events import SampledEvents
    from cdec.samplers.randomness import CandidateUniforms
    from cdec.samplers.step import Step


class Judge(Protocol):
    """Chooses the events of a step of which some were proposed."""

    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Return the events of the walks ``alive`` (int64[W]), and which proposals they took."""


def speculate_on(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    judge: Judge,
    run: DraftRun,
    uniforms: CandidateUniforms | None,
) -> None:
    """Walk from where walks stand to their ends, as ``decoding.walk_on``, with a draft.

    Args:
        record: Written.
        alive: int64[n] rows of ``record``. frontier: The n walks.
        judge: Verifies proposals.
        run: The draft at work, and its accounts.
        uniforms: Of the draft's draws; None proposes the most probable events.
    """
    run.begin(len(record.log_p))
    while alive.size:
        alive, frontier = _round(record, alive, frontier, judge, run, uniforms)


def decode(
    batch: Batch,
    request: NDArray[np.int64],
    draw: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    run: DraftRun,
    judge: Judge | None = None,
) -> Candidates:
    """Walk from the prompts to the ends, as ``decoding.decode``, with a draft.

    Args:
        batch: The open requests.
        request: int64[W] request of each walk. draw: int64[W] its draw's position there.
        uniforms: Of the W walks; None takes the most probable event everywhere.
        run: The draft at work.
        judge: Verifies proposals; None is lossless.
    """
    record = Recorder(len(request))
    frontier = Frontier.at_start(batch, request, draw)
    drafts = None if uniforms is None else uniforms.stream(DRAFT)
    judge = Verifier(uniforms) if judge is None else judge
    speculate_on(record, np.arange(len(request)), frontier, judge, run, drafts)
    return record.candidates()


def _round(
    record: Recorder,
    alive: NDArray[np.int64],
    frontier: Frontier,
    judge: Judge,
    run: DraftRun,
    uniforms: CandidateUniforms | None,
) -> tuple[NDArray[np.int64], Frontier]:
    """Draft, evaluate, verify; return the walks that go on, in the order of ``alive``."""
    cut = frontier.is_overlong()
    levels, reached = _propose(frontier, ~cut, alive, run, uniforms)
    evaluated = [frontier.take(np.flatnonzero(~cut)), *reached]
    contexts = np.concatenate([walks.context for walks in evaluated])
    if contexts.size:
        run.ledger.evaluate(evaluated)
        frontier.batch.model.evaluate(contexts)
    following = _Following(alive, frontier, judge, run)
    at = 0
    while following.alive.size:
        following.level(record, levels[at] if at < len(levels) else None)
        at += 1
    run.close_round(frontier, alive, following)
    return following.stopped()


def _propose(
    frontier: Frontier,
    open_ones: NDArray[np.bool_],
    alive: NDArray[np.int64],
    run: DraftRun,
    uniforms: CandidateUniforms | None,
) -> tuple[list[Proposal], list[Frontier]]:
    rows = np.flatnonzero(open_ones)
    started = frontier if open_ones.all() else frontier.take(rows)
    gamma = run.gammas(alive[rows])
    levels, reached = propose(run.drafting, started, gamma, uniforms, alive[rows])
    if not open_ones.all():
        levels = [replace(level, walks=rows[level.walks]) for level in levels]
    return levels, reached


class _Following:
    """The walks of a round while they follow what was proposed.

    Attributes:
        alive: int64[n] candidates that still follow. verified, accepted: int64[W] proposals of the
            draft that were put to the test and taken, by walk of the round.
        refused: bool[W] whether a walk's last proposal was refused.
    """

    def __init__(
        self, alive: NDArray[np.int64], frontier: Frontier, judge: Judge, run: DraftRun
    ) -> None:
        self._judge, self._run = judge, run
        self._all = alive
        self.alive, self._frontier = alive, frontier
        self._stopped: list[tuple[NDArray[np.int64], Frontier]] = []
        self.verified = np.zeros(len(alive), np.int64)
        self.accepted = np.zeros(len(alive), np.int64)
        self.refused = np.zeros(len(alive), np.bool_)

    def level(self, record: Recorder, proposal: Proposal | None) -> None:
        """Take one event a walk; those whose event was not the proposed one stop following."""
        took = np.zeros(len(self._all), np.bool_)

        def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
            walks = np.searchsorted(self._all, alive)
            level = Level.of(proposal, walks)
            verdict = self._judge.judge(step, alive, level)
            tested = walks[(level.kinds > 0) & ~level.forced]
            self.verified[tested] += 1
            took[walks] = verdict.accepted
            self.accepted[tested] += took[tested]
            self.refused[tested] = ~took[tested]
            self._run.drafting.learn(step, verdict.chosen)
            return verdict.chosen

        covered = np.ones(len(self.alive), np.bool_)
        start = replace(self._frontier, in_run=covered)
        alive, frontier = step_on(record, self.alive, start, choose, look_ahead=False)
        goes_on = took[np.searchsorted(self._all, alive)]
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
