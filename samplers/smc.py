"""SMC: a population of masked walks a draw, weighted by Z at every step and resampled.

Papers: Lew et al. 2023, arXiv 2306.03081 (sequential Monte Carlo steering); Loula et al. 2025,
arXiv 2504.13139. Proposal: a masked step; incremental weight: its allowed mass Z (one token or end
event a step). Deviations: finished particles stay in the population with their weight; equal
prefixes of all particles of all draws are evaluated once; resampling is adaptive, by effective
sample size, and stratified (``stratified``).

A *particle* is a masked walk; its weight is the product of its step masses Z since the population
was last resampled, times the mean weight it had then. A finished particle keeps its weight and its
place; one that got stuck or was cut has weight 0. All arithmetic on weights is in logs.

With a potential phi a step's weight is Z times phi of the longer prefix over phi of the one before,
and at its end phi of the whole text over phi of the last prefix: along a text these multiply to
prod Z times phi of it. So the evidence is an unbiased estimate of the sum of P(w) phi(w) over S,
and records weighted by it target the law proportional to P(w) phi(w).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.drafts.base import Draft
from cdec.samplers.method import Method
from cdec.samplers.potentials import Potential, as_potential, weights_of
from cdec.samplers.registry import METHODS
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import STUCK, Candidates, TrajectoryBuffer, concatenate
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
from cdec.samplers.walks.randomness import opening_uniforms, resample

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
        potential: Weighs texts and their beginnings; None weighs all alike.
    """

    def __init__(
        self,
        batch: Batch,
        draws: NDArray[np.int64],
        particles: int,
        resample_below: float,
        potential: Potential | None = None,
    ) -> None:
        self._potential = potential
        self._n = particles
        self._threshold = resample_below * particles
        owners = np.repeat(draws, particles)
        self._choices = candidate_uniforms(batch, draws, particles)
        self._ancestry = candidate_uniforms(batch, draws, particles, first=particles)
        request = batch.draw_request[owners]
        self._batch, self._request = batch, request
        self._buffer = TrajectoryBuffer(len(owners), loops=batch.loop_watch(request))
        self._resamplings = np.zeros(len(draws), np.int64)
        self._alive = np.arange(len(owners))
        self._frontier = Frontier.at_start(batch, request, batch.draw_index[owners])
        self.log_potential = np.zeros(len(owners))
        if potential is not None:
            self._weigh(self._alive)

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
            before = self._alive
            self._alive, self._frontier = step_on(
                self._buffer, self._alive, self._frontier, self._choose, _STEPPING
            )
            if self._potential is not None:
                self._weigh(before)
            self._resample(step_number)
            step_number += 1
        return self._buffer.candidates()

    def _choose(self, step: Step, alive: NDArray[np.int64]) -> SampledEvents:
        return events.sample(step, self._choices.at(step.depth, alive))

    def _weigh(self, before: NDArray[np.int64]) -> None:
        """Multiply in what the potential says of particles (int64[n]) that took a step.

        Those that it gives the weight 0 walk no further.
        """
        texts = self._buffer.candidates()
        ended = np.setdiff1d(before, self._alive)
        ended = ended[texts.is_complete[ended]]
        for walks, method in ((self._alive, "prefix"), (ended, "complete")):
            log_weights = self._asked(texts, walks, method)
            self._buffer.log_x[walks] += log_weights - self.log_potential[walks]
            self.log_potential[walks] = log_weights
        lost = ended[self.log_potential[ended] == -np.inf]
        self._buffer.finish(lost, STUCK, texts.last[lost])
        is_kept = self.log_potential[self._alive] > -np.inf
        gone = np.flatnonzero(~is_kept)
        self._buffer.finish(self._alive[gone], STUCK, self._frontier.context[gone])
        rows = np.flatnonzero(is_kept)
        self._alive, self._frontier = self._alive[rows], self._frontier.take(rows)

    def _asked(
        self, texts: Candidates, walks: NDArray[np.int64], method: str
    ) -> NDArray[np.float64]:
        """Return log weights of walks (int64[n]), equal texts of one record asked for once."""
        if self._potential is None or not walks.size:
            return np.zeros(len(walks))
        requests, vocabulary = self._batch.requests, self._batch.model.vocabulary
        keys = [
            (int(self._request[walk]), texts.tokens[walk, : texts.lengths[walk]].tobytes())
            for walk in walks.tolist()
        ]
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        spelled = [vocabulary.decode(np.frombuffer(tokens, np.int32)) for _, tokens in place]
        records = [requests[request].input or {} for request, _ in place]
        return weights_of(self._potential, method, spelled, records)[[place[key] for key in keys]]

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
        self.log_potential[slots] = self.log_potential[ancestors]
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
        potential: Weighs texts, whose target is then proportional to P times it; a ``Potential`` or
            several, whose product counts. Nothing is then estimated of P(S), records show the log
            of their text's weight (``log_potential``), and texts without a constraint are led, too.
    """

    method: ClassVar[Method] = METHODS["smc"]
    exactness = "asymptotic"
    particles: int
    resample_below: float
    potential: Potential | Sequence[Potential] | None
    max_walks: int

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse what is no potential."""
        as_potential(options["potential"])

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        phi = as_potential(self.potential)
        masses = MassAccumulator(batch, unbiased=phi is None)
        count = len(batch.seeds)
        particles, resamplings = np.ones(count, np.int64), np.zeros(count, np.int64)
        ess: list[float | None] = [None] * count
        log_phi = np.zeros(count)
        is_free = batch.session_of[batch.draw_request] == UNCONSTRAINED
        is_free &= phi is None
        order, parts = [], []
        for rows, n, choose in (
            (np.flatnonzero(~is_free), self.particles, partial(self._choose, phi=phi)),
            (np.flatnonzero(is_free), 1, _sample_model),
        ):
            for chunk in chunks(len(rows), self.max_walks // n):
                draws = rows[chunk]
                run = choose(batch, draws)
                masses.weigh(draws, run.chosen)
                order.append(draws)
                parts.append(run.chosen)
                particles[draws], resamplings[draws] = n, run.resamplings
                log_phi[draws] = run.log_potential
                for draw, size in zip(draws.tolist(), run.ess, strict=True):
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
                **({} if phi is None else {"log_potential": _known(chosen, log_phi)}),
            },
            per_request=fields,
        )

    def _choose(self, batch: Batch, draws: NDArray[np.int64], phi: Potential | None) -> _Run:
        """Run the populations of draws (int64[n]) that weights lead; take one particle of each."""
        n = self.particles
        populations = Populations(batch, draws, n, self.resample_below, phi)
        candidates = populations.walk()
        log_weights = populations.log_weights
        numbers = opening_uniforms([batch.seeds[draw] for draw in draws], 2 * n)
        rows = np.arange(len(draws)) * n + resample(log_weights, numbers)
        beyond = log_mean(candidates.log_truncated.reshape(-1, n))
        evidence = log_mean(log_weights)
        chosen = replace(candidates.take(rows), log_x=evidence, log_truncated=beyond)
        texts = candidates.last.reshape(-1, n)
        ess = [distinct_ess(*row) for row in zip(log_weights, texts, strict=True)]
        return _Run(chosen, populations.resamplings, ess, populations.log_potential[rows])


class _Run(NamedTuple):
    """One particle of each of n draws.

    chosen: n candidates, with the log evidence as ``log_x``. resamplings: int64[n] how often each
    draw was resampled. ess: The effective sample size of each, None where all weights are 0.
    log_potential: float64[n] log of what the potential gives the particle.
    """

    chosen: Candidates
    resamplings: NDArray[np.int64]
    ess: list[float | None]
    log_potential: NDArray[np.float64]


def _known(chosen: Candidates, log_weights: NDArray[np.float64]) -> list[float | None]:
    """Return the log weights (float64[n]) of the candidates that are texts, None of others."""
    pairs = zip(log_weights.tolist(), chosen.is_complete.tolist(), strict=True)
    return [log if is_text else None for log, is_text in pairs]


def _sample_model(batch: Batch, draws: NDArray[np.int64]) -> _Run:
    """Draw from the model itself, where no constraint weighs anything: one particle a draw."""
    drawn = draw_candidates(batch, draws, candidate_uniforms(batch, draws, 1))
    ess = [1.0 if ended else None for ended in drawn.is_complete.tolist()]
    return _Run(drawn, np.zeros(len(draws), np.int64), ess, np.zeros(len(draws)))
