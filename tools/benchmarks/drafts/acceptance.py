"""Mentored acceptance beside that of a convex solver, on random pairs with zeros.

The competitor is sequential quadratic programming over laws on the target's support, as the tests
of the solver use it; the divergence of what ``mentored_distribution`` returns is computed anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.integrations.findings.mentored import divergence
from cdec.samplers.mentored import mentored_distribution
from tests.samplers.mentored.test_mentored_solver import solver_acceptance
from tools.benchmarks.drafts.common import save
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting

LIMITS = (0.01, 0.1, 0.3, 1.0)
TARGET = 1e-6
_MATCH = 1e-5
Law = NDArray[np.float64]


def run(setting: Setting, pairs: int = 400) -> dict[str, Any]:
    """Measure, print and save.

    Args:
        setting: Where the figures go; no model is run.
        pairs: Random pairs for each divergence.

    Returns:
        ``rows``: by divergence, the worst shortfall of acceptance against the solver, the worst
        excess of KL(q || pi) over the divergence, and how often the solver came as near as 1e-5.
    """
    rows = [_against_solver(limit, pairs) for limit in LIMITS]
    figures = {
        "pairs": pairs,
        "rows": rows,
        "worst_shortfall": max(row["worst_shortfall"] for row in rows),
        "worst_excess_nats": max(row["worst_excess_nats"] for row in rows),
        "target_shortfall": TARGET,
    }
    show(
        f"mentored_distribution against scipy's SLSQP, {pairs} pairs of 2 to 6 events each",
        ("divergence", "acceptance", "worst shortfall", "≤", "worst KL − D, nats", "matched"),
        [
            (
                *(row["divergence"], row["mean_acceptance"], row["worst_shortfall"], TARGET),
                *(row["worst_excess_nats"], row["matched"]),
            )
            for row in rows
        ],
    )
    save(setting, "acceptance", figures)
    return figures


def _against_solver(limit: float, pairs: int) -> dict[str, Any]:
    generator = np.random.default_rng(round(1000 * limit))
    shortfalls: list[float] = []
    excesses: list[float] = []
    accepted: list[float] = []
    while len(accepted) < pairs:
        n = int(generator.integers(2, 7))
        p, q = (_law(generator, n, keep) for keep in (0.7, 0.8))
        pi = mentored_distribution(p, q, limit)
        accepted.append(float(np.minimum(p, pi).sum()))
        shortfalls.append(solver_acceptance(p, q, limit) - accepted[-1])
        excesses.append(divergence(q, pi) - limit)
    return {
        "divergence": limit,
        "mean_acceptance": float(np.mean(accepted)),
        "worst_shortfall": float(np.max(shortfalls)),
        "worst_excess_nats": float(np.max(excesses)),
        "matched": float(np.mean(np.array(shortfalls) > -_MATCH)),
    }


def _law(generator: np.random.Generator, n: int, keep: float) -> Law:
    """Return a law of which each event has mass with probability ``keep``; at least one has."""
    weights = generator.dirichlet(np.ones(n)) * (generator.random(n) < keep)
    if not weights.sum() > 0:
        weights[generator.integers(n)] = 1.0
    law: Law = weights / weights.sum()
    return law
