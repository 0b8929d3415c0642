"""Laws to solve for, and what is promised of every solution of the mentored solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.samplers.mentored import solve

Law = NDArray[np.float64]
DRAFT = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
TARGET = np.array([0.1, 0.25, 0.3, 0.05, 0.3])
LIMITS = (0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.7, 3.0, 50.0, 1e6, math.inf)


def kl(q: Law, pi: Law) -> float:
    """KL(q || pi), without quotients that overflow."""
    inside = q > 0
    if (pi[inside] <= 0).any():
        return math.inf
    return float(np.sum(q[inside] * (np.log(q[inside]) - np.log(pi[inside]))))


def acceptance(p: Law, pi: Law) -> float:
    return float(np.minimum(p, pi).sum())


def random_law(generator: np.random.Generator, n: int) -> Law:
    """A law of one of several shapes: smooth, peaked, with zeros, tied, one-hot, extreme."""
    shape = generator.integers(7)
    if shape == 0:
        weights = generator.dirichlet(np.ones(n))
    elif shape == 1:
        weights = np.exp(np.clip(generator.normal(size=n) * generator.choice([1, 9, 90]), -690, 0))
    elif shape == 2:
        weights = generator.dirichlet(np.ones(n)) * (generator.random(n) < 0.5)
    elif shape == 3:
        weights = generator.integers(0, 3, n).astype(float)
    elif shape == 4:
        weights = np.ones(n)
    elif shape == 5:
        weights = np.eye(n)[generator.integers(n)]
    else:
        weights = 10.0 ** generator.uniform(-320, 0, n)
    if not weights.max() > 0:
        weights[generator.integers(n)] = 1.0
    weights = weights / weights.max()
    return weights / weights.sum()


def solution(p: Law, q: Law, limit: float) -> tuple[Law, float, float, float]:
    """Return pi, alpha, beta and the divergence spent."""
    laws, found = solve(p[None], q[None], np.array([limit], np.float64))
    alpha, beta, spent = found[0].tolist()
    return laws[0], alpha, beta, spent


def upper_bound(p: Law, q: Law, limit: float, alpha: float, beta: float) -> float:
    """An acceptance that no law within the limit passes, by weak duality.

    For any multipliers rate >= 0 and price > 0 the Lagrangian sum min(p, x) + rate (D - KL(q || x))
    + price (1 - sum x) is largest at a clip of p, event by event; that maximum bounds every
    feasible law. alpha and beta only choose the multipliers: no error in them makes this too low.
    """
    inside = q > 0
    most = 1.0 - float(p[~inside].sum())
    if not math.isfinite(limit) or not math.isfinite(beta) or not beta > alpha:
        return most
    rate = 1.0 / (beta - alpha)
    price = rate * beta
    p, q = p[inside], q[inside]
    x = np.maximum(p, q / beta)
    x = np.minimum(x, q / alpha) if alpha > 0 else x
    if not (x > 0).all():
        return most
    divergences = q * (np.log(q) - np.log(x))
    bound = np.minimum(p, x).sum() + rate * (limit - divergences.sum()) + price * (1 - x.sum())
    return min(most, float(bound))


def check(p: Law, q: Law, limit: float) -> None:
    """Check all that is promised of one solution."""
    pi, alpha, beta, spent = solution(p, q, limit)
    assert (pi >= 0).all()
    assert (pi[q == 0] == 0).all()
    assert pi.sum() == pytest.approx(1.0, abs=1e-12)
    found = kl(q, pi)
    assert found <= limit
    assert spent <= limit
    assert spent == pytest.approx(found, rel=1e-9, abs=1e-12)
    if limit == 0:
        assert (pi == q).all()
    whole = kl(q, p)
    within = not ((p > 0) & (q == 0)).any()
    if within and (whole < limit - 1e-12 * (1 + limit) or limit == math.inf):
        assert (pi == p).all()
    if not within or whole > limit:
        assert (pi != p).any()
    # Only where the budget is no more than what is left for rounding may nothing be spent.
    # Nor can 1 - alpha be told from 0 where the two laws are one to the last digit.
    assert alpha < 1 or limit <= 2e-13 or np.abs(p - q).max() <= np.finfo(np.float64).eps
    if alpha < 1:
        # What is left for rounding, 1e-13 (1 + limit), costs sqrt(1e-13 / 2) at most.
        assert acceptance(p, pi) >= upper_bound(p, q, limit, alpha, beta) - 1e-6
    assert acceptance(p, pi) >= acceptance(p, q) - 1e-12


def wide_pairs() -> dict[str, tuple[Law, Law]]:
    """Pairs of many events: smooth, nearly equal, equal but for ties, in clusters at two scales."""
    n = 20_000
    generator = np.random.default_rng(2)
    base = generator.normal(size=n) * 3

    def soft(scores: Law) -> Law:
        raised: Law = np.exp(scores - scores.max())
        return raised / raised.sum()

    clusters = np.where(generator.random(n) < 0.5, 1e-3, 1e-7) * generator.integers(-3, 4, n)
    return {
        "smooth": (soft(base + generator.normal(size=n)), soft(base + generator.normal(size=n))),
        "nearly equal": (soft(base), soft(base + 1e-4 * generator.normal(size=n))),
        "ties": (soft(np.zeros(n)), soft(np.arange(n) % 2.0)),
        "clusters": (soft(base), soft(base + clusters)),
        "one-hot draft": (np.eye(1, n, 7)[0], soft(base)),
    }


def peaked_pair(seed: int) -> tuple[Law, Law, float]:
    """Return a draft, a target that is nearly sure of one event, and a divergence.

    Among such pairs are some where the few events to be raised are known at once, and hundreds to
    be cut down are not.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.choice([400, 1000, 4000]))
    common = rng.uniform(1, 4) * rng.normal(size=n)
    target = common + rng.normal(size=n) * rng.uniform(1, 4)
    draft = common + rng.normal(size=n) * rng.uniform(0.5, 3)
    q, p = np.exp(target - target.max()), np.exp(draft - draft.max())
    q[0] = p[0] = 0
    q *= 10.0 ** -rng.uniform(3, 6) / q.sum()
    p *= rng.uniform(0.05, 0.3) / p.sum()
    q[0], p[0] = 1 - q.sum(), 1 - p.sum()
    return p, q, float(rng.choice([0.01, 0.02, 0.05, 0.1]))
