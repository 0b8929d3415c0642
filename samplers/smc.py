"""SMC: a population of masked walks a draw, weighted by Z at every step and resampled.

Papers: Lew et al. 2023, arXiv 2306.03081 (sequential Monte Carlo steering); Loula et al. 2025,
arXiv 2504.13139. Proposal: a masked step; incremental weight: its allowed mass Z (one token or end
event a step). Deviations: finished particles stay in the population with their weight; equal
prefixes of all particles of all draws are evaluated once; resampling is adaptive, by effective
sample size, and stratified (``particles.stratified``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.base import Sampler
from cdec.samplers.disc import resample
from cdec.samplers.drafts.base import Draft
from cdec.samplers.facts.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.candidates import Candidates, concatenate
from cdec.samplers.walks.mass import distinct_ess
from cdec.samplers.walks.outcome import Outcome
from cdec.samplers.walks.particles import Populations, log_mean
from cdec.samplers.walks.randomness import single_uniform
from cdec.samplers.walks.selection import Tally, candidate_uniforms, chunks, draw_candidates


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
        max_walks: Particles that decode together (at least one draw's); bounds memory, changes no
            result.

    Raises:
        UsageError: An option out of range.
    """

    method: ClassVar[Method] = METHODS["smc"]
    exactness = "asymptotic"
    particles: int
    resample_below: float
    max_walks: int

    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``."""
        tally = Tally(batch, unbiased=True)
        is_free = batch.session_of[batch.draw_request] == FREE
        led, free = np.flatnonzero(~is_free), np.flatnonzero(is_free)
        order = [led[c] for c in chunks(len(led), self.max_walks // self.particles)]
        parts = [self._choose(batch, tally, draws) for draws in order]
        order += [free[c] for c in chunks(len(free), self.max_walks)]
        parts += [_sample_model(batch, tally, draws) for draws in order[len(parts) :]]
        place = np.argsort(np.concatenate(order))
        drawn = _joined(parts).take(place)
        chosen = drawn.chosen
        log_x = np.where(chosen.is_complete, chosen.log_x, np.nan)
        return Outcome(
            chosen=chosen,
            exactness=self.exactness,
            log_weight=log_x,
            log_candidate_weight=log_x,
            per_draw={
                "particles": drawn.particles.tolist(),
                "resamplings": drawn.resamplings.tolist(),
                "ess": drawn.ess,
            },
            per_request=_without_ess(tally),
        )

    def _choose(self, batch: Batch, tally: Tally, draws: NDArray[np.int64]) -> _Drawn:
        """Run the populations of constrained draws, int64[n]; take one particle of each."""
        n = self.particles
        populations = Populations(batch, draws, n, self.resample_below)
        candidates = populations.walk()
        log_weights = populations.log_weights
        evidence = log_mean(log_weights)
        numbers = np.array([single_uniform(batch.seeds[draw], 2 * n) for draw in draws])
        rows = np.arange(len(draws)) * n + resample(log_weights, numbers)
        beyond = log_mean(candidates.log_beyond.reshape(-1, n))
        chosen = replace(candidates.take(rows), log_x=evidence, log_beyond=beyond)
        tally.weigh(draws, chosen)
        texts = candidates.last.reshape(-1, n)
        return _Drawn(
            chosen=chosen,
            particles=np.full(len(draws), n),
            resamplings=populations.resamplings,
            ess=[distinct_ess(*row) for row in zip(log_weights, texts, strict=True)],
        )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """n draws: the chosen candidates, with the log evidence as ``log_x``, and diagnostics.

    particles, resamplings: int64[n]. ess: n numbers, None where all weights are 0.
    """

    chosen: Candidates
    particles: NDArray[np.int64]
    resamplings: NDArray[np.int64]
    ess: list[float | None]

    def take(self, rows: NDArray[np.int64]) -> _Drawn:
        """Return the given rows."""
        ess = [self.ess[row] for row in rows.tolist()]
        return _Drawn(self.chosen.take(rows), self.particles[rows], self.resamplings[rows], ess)


def _joined(parts: list[_Drawn]) -> _Drawn:
    return _Drawn(
        chosen=concatenate([part.chosen for part in parts]),
        particles=np.concatenate([part.particles for part in parts]),
        resamplings=np.concatenate([part.resamplings for part in parts]),
        ess=[ess for part in parts for ess in part.ess],
    )


def _sample_model(batch: Batch, tally: Tally, draws: NDArray[np.int64]) -> _Drawn:
    """Draw from the model itself, where no constraint weighs anything: one particle a draw."""
    drawn = draw_candidates(batch, draws, candidate_uniforms(batch, draws, 1))
    tally.weigh(draws, drawn)
    return _Drawn(
        chosen=drawn,
        particles=np.ones(len(draws), np.int64),
        resamplings=np.zeros(len(draws), np.int64),
        ess=[1.0 if ended else None for ended in drawn.is_complete.tolist()],
    )


def _without_ess(tally: Tally) -> dict[int, dict[str, object]]:
    """Return the records' mass fields; ``ess`` is each draw's own here."""
    fields = tally.fields()
    for mine in fields.values():
        del mine["ess"]
    return fields
