"""Verification of greedy drafts by the target: how many of the events proposed it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cdec.samplers.lookahead.models import TargetEvents
    from cdec.samplers.lookahead.rollout import Rollout
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.randomness import CandidateUniforms


def verify(
    target: TargetEvents,
    drafted: Rollout,
    alive: NDArray[np.int64],
    tests: CandidateUniforms | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Accept the events of a draft up to the first refusal.

    Hard rejection accepts what the target thinks most probable. Speculative sampling accepts with
    min(1, q / p), and the law of a greedy draft is a one-hot one: p = 1, so q it is.

    Args:
        target: Knows the prefixes of ``drafted``.
        drafted: W walks' drafts.
        alive: int64[W] the walks' numbers in ``tests``.
        tests: Uniforms of speculative sampling, one a token; None for hard rejection.

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
            taken, found = _sampled(target, drafted, going, at, (tests, alive))
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
    numbers: tuple[CandidateUniforms, NDArray[np.int64]],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Say which walks ``rows`` pass the test of speculative sampling, bool[n]; log P, float64[n].

    Args:
        numbers: ``tests`` and ``alive`` of ``verify``.
    """
    tests, alive = numbers
    walks = drafted.at(rows, np.full(len(rows), at))
    found = target.log_p_of(walks, drafted.events[rows, at])
    return _passes(target, walks, found, tests.at(walks.depth, alive[rows])), found


def _passes(
    target: TargetEvents,
    walks: Frontier,
    log_p: NDArray[np.float64],
    uniforms: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Say whether each uniform is below q, the masked and renormalised probability, bool[n]."""
    log_z = target.masses(walks.context)[0]
    with np.errstate(invalid="ignore"):
        q = np.exp(np.minimum(0.0, log_p - log_z))
    # subtle: strictly below, so that an event of probability 0 never passes; nor does NaN, which
    # is what a dead end of the target gives.
    passes: NDArray[np.bool_] = uniforms < q
    return passes
