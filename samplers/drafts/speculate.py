"""Speculative decoding: a draft runs ahead of every walk, one pass of the target verifies it.

Each round, the walks of all prompts are drafted together, level by level, then all their prefixes
go through the target in one pass, and the walks follow what it accepts, each as far as it goes;
one more event comes from the target itself. Decoding is that of ``decoding.step_on``, with another
choice of events: lengths, ends, dead ends and the visited tree are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.base import Draft
from cdec.samplers.drafts.chains import follow
from cdec.samplers.drafts.ledger import TARGET_CALLS, Ledger, Tested
from cdec.samplers.drafts.proposals import (
    DRAWN,
    Ahead,
    Drafting,
    Foreseen,
    Judge,
    Level,
    Proposal,
    propose,
)
from cdec.samplers.drafts.verify import Comparer, LearningVerifier, Verifier
from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer, listener
from cdec.samplers.walks.decoding import Chooser, Stepping, chooser, give_up, step_on
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.randomness import DRAFT, FIRST

if TYPE_CHECKING:
    from typing import Self

    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Step
    from cdec.samplers.walks.outcome import Outcome
    from cdec.samplers.walks.randomness import CandidateUniforms


def speculate_on(
    buffer: TrajectoryBuffer,
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
        buffer: Written.
        alive: int64[n] rows of ``buffer``. frontier: The n walks.
        judge: Verifies proposals.
        run: The draft at work, and its accounts.
        uniforms: Of the draft's draws; None proposes the most probable events.
        weighed: As in ``decoding.walk_on``.
    """
    run.lengths.begin(len(alive))
    choose = _heard(judge, run)
    how = Stepping(weighed=weighed, masked=judge.masked)
    while True:
        alive, frontier = give_up(buffer, alive, frontier)
        if not alive.size:
            return
        lengths = run.lengths.before(alive, frontier)
        if lengths is None:
            alive, frontier = step_on(buffer, alive, frontier, choose, how)
            continue
        following = Following(alive, frontier, judge, run, weighed)
        _round(buffer, following, lengths, uniforms)
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
    told = listener(batch, request, draw)
    buffer = TrajectoryBuffer(len(request), loops=batch.loop_watch(request), told=told)
    frontier = Frontier.at_start(batch, request, draw)
    drafts = None if uniforms is None else run.numbers(uniforms)
    judge = Verifier(uniforms) if judge is None else judge
    everyone = np.arange(len(request))
    speculate_on(buffer, everyone, frontier, judge, run, drafts, weighed=weighed)
    return buffer.candidates()


def _heard(judge: Judge, run: DraftRun) -> Chooser:
    """Return how walks choose in steps without the draft, which only hears of them."""

    def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
        chosen = judge.choose(step, alive)
        foreseen = run.drafting.learn(step, chosen)
        if foreseen is not None:
            run.lengths.foresee(foreseen)
        return chosen

    return choose


def _round(
    buffer: TrajectoryBuffer,
    walks: Following,
    lengths: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
) -> None:
    """Draft, evaluate, and follow what the target accepts."""
    frontier, run = walks.tested.start, walks.run
    open_ones = np.flatnonzero(~frontier.is_overlong())
    started = frontier.take(open_ones)
    alive = walks.alive[open_ones]
    ahead = propose(run.drafting, started, lengths[open_ones], uniforms, alive)
    contexts = np.concatenate([level.context for level in (started, *ahead.reached)])
    if contexts.size:
        run.ledger.evaluate([started, *ahead.reached])
        frontier.batch.count_calls(started.request, started.draw)
        frontier.batch.model.evaluate(contexts)
    levels, tokens = ahead.levels, 0
    if walks.may_leap(buffer, ahead):
        went, behind = walks.leap(buffer, started, ahead, open_ones)
        levels, tokens = [behind], int(went.sum())
    at = 0
    while walks.alive.size:
        tokens += len(walks.alive)
        proposal = None
        if at < len(levels):
            proposal = replace(levels[at], walks=open_ones[levels[at].walks])
        walks.level(buffer, proposal)
        at += 1
    run.close_round(walks.tested, tokens)


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

    def may_leap(self, buffer: TrajectoryBuffer, ahead: Ahead) -> bool:
        """Say whether guesses can be compared all at once, and there are some to gain by it."""
        return (
            self._judge.compares
            and len(ahead.levels) > 1
            and not buffer.watches_loops
            and not any((level.kinds == DRAWN).any() for level in ahead.levels)
        )

    def leap(
        self,
        buffer: TrajectoryBuffer,
        started: Frontier,
        ahead: Ahead,
        open_ones: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], Proposal]:
        """Take all guesses that the target agrees with.

        Args:
            buffer: Written.
            started: The walks ``open_ones`` (int64[n]). ahead: What was proposed to them.

        Returns:
            int64[n] how many tokens each took, and what is proposed where it stands now.
        """
        alive = self.alive[open_ones]
        found = follow(buffer, alive, started, ahead, self._judge, self.run.drafting)
        self.tested.verified[open_ones] += found.verified
        self.tested.accepted[open_ones] += found.verified
        closed = np.setdiff1d(np.arange(len(self.alive)), open_ones)
        if closed.size:
            order = np.argsort(np.concatenate([closed, open_ones]))
            self._frontier = self._frontier.take(closed).joined(found.frontier).take(order)
        else:
            self._frontier = found.frontier
        return found.went, found.proposal

    def level(self, buffer: TrajectoryBuffer, proposal: Proposal | None) -> None:
        """Take one event a walk; those whose event was not the proposed one stop following."""
        booked = self.tested
        took = np.zeros(len(booked.candidates), np.bool_)

        def choose(step: Step, alive: NDArray[np.int64]) -> SampledEvents:
            walks = np.searchsorted(booked.candidates, alive)
            level = Level.of(proposal, walks)
            verdict = self._judge.judge(step, alive, level)
            # A law of another aim is weighed back to the target's, before anything is cut off.
            buffer.log_x[alive] += verdict.log_ratio
            tested = walks[(level.kinds > 0) & ~level.forced]
            booked.verified[tested] += 1
            took[walks] = verdict.accepted
            booked.accepted[tested] += took[tested]
            booked.refused[tested] = ~took[tested]
            self.run.drafting.learn(step, verdict.chosen)
            return verdict.chosen

        covered = np.ones(len(self.alive), np.bool_)
        start = replace(self._frontier, in_run=covered)
        masked = self._judge.masked
        how = Stepping(look_ahead=False, weighed=self._weighed, masked=masked, asks=False)
        alive, frontier = step_on(buffer, self.alive, start, choose, how)
        goes_on = took[np.searchsorted(booked.candidates, alive)]
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


def opened(draft: Draft | None) -> DraftRun:
    """Return the draft of a method that needs one: its constructor has seen to it."""
    if not isinstance(draft, DraftRun):
        raise RuntimeError("a method that needs a draft runs without one")
    return draft


class Lengths(ABC):
    """How far a draft runs ahead of each walk.

    Attributes:
        rows: Most prefixes of a walk that one pass of the target evaluates, to make room for.
    """

    rows: int

    @abstractmethod
    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""

    @abstractmethod
    def before(self, alive: NDArray[np.int64], walks: Frontier) -> NDArray[np.int64] | None:
        """Return how many proposals the candidates ``alive`` (int64[n]) get now, int64[n].

        None asks for a step without the draft.
        """

    def after(self, tokens: int, tested: Tested) -> None:
        """Hear what a round brought: events of all walks, and what was tested."""
        return

    def foresee(self, foreseen: Foreseen) -> None:
        """Hear what would have been proposed in steps without the draft."""
        return


class DraftRun(Draft):
    """A draft at work on a batch.

    Args:
        batch: The open requests.
        drafting: Makes proposals.
        lengths: How many before each verification.
        cost_ratio: c, the cost of a draft call in target calls; None where it is not known.
        is_verified: Whether the target verifies proposals; else no acceptance is told.

    Attributes:
        drafting, lengths: As given.
        ledger: What rounds of proposals cost and gained.
    """

    def __init__(
        self,
        batch: Batch,
        drafting: Drafting,
        lengths: Lengths,
        cost_ratio: float | None,
        is_verified: bool,
    ) -> None:
        self.drafting, self.lengths = drafting, lengths
        self.ledger = Ledger(batch)
        self._cost_ratio = cost_ratio
        self._is_verified = is_verified

    def __enter__(self) -> Self:
        self.drafting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.drafting.__exit__()

    @property
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""
        return self.lengths.rows

    def numbers(self, uniforms: CandidateUniforms) -> CandidateUniforms:
        """Return the draft's own numbers, or, for guesses, those that the target draws with."""
        return uniforms.stream(DRAFT if self.drafting.has_law else FIRST)

    def close_round(self, walks: Tested, tokens: int) -> None:
        """Book what a round gave to each of its walks, and its events in all."""
        owner = walks.start.request, walks.start.draw
        self.ledger.add("verified", *owner, walks.verified)
        self.ledger.add("accepted", *owner, walks.accepted)
        self.ledger.add("rounds", *owner, walks.verified > 0)
        self.lengths.after(tokens, walks)

    def decode(
        self,
        batch: Batch,
        request: NDArray[np.int64],
        draw: NDArray[np.int64],
        uniforms: CandidateUniforms | None,
        *,
        repeats: Mapping[str, Any] | None = None,
        weighed: bool = True,
    ) -> Candidates:
        """Walk from the prompts to the ends; as ``Draft.decode``."""
        judge: Judge = Verifier(uniforms)
        if repeats is not None:
            judge = Comparer(chooser(uniforms, **repeats), masked=not any(repeats.values()))
        return decode(batch, request, draw, uniforms, self, judge, weighed=weighed)

    def draw_candidates(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        uniforms: CandidateUniforms,
        log_floor: NDArray[np.float64] | None = None,
    ) -> Candidates:
        """Decode candidates; as ``Draft.draw_candidates``."""
        walks = np.repeat(draws, len(uniforms) // max(1, len(draws)))
        request, draw = batch.draw_request[walks], batch.draw_index[walks]
        told = listener(batch, request, draw)
        buffer = TrajectoryBuffer(len(walks), log_floor, batch.loop_watch(request), told)
        frontier = Frontier.at_start(batch, request, draw)
        everyone = np.arange(len(walks))
        speculate_on(buffer, everyone, frontier, Verifier(uniforms), self, self.numbers(uniforms))
        return buffer.candidates()

    def learn_on(
        self,
        buffer: TrajectoryBuffer,
        alive: NDArray[np.int64],
        frontier: Frontier,
        uniforms: CandidateUniforms,
    ) -> None:
        """Walk on to the ends; as ``Draft.learn_on``."""
        judge = LearningVerifier(uniforms)
        speculate_on(buffer, alive, frontier, judge, self, self.numbers(uniforms))

    def account(self, outcome: Outcome) -> Outcome:
        """Add what the draft cost and gained to an outcome."""
        owners = outcome.owners
        calls = self.ledger.totals(TARGET_CALLS, owners).astype(np.int64)
        return replace(
            outcome,
            per_draw={**outcome.per_draw, **self.fields(outcome.chosen.events, owners)},
            calls=calls.tolist(),
            wasted=self.ledger.wasted(owners).tolist(),
        )

    def fields(
        self, events: NDArray[np.int64], owners: Mapping[int, NDArray[np.int64]] | None = None
    ) -> dict[str, list[Any]]:
        """Return the fields of every draw, D values each.

        Args:
            events: int64[D] tokens of each text, its end event counted. owners: As in ``Outcome``.

        Returns:
            ``acceptance_rate``, the share accepted of the proposals that were put to the test;
            ``accepted_length``, accepted proposals a verification; ``draft_calls``; and
            ``cost_per_token``, (c draft calls + target calls) / events, null where c is not known.
            Of a draft that is not verified, the last two. ``counted_proposals`` where counts are
            asked beside a model.
        """
        self.ledger.replace("draft_calls", *self.drafting.calls())
        names = ("verified", "accepted", "rounds", "draft_calls", TARGET_CALLS)
        totals = [self.ledger.totals(name, owners) for name in names]
        verified, accepted, rounds, drafts, calls = totals
        acceptance: dict[str, list[Any]] = {}
        if self._is_verified:
            acceptance["acceptance_rate"] = _ratios(accepted, verified)
            acceptance["accepted_length"] = _ratios(accepted, rounds)
        if (counted := self.drafting.counted()) is not None:
            self.ledger.replace("counted_proposals", *counted)
            made = self.ledger.totals("counted_proposals", owners)
            acceptance["counted_proposals"] = made.astype(np.int64).tolist()
        return {
            **acceptance,
            "draft_calls": drafts.astype(np.int64).tolist(),
            "cost_per_token": self.costs(drafts, calls, events, owners),
        }

    def costs(
        self,
        draft_calls: NDArray[Any],
        target_calls: NDArray[Any],
        events: NDArray[np.int64],
        owners: Mapping[int, NDArray[np.int64]] | None,
    ) -> list[float | None]:
        """Return the cost of each draw's events in target calls; None where c is not known."""
        ratio = self._cost_ratio if self.drafting.calls_model else 0.0
        if ratio is None:
            return [None] * len(events)
        target_calls = target_calls + self.ledger.stepped(owners)
        return _ratios(ratio * draft_calls + target_calls, events.astype(np.float64))


def _ratios(above: NDArray[Any], below: NDArray[Any]) -> list[float | None]:
    return [
        float(a / b) if b else None for a, b in zip(above.tolist(), below.tolist(), strict=True)
    ]
