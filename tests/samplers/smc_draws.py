"""Toys and draws that the tests of sequential Monte Carlo share."""

from __future__ import annotations

import math

import numpy as np

from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.smc import SmcSampler
from tests.laws.toys import Row, Toy


def dead_end_toy() -> Toy:
    """After a, nothing that the set allows has any probability."""
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])

    def probabilities(prefix: Row) -> np.ndarray:
        if prefix == (0,):
            return np.array([1.0, 0.0, 0.0])
        return np.array([0.6, 0.3, 0.1])

    return Toy(vocabulary, probabilities, [(0, 1), (1,), (1, 1)])


def branching_toy() -> Toy:
    """After b little is allowed, all of it alike: what survives must not depend on what follows.

    If one number chose the second token and the ancestor, few of the middle tokens after b would
    be left.
    """
    vocabulary = Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3])

    def probabilities(prefix: Row) -> np.ndarray:
        if len(prefix) < 2:
            return np.array([[0.3, 0.3, 0.3, 0.1], [0.02, 0.02, 0.02, 0.94]][prefix == (1,)])
        return np.array([0.0, 0.0, 0.0, 1.0])

    return Toy(vocabulary, probabilities, [(t, u) for t in (0, 1) for u in (0, 1, 2)])


def draw(toy: Toy, n: int, particles: int, share: float, limit: int | None = None) -> list[Sample]:
    """Return draws from a seed of their own."""
    sampler = SmcSampler(particles=particles, resample_below=share, max_walks=1 << 15)
    rng = np.random.default_rng([n, particles, int(100 * share)])
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng, max_new_tokens=limit)


def outcome(sample: Sample) -> Row | None:
    """Return the row, or None where no text came out."""
    return tuple(sample.token_ids) if sample.finish_reason == "complete" else None


def evidence(sample: Sample) -> float:
    """Return the estimate of P(S) that the draw's run gives."""
    log = sample.log_candidate_weight
    return 0.0 if log is None else math.exp(log)
