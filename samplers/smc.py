"""SMC: a population of masked walks a draw, weighted by Z at every step and resampled.

Papers: Lew et al. 2023, arXiv 2306.03081 (sequential Monte Carlo steering); Loula et al. 2025,
arXiv 2504.13139. Proposal: a masked step; incremental weight: its allowed mass Z (one token or end
event a step). Deviations: finished particles stay in the population with their weight; equal
prefixes of all particles of all draws are evaluated once; resampling is adaptive, by effective
sample size, and stratified (``stratified``).

A *particle* is a masked walk; its weight is the product of its step masses Z since the population
was last resampled, times the mean weight it had then. A finished particle keeps its weight and its
place; one that got stuck or was cut has weight 0. All arithmetic on weights is in logs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import Candidates, TrajectoryBuffer, concatenate
from cdec.samplers.walks.decoding import (
    Stepping,
    candidate_uniforms,
    chunks,
    draw_candidates,
    step_on,
)
from cdec.samplers.walks.events import SampledEvents
from cdec.samplers.walks.frontier import Frontier, Step
from cdec.samplers.walks.mass import MassAccumulator, distinct_ess
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.randomness import resample, single_uniform

_STEPPING = Stepping(look_ahead=False)


class Populations:
    """The particles of D constrained draws: N * D walks, those of one draw adjacent.

    Numbers (``randomness``): particle i draws its events with the numbers of candidate i; the
    particle that follows it after step s is chosen with number 1 + s of candidate N + i.

    Args:
        batch: The open requests.
        draws: int64[D] rows of the batch's draws, all constrained.
        particles: N.
        resample_below: Resample where the effective sample size falls below this share of N.
    """

    def __init__(
        self, batch: Batch, draws: NDArray[np.int64], particles: int, resample_below: float
    ) -> None:
        self._n = particles
        self._threshold = resample_below * particles
        owners = np.repeat(draws, particles)
        self._choices = candidate_uniforms(batch, draws, particles)
        self._ancestry = candidate_uniforms(batch, draws, particles, first=particles)
        request = batch.draw_request[owners]
        self._buffer = TrajectoryBuffer(len(owners), loops=batch.loop_watch(request))
        self._resamplings = np.zeros(len(draws), np.int64)
        self._alive = np.arange(len(owners))
        self._frontier = Frontier.at_start(batch, request, batch.draw_index[owners])

    @property
    def log_weights(self) -> NDArray[np.float64]:
        """Weights of the particles, float64[D, N] natural logs; -inf is weight 0."""
        return self._buffer.log_x.reshape(-1, self._n)

    @property
    def resamplings(self) -> NDArray[np.int64]:
        """Number of times that each draw's population was resampled, int64[D]."""
        return self._resamplings

    def walk(self) -> Candidates:
        """Walk until no particle is left that could go on.

        Returns:
            D * N candidates whose ``log_x`` is their weight. Cost: one forward pass a step over the
            distinct prefixes. Nothing is evaluated ahead: resampling may leave a forced run before
            it is walked, and what nobody visits would be computed in vain.

        subtle: no draw is resampled any more once one of its particles was cut, or weighed, at the
        length limit: all others end in that step. So what lies beyond is estimated without bias.
        """
        step_number = 0
        while self._alive.size:
            self._alive, self._frontier = step_on(
                self._buffer, self._alive, self._frontier, self._choose, _STEPPING
            )
            self._resample(step_number)
            step_number += 1
        return self._buffer.candidates()

    def _choose(self, step: Step, alive: NDArray[np.int64]) -> SampledEvents:
        return events.sample(step, self._choices.at(step.depth, alive))

    def _resample(self, step_number: int) -> None:
        """Resample the draws that still walk and whose effective sample size is too low."""
        going = np.zeros(len(self._resamplings), np.bool_)
        going[self._alive // self._n] = True
        weights = self.log_weights
        draws = np.flatnonzero(going & (effective_sample_size(weights) < self._threshold))
        if not draws.size:
            return
        self._resamplings[draws] += 1
        first = draws[:, None] * self._n
        slots = (first + np.arange(self._n)).reshape(-1)
        uniforms = self._ancestry.at(np.full(len(slots), step_number), slots)
        chosen = stratified(weights[draws], uniforms.reshape(-1, self._n))
        ancestors = (first + chosen).reshape(-1)
        evidence = np.repeat(log_mean(weights[draws]), self._n)
        self._buffer.inherit(slots, ancestors)
        self._buffer.log_x[slots] = evidence
        row_of = np.full(weights.size, -1)
        row_of[self._alive] = np.arange(len(self._alive))
        row_of[slots] = row_of[ancestors]
        self._alive = np.flatnonzero(row_of >= 0)
        self._frontier = self._frontier.take(row_of[self._alive])


def effective_sample_size(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (sum w)^2 / sum w^2 of each row of float64[n, N] natural logs; NaN without weight."""
    weights = _scaled(log_weights)
    with np.errstate(invalid="ignore"):
        size: NDArray[np.float64] = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    return size


def log_mean(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of each row's mean weight, float64[n], of float64[n, N] natural logs."""
    total: NDArray[np.float64] = np.logaddexp.reduce(log_weights, axis=1)
    return total - math.log(log_weights.shape[1])


def stratified(
    log_weights: NDArray[np.float64], uniforms: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Choose N ancestors in each row by stratified resampling (Kitagawa 1996).

    The total weight is cut into N equal strata, and one point is drawn in each. A particle of share
    p has N * p children on average, whatever the weights, so the evidence stays unbiased; and the
    variance is never above that of N independent choices, so the law converges as with those (Douc,
    Cappé and Moulines 2005, arXiv cs/0507025). Systematic resampling, one uniform for all strata,
    is unbiased as well, but its variance depends on the order of the particles and need not vanish
    (same paper).

    Args:
        log_weights: float64[n, N] natural logs, one in each row above -inf.
        uniforms: float64[n, N] in [0, 1), one a stratum.

    Returns:
        int64[n, N] positions in the row, ascending; never one of weight 0. Cost: O(N log N) a row.
    """
    weights = _scaled(log_weights)
    running = np.cumsum(weights, axis=1)
    size = weights.shape[1]
    points = (np.arange(size) + uniforms) / size * running[:, -1:]
    pairs = zip(running, points, strict=True)
    chosen = np.stack([np.searchsorted(*pair, side="right") for pair in pairs])
    # Rounding must not push a point past the last weight that is positive.
    last = size - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    ancestors: NDArray[np.int64] = np.minimum(chosen, last[:, None])
    return ancestors


def _scaled(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's weights with the largest made 1; zeros where all are 0."""
    peak = log_weights.max(axis=1, keepdims=True)
    scaled: NDArray[np.float64] = np.exp(log_weights - np.where(peak == -np.inf, 0.0, peak))
    return scaled


class SmcSampler(Sampler):
    """Draws one particle of a population of N; the law tends to Q as N grows.

    Each draw is a run of its own. The mean weight of its particles at the end, its *evidence*, is
    an unbiased estimate of P(S) and is recorded as ``log_weight``: records weighted by it target Q
    whatever N. One particle is taken with probability proportional to its weight (number 0
    of candidate 2N, see ``randomness``); where all weights are 0 it is the first, which says by its
    ``finish_reason`` how it failed.

    The diagnostics of a draw are ``particles`` (N; 1 without a constraint, which needs no weights),
    ``resamplings`` (how many times), and ``ess``, the effective sample size of the final weights
    summed by text (``distinct_ess``): N particles of one text count as one. ``log_mass`` is the
    log of the draws' mean evidence, held against the bracket of what all particles visited.

    Args:
        particles: N. With 1 this is masked decoding.
        resample_below: Resample where the effective sample size falls below this share of N; with 0
            never (one of N masked candidates is taken), with 1 wherever weights are unequal.
    """

    method: ClassVar[Method] = METHODS["smc"]
    exactness = "asymptotic"
    particles: int
    resample_below: float
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        masses = MassAccumulator(batch, unbiased=True)
        count = len(batch.seeds)
        particles, resamplings = np.ones(count, np.int64), np.zeros(count, np.int64)
        ess: list[float | None] = [None] * count
        is_unconstrained = batch.session_of[batch.draw_request] == UNCONSTRAINED
        order, parts = [], []
        for rows, n, choose in (
            (np.flatnonzero(~is_unconstrained), self.particles, self._choose),
            (np.flatnonzero(is_unconstrained), 1, _sample_model),
        ):
            for chunk in chunks(len(rows), self.max_walks // n):
                draws = rows[chunk]
                drawn, resampled, own = choose(batch, draws)
                masses.weigh(draws, drawn)
                order.append(draws)
                parts.append(drawn)
                particles[draws], resamplings[draws] = n, resampled
                for draw, size in zip(draws.tolist(), own, strict=True):
                    ess[draw] = size
        chosen = concatenate(parts).take(np.argsort(np.concatenate(order)))
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        fields = masses.fields()
        for mine in fields.values():
            del mine["ess"]  # each draw's own here
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x,
            log_candidate_weight=log_x,
            per_draw={
                "particles": particles.tolist(),
                "resamplings": resamplings.tolist(),
                "ess": ess,
            },
            per_request=fields,
        )

    def _choose(
        self, batch: Batch, draws: NDArray[np.int64]
    ) -> tuple[Candidates, NDArray[np.int64], list[float | None]]:
        """Run the populations of constrained draws, int64[n]; take one particle of each.

        Returns:
            n candidates, with the log evidence as ``log_x``; how often each draw was resampled; and
            the effective sample size of each, None where all weights are 0.
        """
        n = self.particles
        populations = Populations(batch, draws, n, self.resample_below)
        candidates = populations.walk()
        log_weights = populations.log_weights
        numbers = np.array([single_uniform(batch.seeds[draw], 2 * n) for draw in draws])
        rows = np.arange(len(draws)) * n + resample(log_weights, numbers)
        beyond = log_mean(candidates.log_truncated.reshape(-1, n))
        evidence = log_mean(log_weights)
        chosen = replace(candidates.take(rows), log_x=evidence, log_truncated=beyond)
        texts = candidates.last.reshape(-1, n)
        ess = [distinct_ess(*row) for row in zip(log_weights, texts, strict=True)]
        return chosen, populations.resamplings, ess


def _sample_model(
    batch: Batch, draws: NDArray[np.int64]
) -> tuple[Candidates, NDArray[np.int64], list[float | None]]:
    """Draw from the model itself, where no constraint weighs anything: one particle a draw."""
    drawn = draw_candidates(batch, draws, candidate_uniforms(batch, draws, 1))
    ess = [1.0 if ended else None for ended in drawn.is_complete.tolist()]
    return drawn, np.zeros(len(draws), np.int64), ess
