"""Laws and draws of smc."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.smc import SmcSampler
from tests.laws.worlds import Row, Toy

# --- Exact law of sequential Monte Carlo on a toy, by enumeration of whole populations.
#
# Plain dictionaries, no code of cdec's own. A population is a tuple of particles in their order,
# for
# stratified resampling depends on it.

Particle = tuple[Row | None, bool, float]
"""Row (None where no end was found), whether it still walks, weight."""
Population = tuple[Particle, ...]
Run = tuple[Row | None, float, int]
"""What a run shows: the chosen row, its evidence to 9 digits, how often it was resampled."""


@dataclass(frozen=True)
class Weights:
    """Weights of beginnings and of whole rows; those of none are 1."""

    prefix: Callable[[Row], float] = lambda row: 1.0
    complete: Callable[[Row], float] = lambda row: 1.0


EVEN = Weights()


def smc(
    toy: Toy, particles: int, share: float, limit: int | None = None, phi: Weights = EVEN
) -> dict[Run, float]:
    """Return the law of what a run shows."""
    start = _arrive(toy, (), phi.prefix(()), phi)
    live: dict[tuple[Population, int], float] = {((start,) * particles, 0): 1.0}
    law: dict[Run, float] = defaultdict(float)
    while live:
        after: dict[tuple[Population, int], float] = defaultdict(float)
        for (population, times), p in live.items():
            if not any(walks for _, walks, _ in population):
                for run, q in _choices(population, times).items():
                    law[run] += p * q
                continue
            for moves in itertools.product(*(_moves(toy, one, limit, phi) for one in population)):
                moved = tuple(one for one, _ in moves)
                share_of_move = p * math.prod(q for _, q in moves)
                for (children, more), q in _resampled(moved, share).items():
                    after[children, times + more] += share_of_move * q
        live = after
    return dict(law)


def _moves(
    toy: Toy, particle: Particle, limit: int | None, phi: Weights
) -> list[tuple[Particle, float]]:
    """Return what a particle becomes by one masked step, with probabilities."""
    row, walks, weight = particle
    if not walks or row is None:
        return [(particle, 1.0)]
    given = toy.probabilities(row)
    end = sum(given[e] for e in toy.vocabulary.eos_token_ids) if row in toy.members else 0.0
    rows = {member[: len(row) + 1] for member in toy.members if len(member) > len(row)}
    following = sorted(longer for longer in rows if longer[:-1] == row)
    if limit is not None and len(row) >= limit:
        following = []
    z = end + sum(given[longer[-1]] for longer in following)
    if z == 0:
        return [((None, False, 0.0), 1.0)]
    weight *= z / phi.prefix(row)
    moves = [
        (_arrive(toy, longer, weight * phi.prefix(longer), phi), given[longer[-1]] / z)
        for longer in following
    ]
    whole = (row, False, weight * phi.complete(row))
    return [
        *(m for m in moves if m[1] > 0),
        *([(whole if whole[2] else (None, False, 0.0), end / z)] if end else []),
    ]


def _arrive(toy: Toy, row: Row, weight: float, phi: Weights) -> Particle:
    """Return the particle at ``row``: done, or walking on; lost if it has no weight."""
    is_done = toy.ends_itself and row in toy.members
    if weight and is_done:
        weight *= phi.complete(row) / phi.prefix(row)
    return (row, not is_done, weight) if weight else (None, False, 0.0)


def _resampled(population: Population, share: float) -> dict[tuple[Population, int], float]:
    """Return the populations that follow, with 1 where this one was resampled."""
    weights = [weight for _, _, weight in population]
    n, total = len(weights), sum(weights)
    walks = any(walks for _, walks, _ in population)
    if not walks or total**2 >= share * n * sum(w * w for w in weights):
        return {(population, 0): 1.0}
    edges = [0.0, *itertools.accumulate(w / total for w in weights)]
    slots = []
    for i in range(n):  # Slot i takes the particle that a point of [i/n, (i+1)/n) falls into.
        overlaps = [n * (min(b, (i + 1) / n) - max(a, i / n)) for a, b in itertools.pairwise(edges)]
        slots.append([(j, p) for j, p in enumerate(overlaps) if p > 1e-12])
    law: dict[tuple[Population, int], float] = defaultdict(float)
    for picks in itertools.product(*slots):
        children = tuple((*population[j][:2], total / n) for j, _ in picks)
        law[children, 1] += math.prod(p for _, p in picks)
    return law


def _choices(population: Population, times: int) -> dict[Run, float]:
    """Return what a finished run shows."""
    total = sum(weight for _, _, weight in population)
    if total == 0:
        return {(None, 0.0, times): 1.0}
    law: dict[Run, float] = defaultdict(float)
    evidence = round(total / len(population), 9)
    for row, _, weight in population:
        if weight > 0:
            law[row, evidence, times] += weight / total
    return law


# --- Toys and draws that the tests of sequential Monte Carlo share.


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
