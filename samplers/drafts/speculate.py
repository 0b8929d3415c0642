"""Speculative decoding: a draft runs ahead of every walk, one pass of the target verifies it.

Each round, the walks of all prompts are drafted together, level by level, then all their prefixes
go through the target in one pass, and the walks follow what it accepts, each as far as it goes;
one more event comes from the target itself. Decoding is that of ``decoding.step_on``, with another
choice of events: lengths, ends, dead ends and the visited tree are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.models.language_model import LanguageModel
from cdec.samplers.drafts.base import Draft, DraftOptions
from cdec.samplers.drafts.counts import Counts, CountsDrafting, LookupDrafting
from cdec.samplers.drafts.ledger import TARGET_CALLS, Ledger, Tested
from cdec.samplers.drafts.models import ModelDrafting
from cdec.samplers.drafts.proposals import Drafting, Judge, Level, Proposal, propose
from cdec.samplers.drafts.verify import Comparer, LearningVerifier, Verifier
from cdec.samplers.options import ADAPTIVE, COUNTS, LOOKUP
from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer
from cdec.samplers.walks.decoding import chooser, step_on
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.randomness import DRAFT

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
    run.begin(len(buffer.log_p))
    while alive.size:
        following = Following(alive, frontier, judge, run, weighed)
        _round(buffer, following, uniforms)
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
    buffer = TrajectoryBuffer(len(request), loops=batch.loop_watch(request))
    frontier = Frontier.at_start(batch, request, draw)
    drafts = None if uniforms is None else uniforms.stream(DRAFT)
    judge = Verifier(uniforms) if judge is None else judge
    everyone = np.arange(len(request))
    speculate_on(buffer, everyone, frontier, judge, run, drafts, weighed=weighed)
    return buffer.candidates()


def _round(buffer: TrajectoryBuffer, walks: Following, uniforms: CandidateUniforms | None) -> None:
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
        walks.level(buffer, proposal)
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
        how = {"look_ahead": False, "weighed": self._weighed}
        alive, frontier = step_on(buffer, self.alive, start, choose, **how)
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


DEFAULT_GAMMA = 4
LONGEST = 16
"""Most proposals of an adaptive draft."""


def opened(draft: Draft | None) -> DraftRun:
    """Return the draft of a method that needs one: its constructor has seen to it."""
    if not isinstance(draft, DraftRun):
        raise RuntimeError("a method that needs a draft runs without one")
    return draft


class DraftRun(Draft):
    """A draft at work on a batch.

    Args:
        batch: The open requests.
        drafting: Makes proposals.
        gamma: Proposals before each verification, or ``auto``.
        cost_ratio: c, the cost of a draft call in target calls; None where it is not known.
        is_verified: Whether the target verifies proposals; else no acceptance is told.

    Attributes:
        drafting: Makes proposals.
        ledger: What they cost and gained.
    """

    def __init__(
        self,
        batch: Batch,
        drafting: Drafting,
        gamma: int | str,
        cost_ratio: float | None,
        is_verified: bool,
    ) -> None:
        self.drafting = drafting
        self.ledger = Ledger(batch)
        self._batch = batch
        self._most = gamma
        self._cost_ratio = cost_ratio
        self._is_verified = is_verified
        self._gamma = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        self.drafting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.drafting.__exit__()

    @property
    def rows(self) -> int:
        """Most prefixes of a walk that one pass of the target evaluates."""
        return 1 + (LONGEST if self._most == ADAPTIVE else int(self._most))

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        first = DEFAULT_GAMMA if self._most == ADAPTIVE else int(self._most)
        # No text is longer, and larger numbers may not fit.
        longest = int(self._batch.limits.max(initial=0))
        self._gamma = np.full(n, min(first, longest), np.int64)

    def gammas(self, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many proposals each candidate gets now, int64[n]."""
        return self._gamma[alive]

    def close_round(self, walks: Tested) -> None:
        """Book what a round gave to each of its walks."""
        owner = walks.start.request, walks.start.draw
        tested, alive = walks.verified > 0, walks.candidates
        self.ledger.add("verified", *owner, walks.verified)
        self.ledger.add("accepted", *owner, walks.accepted)
        self.ledger.add("rounds", *owner, tested)
        if self._most == ADAPTIVE:
            # subtle: only what was put to the test counts; to look at proposals behind a refusal
            # would tie the next draws, which use their random numbers again, to this decision.
            after = np.where(walks.refused, walks.accepted + 1, self._gamma[alive] + 1)
            self._gamma[alive] = np.where(tested, np.minimum(after, LONGEST), self._gamma[alive])

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
        judge = None if repeats is None else Comparer(chooser(uniforms, **repeats))
        return decode(batch, request, draw, uniforms, self, judge, weighed=weighed)

    def learn_on(
        self,
        buffer: TrajectoryBuffer,
        alive: NDArray[np.int64],
        frontier: Frontier,
        uniforms: CandidateUniforms,
    ) -> None:
        """Walk on to the ends; as ``Draft.learn_on``."""
        judge = LearningVerifier(uniforms)
        speculate_on(buffer, alive, frontier, judge, self, uniforms.stream(DRAFT))

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
            Of a draft that is not verified, the last two.
        """
        self.ledger.replace("draft_calls", *self.drafting.calls())
        names = ("verified", "accepted", "rounds", "draft_calls", TARGET_CALLS)
        totals = [self.ledger.totals(name, owners) for name in names]
        verified, accepted, rounds, drafts, calls = totals
        acceptance: dict[str, list[Any]] = {}
        if self._is_verified:
            acceptance["acceptance_rate"] = _ratios(accepted, verified)
            acceptance["accepted_length"] = _ratios(accepted, rounds)
        return {
            **acceptance,
            "draft_calls": drafts.astype(np.int64).tolist(),
            "cost_per_token": self.costs(drafts, calls, events),
        }

    def costs(
        self, draft_calls: NDArray[Any], target_calls: NDArray[Any], events: NDArray[np.int64]
    ) -> list[float | None]:
        """Return the cost of each draw's events in target calls; None where c is not known."""
        ratio = self._cost_ratio if self.drafting.calls_model else 0.0
        if ratio is None:
            return [None] * len(events)
        return _ratios(ratio * draft_calls + target_calls, events.astype(np.float64))


def _ratios(above: NDArray[Any], below: NDArray[Any]) -> list[float | None]:
    return [
        float(a / b) if b else None for a, b in zip(above.tolist(), below.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class NamedDraft(DraftOptions):
    """What proposes tokens, and how many.

    Attributes:
        draft: A language model of the same vocabulary, ``counts`` or ``prompt-lookup``.
        gamma: Proposals before each verification; ``auto`` adapts it to every walk: one more after
            all were accepted, one more than were accepted after a refusal, at most ``LONGEST``.
        temperature: Of a draft model, instead of the target's warping; 0 is a greedy draft.
        counts: What ``counts`` guesses from and adds to.
        cost_ratio: c, the cost of a draft call in target calls; None leaves ``cost_per_token``
            unknown.
        is_verified: Whether the target verifies proposals; else a draft only looks ahead, and no
            acceptance is told.
    """

    draft: LanguageModel | str
    gamma: int | str = DEFAULT_GAMMA
    temperature: float | None = None
    counts: Counts = field(default_factory=Counts)
    cost_ratio: float | None = None
    is_verified: bool = True

    def on(self, batch: Batch) -> DraftRun:
        """Open the draft for a batch; as ``DraftOptions.on``."""
        drafting = self._drafting(batch)
        return DraftRun(batch, drafting, self.gamma, self.cost_ratio, self.is_verified)

    def _drafting(self, batch: Batch) -> Drafting:
        if self.draft == COUNTS:
            return CountsDrafting(batch, self.counts)
        if isinstance(self.draft, str):
            return LookupDrafting(batch)
        return ModelDrafting(batch, self.draft, self.temperature)


def named_draft(options: Mapping[str, Any], is_verified: bool) -> NamedDraft:
    """Return the draft that a sampler's options name, as ``registry.draft_of``.

    Raises:
        UsageError: It is neither a language model nor a kind of draft.
    """
    draft = options["draft"]
    if not isinstance(draft, LanguageModel) and draft not in (COUNTS, LOOKUP):
        raise UsageError(
            f"`draft` is {draft!r}, expected a language model, {COUNTS!r} or {LOOKUP!r}",
            hint="Load the draft with cdec.core.load_model.",
            option="draft",
        )
    # subtle: counts that hold nothing yet are false.
    counts = options.get("counts")
    return NamedDraft(
        draft,
        options["gamma"],
        options["draft_temperature"],
        Counts() if counts is None else counts,
        options["cost_ratio"],
        is_verified,
    )
