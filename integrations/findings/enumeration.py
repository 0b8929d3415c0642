"""Exact laws of the samplers on a toy, by enumeration: plain dictionaries, no code of cdec's own.

A *law* maps outcomes to probabilities; an outcome is a row, or None where no text came out.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from cdec.integrations.findings.worlds import Row, Toy

Law = dict[Row | None, float]


@dataclass(frozen=True)
class Masked:
    """Masked decoding: every text with its probability and its x; ``stuck`` is what got lost."""

    law: Law
    x: dict[Row, float]

    @property
    def stuck(self) -> float:
        """Probability of ending without a text."""
        return self.law.get(None, 0.0)


def log_prob(toy: Toy, row: Row) -> float:
    """Return log P of a member, end event included where it takes one."""
    ends = toy.vocabulary.eos_token_ids
    total = 1.0
    for depth, token in enumerate(row):
        total *= toy.probabilities(row[:depth])[token]
    if not toy.ends_itself:
        total *= sum(toy.probabilities(row)[end] for end in ends)
    return math.log(total) if total > 0 else -math.inf


def mass(toy: Toy) -> float:
    """Return P(S)."""
    return sum(math.exp(log_prob(toy, row)) for row in toy.members)


def target(toy: Toy) -> Law:
    """Return Q = P(. | S)."""
    total = mass(toy)
    return {row: math.exp(log_prob(toy, row)) / total for row in toy.members}


def masked(toy: Toy, limit: int | None = None) -> Masked:
    """Walk the whole tree of allowed events; at the limit only the end event is allowed."""
    members = set(toy.members)
    law: Law = defaultdict(float)
    x: dict[Row, float] = {}

    def walk(prefix: Row, probability: float, weight: float) -> None:
        if toy.ends_itself and prefix in members:
            law[prefix] += probability
            x[prefix] = weight
            return
        given = toy.probabilities(prefix)
        end = sum(given[e] for e in toy.vocabulary.eos_token_ids) if prefix in members else 0.0
        following = sorted(
            {row[len(prefix)] for row in members if row[: len(prefix)] == prefix and row != prefix}
        )
        if limit is not None and len(prefix) >= limit:
            following = []
        z = end + sum(given[token] for token in following)
        if z == 0:
            law[None] += probability
            return
        if end > 0:
            law[prefix] += probability * end / z
            x[prefix] = weight * z
        for token in following:
            if given[token] > 0:
                walk((*prefix, token), probability * given[token] / z, weight * z)

    walk((), 1.0, 1.0)
    return Masked(dict(law), x)


def disc(toy: Toy, tries: int, *, recycle: bool = False, limit: int | None = None) -> Law:
    """Return the law of DISC with K = tries: acceptance, then importance resampling."""
    candidates = masked(toy, limit)
    accepted = {row: candidates.law[row] * x for row, x in candidates.x.items()}
    rejected_mass = 1 - sum(accepted.values())
    law: Law = defaultdict(float)
    tested = sum(rejected_mass**i for i in range(tries))
    for row, p in accepted.items():
        law[row] += p * tested
    if recycle:
        measure = {row: candidates.law[row] * (1 - x) for row, x in candidates.x.items()}
        weights = {row: x / (1 - x) for row, x in candidates.x.items() if x < 1}
        measure = {row: p for row, p in measure.items() if row in weights}
        share = 1.0
    else:
        measure = {row: candidates.law[row] for row in candidates.x}
        weights = dict(candidates.x)
        share = rejected_mass**tries
    for outcome, p in _resampled(measure, weights, candidates.stuck, tries).items():
        law[outcome] += share * p
    return dict(law)


def expected_draws(toy: Toy, tries: int, *, recycle: bool = False) -> float:
    """Return the mean number of candidates a draw: (1 - b^K) / (1 - b) + K b^K, b = 1 - P(S)."""
    bad = 1 - mass(toy)
    fallback = 0 if recycle else tries * bad**tries
    return sum(bad**i for i in range(tries)) + fallback


def total_variation(first: Law, second: Law) -> float:
    """Return half the sum of absolute differences."""
    return sum(abs(first.get(k, 0) - second.get(k, 0)) for k in {*first, *second}) / 2


def _resampled(
    measure: dict[Row, float], weights: dict[Row, float], stuck: float, tries: int
) -> Law:
    """Law of one of K candidates taken in proportion to its weight; outcomes of one weight grouped.

    ``measure`` may have a total below 1: it is then the measure of K rejected candidates.
    """
    groups: dict[float, float] = defaultdict(float)
    for row, p in measure.items():
        groups[round(weights[row], 15)] += p
    values = [*groups, 0.0]
    masses = [*groups.values(), stuck]
    taken: dict[float, float] = defaultdict(float)
    lost = 0.0
    for counts in _compositions(tries, len(values)):
        p = float(math.factorial(tries))
        for n, m in zip(counts, masses, strict=True):
            p *= m**n / math.factorial(n)
        total = sum(n * w for n, w in zip(counts, values, strict=True))
        if total == 0:
            lost += p
            continue
        for n, w in zip(counts, values, strict=True):
            taken[w] += p * n * w / total
    law: Law = {
        row: taken[w] * p / groups[w]
        for row, p in measure.items()
        if groups[w := round(weights[row], 15)] > 0
    }
    law[None] = lost
    return law


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of ``parts`` counts that sum to ``total``."""
    for bars in itertools.combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *bars, total + parts - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))
