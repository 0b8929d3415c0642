"""Proposals: the next events of some walks as a draft sees them, level by level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD
from cdec.samplers.walks.frontier import END, NONE, Frontier

if TYPE_CHECKING:
    from typing import Self

    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Step
    from cdec.samplers.walks.randomness import CandidateUniforms

FORCED, GUESSED, DRAWN = 0, 1, 2
"""Where a proposal comes from: the constraint leaves no choice; a guess without a law (the law of a
greedy draft is a one-hot one); a draw from the draft's distribution."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next events of n walks, and the laws they were drawn from.

    Attributes:
        walks: int64[n] which walks of the round, ascending.
        events: int64[n] a token id or END.
        kinds: int64[n] FORCED, GUESSED or DRAWN.
        rows: int64[n] row of each walk's law in ``scores``, float[M, V]; -1 where it has none.
        log_normalizer: float64[M], as in ``Step``.
    """

    walks: NDArray[np.int64]
    events: NDArray[np.int64]
    kinds: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: Any
    log_normalizer: Any


@dataclass(frozen=True, slots=True)
class Guess:
    """What a draft proposes to n walks: as in ``Proposal``, NONE where it proposes nothing.

    Attributes:
        kind: Of all of them, or int64[n] of each.
        log_share: float64[n] log of the draft's own probability of each event among those allowed,
            however it was chosen; NaN where it proposes nothing; None of a draft without a law.
    """

    events: NDArray[np.int64]
    kind: int | NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    log_share: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, events: NDArray[np.int64]) -> Guess:
        """Return guesses without a law."""
        nowhere = np.full(len(events), -1, np.int64)
        return cls(events, GUESSED, nowhere, np.zeros((0, 1)), np.zeros(0))


class Foreseen(NamedTuple):
    """What a draft would have proposed in steps without it.

    Attributes:
        steps: Their number. walks: Events of all walks in them. told: Those that it would have.
    """

    steps: int
    walks: int
    told: int


class Drafting(ABC):
    """A draft at work on one batch; a context manager that releases what it holds.

    Attributes:
        has_law: Whether proposals are draws from a distribution that is known and put to the test;
            else they are guesses at what the target draws.
        calls_model: Whether a proposal costs a call of a draft model.
    """

    has_law: bool = False
    calls_model: ClassVar[bool] = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @abstractmethod
    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the next event of each of ``walks``.

        Args:
            walks: Prefixes where the constraint leaves a choice, below their length limit.
            uniforms: float64[n] in [0, 1); None asks for the most probable events.
        """

    def learn(self, step: Step, chosen: SampledEvents) -> Foreseen | None:
        """Hear which events a step chose; most drafts do not care.

        Returns:
            What would have been proposed in the last steps, where that is told for nothing.
        """
        return None

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every draft call so far, int64[n] each."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def counted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the request and draw of every proposal that counts made beside a model.

        Returns:
            int64[n] each; None where counts are not asked beside a model.
        """
        return None


class Ahead(NamedTuple):
    """What a draft proposes to n walks.

    Attributes:
        levels: A proposal a level.
        reached: After each, the prefixes that the target has to evaluate.
        walks: Of each of these, int64[...], the walks that stand there, ascending.
    """

    levels: list[Proposal]
    reached: list[Frontier]
    walks: list[NDArray[np.int64]]


def propose(
    drafting: Drafting,
    start: Frontier,
    gamma: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    alive: NDArray[np.int64],
) -> Ahead:
    """Let a draft run ahead of W walks.

    What the constraint forces is proposed for nothing and not counted. A walk's proposals end
    before its length limit, with an end event, where its constraint ends it, or where the draft has
    nothing to say; which of them are made depends on what was drawn before alone.

    Args:
        drafting: The draft.
        start: Where the walks stand.
        gamma: int64[W] most proposals of each.
        uniforms: Of the draft's draws; None for most probable events. alive: int64[W] their rows.
    """
    batch = start.batch
    left = gamma.copy()
    rows, walk = np.arange(len(left)), start
    ahead = Ahead([], [], [])
    while rows.size:
        tokens = batch.forced(walk.request, walk.state)
        within = walk.depth < batch.limits[walk.request]
        kept = np.flatnonzero(within & ((tokens >= 0) | (left[rows] > 0)))
        if not kept.size:
            break
        rows, tokens, walk = rows[kept], tokens[kept], _of_walks(walk, kept)
        level = _level(drafting, walk, rows, tokens, uniforms, alive)
        left[level.walks[level.kinds != FORCED]] -= 1
        if not level.walks.size:
            break
        rows, walk = _followed(walk, rows, level)
        ahead.levels.append(level)
        ahead.reached.append(walk)
        ahead.walks.append(rows)
    return ahead


def _level(
    drafting: Drafting,
    walk: Frontier,
    rows: NDArray[np.int64],
    tokens: NDArray[np.int64],
    uniforms: CandidateUniforms | None,
    alive: NDArray[np.int64],
) -> Proposal:
    """Ask the draft where nothing is forced; leave out the walks that it says nothing of."""
    n = len(rows)
    open_ones = np.flatnonzero(tokens < 0)
    events, kinds = tokens.copy(), np.zeros(n, np.int64)
    law = np.full(n, -1, np.int64)
    scores, log_normalizer = np.zeros((0, 1)), np.zeros(0)
    if open_ones.size:
        asked = _of_walks(walk, open_ones)
        numbers = None
        if uniforms is not None:
            numbers = uniforms.at(asked.depth, alive[rows[open_ones]])
        guess = drafting.guess(asked, numbers)
        events[open_ones], kinds[open_ones] = guess.events, guess.kind
        law[open_ones] = guess.rows
        scores, log_normalizer = guess.scores, guess.log_normalizer
    said = np.flatnonzero(events != NONE)
    return Proposal(rows[said], events[said], kinds[said], law[said], scores, log_normalizer)


def _followed(
    walk: Frontier, rows: NDArray[np.int64], level: Proposal
) -> tuple[NDArray[np.int64], Frontier]:
    """Follow the proposed tokens; return the walks that go on from there, and where."""
    going = np.flatnonzero(level.events != END)
    at = np.searchsorted(rows, level.walks[going])
    walk = _of_walks(walk, at).advance(None, level.events[going], np.zeros(len(going)))
    # subtle: a guess may be forbidden; one that is not may end a text, or leave no room for an end.
    state = walk.batch.to_host(walk.state)
    live = ~walk.is_done() & (state != DEAD) & ~walk.is_overlong()
    alive = np.flatnonzero(live)
    return level.walks[going[alive]], _of_walks(walk, alive)


def _of_walks(walks: Frontier, rows: NDArray[np.int64]) -> Frontier:
    """Return some walks (int64[n], ascending), without a copy where they are all."""
    return walks if len(rows) == len(walks.depth) else walks.take(rows)


def in_view(walks: Frontier, batch: Any, contexts: NDArray[np.int64]) -> Frontier:
    """Return the walks as another model sees them: contexts (int64[n]) of its own tree."""
    return replace(walks, batch=batch, context=contexts)


PLAIN, ONE_HOT, FROM_LAW = 0, 1, 2
"""What stands against the target: nothing, so its own law is drawn from; a sure guess; a draw."""


@dataclass(frozen=True, slots=True)
class Level:
    """The proposals to the W walks of a step, in their order; none where ``kinds`` is PLAIN.

    Attributes:
        kinds: int64[W] PLAIN, ONE_HOT (a guess) or FROM_LAW. events: int64[W]. rows: int64[W].
        scores, log_normalizer: Of the draft, as in ``Proposal``.
        forced: bool[W] whether the constraint leaves nothing else.
    """

    kinds: NDArray[np.int64]
    events: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    forced: NDArray[np.bool_]

    @classmethod
    def of(cls, proposal: Proposal | None, walks: NDArray[np.int64]) -> Level:
        """Line a proposal up with the walks (int64[W] of the round, ascending) of a step."""
        n = len(walks)
        kinds, said = np.full(n, PLAIN), np.full(n, NONE)
        rows, forced = np.full(n, -1), np.zeros(n, np.bool_)
        scores, log_normalizer = np.zeros((0, 1)), np.zeros(0)
        if proposal is not None and n and proposal.walks.size:
            place = np.searchsorted(proposal.walks, walks)
            place = np.minimum(place, len(proposal.walks) - 1)
            at = np.flatnonzero(proposal.walks[place] == walks)
            place = place[at]
            own = proposal.kinds[place]
            kinds[at] = np.where(own == DRAWN, FROM_LAW, ONE_HOT)
            forced[at] = own == FORCED
            said[at], rows[at] = proposal.events[place], proposal.rows[place]
            scores, log_normalizer = proposal.scores, proposal.log_normalizer
        return cls(kinds, said, rows, scores, log_normalizer, forced)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a level, W walks at N nodes.

    Attributes:
        chosen: The events taken.
        accepted: bool[W] whether the walk's proposal was taken.
        log_ratio: float64[W] log of the target's law over the law aimed at, at the event.
        spent: float64[W] min(limit, KL(target || draft)) in nats where a proposal was verified.
        charged: float64[W] KL(target || law aimed at) there.
    """

    chosen: SampledEvents
    accepted: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]
    spent: NDArray[np.float64]
    charged: NDArray[np.float64]


class Judge(ABC):
    """Chooses the events of a step of which some were proposed.

    Attributes:
        masked: Whether it asks for all that is allowed at every node.
        compares: Whether a guess is taken just where ``choose`` takes the same, whatever was chosen
            before.
    """

    masked: bool = True
    compares: bool = False

    @abstractmethod
    def judge(self, step: Step, alive: NDArray[np.int64], level: Level) -> Verdict:
        """Return the events of the walks ``alive`` (int64[W]), and which proposals they took."""

    def choose(self, step: Step, alive: NDArray[np.int64]) -> SampledEvents:
        """Return the events of the walks where nothing was proposed."""
        return self.judge(step, alive, Level.of(None, alive)).chosen
