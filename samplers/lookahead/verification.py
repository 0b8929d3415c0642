"""Verification of greedy drafts by the target: how many of the events proposed it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cdec.samplers.lookahead.models import DraftEvents, TargetEvents
    from cdec.samplers.lookahead.rollout import Rollout
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
