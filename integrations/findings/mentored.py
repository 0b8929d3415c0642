"""Mentored decoding: the optimum that its solver finds, and what a divergence buys.

Paper: Mentored decoding (Tran-Thien 2023), sections 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.integrations.findings.decoding import Prompts, decode, pair, shipped
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.samplers.mentored import mentored_distribution
from cdec.samplers.registry import SAMPLERS

Law = NDArray[np.float64]
DIVERGENCES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, math.inf)
TOTALS = (0.0, 0.1, 0.5, 1.0, 2.0)
FIELDS = (
    *("acceptance_rate", "accepted_length", "target_calls", "draft_calls", "kl_spent", "right"),
    *("right_facts", "right_json", "seconds"),
)
_PAIRS = 300
_RIVALS = 300
_LIMITS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_DRAFT = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
_TARGET = np.array([0.1, 0.25, 0.3, 0.05, 0.3])


def optimum(laboratory: Laboratory) -> Found:
    """Compute sections 4 to 6: the solver's acceptance is the most that a divergence allows."""
    generator = np.random.default_rng(2023)
    pairs = [(_DRAFT, _TARGET), *(_pair(generator) for _ in range(_PAIRS))]
    excess, shortfall, falls, unsaturated = [], [], [], []
    for p, q in pairs:
        before = float(np.minimum(p, q).sum())
        for limit in _LIMITS:
            pi = mentored_distribution(p, q, limit)
            accepted, spent = float(np.minimum(p, pi).sum()), divergence(q, pi)
            excess.append(spent - limit)
            falls.append(before - accepted)
            before = accepted
            if accepted < 1 - 1e-6 and divergence(q, p) > limit:
                unsaturated.append(1 - spent / limit)
            rivals = _rivals(generator, p, q, limit)
            shortfall.append(max(float(np.minimum(p, r).sum()) for r in rivals) - accepted)
    rows = list(_curve())
    lossless = np.minimum(_DRAFT, _TARGET).sum()
    checks = [
        Check("largest excess of KL(q || pi) over D, nats", largest(excess), at_most=1e-9),
        Check("largest acceptance of another law within D, beyond the solver's",
              largest(shortfall), at_most=1e-6),
        Check("largest fall of acceptance where D grows", largest(falls), at_most=1e-9),
        Check("largest share of D that is not spent where acceptance is below 1",
              largest(unsaturated), at_most=1e-3),
        Check("acceptance at D = 0, from that of lossless speculation",
              abs(rows[0][1] - lossless), at_most=1e-12),
        Check("acceptance at D = KL(q || p)", rows[-1][1], at_least=1 - 1e-9),
    ]  # fmt: skip
    x, y = [[row[i] for row in rows] for i in (0, 1)]
    plot = Plot("acceptance", "The most that is accepted, by what may diverge.", "D, nats",
                "acceptance", [Line("pi", x, y)])  # fmt: skip
    title = "p = (.4 .3 .15 .1 .05), q = (.1 .25 .3 .05 .3)"
    return Found(checks, [Table(title, ("D, nats", "acceptance", "KL(q || pi)"), rows)], [plot])


def _curve() -> Iterator[tuple[float, float, float]]:
    for limit in (0.0, *_LIMITS[:-1], divergence(_TARGET, _DRAFT)):
        pi = mentored_distribution(_DRAFT, _TARGET, limit)
        yield limit, float(np.minimum(_DRAFT, pi).sum()), divergence(_TARGET, pi)


def _pair(generator: np.random.Generator) -> tuple[Law, Law]:
    """Return a draft's and a target's law of the same few events."""
    n = int(generator.integers(2, 9))
    p, q = generator.dirichlet(np.full(n, 0.5), size=2) + 1e-6
    return p / p.sum(), q / q.sum()


def _rivals(generator: np.random.Generator, p: Law, q: Law, limit: float) -> list[Law]:
    """Return laws within the divergence: between q, p and random ones, as far out as is allowed."""
    found = [q]
    outer = generator.dirichlet(np.ones(len(p)), size=_RIVALS // 100)
    for law in (p, *(0.5 * (p + one) for one in outer)):
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            is_within = divergence(q, (1 - middle) * q + middle * law) <= limit
            low, high = (middle, high) if is_within else (low, middle)
        found.append((1 - low) * q + low * law)
    return found


def divergence(q: Law, pi: Law) -> float:
    """Return KL(q || pi) in nats."""
    inside = q > 0
    if (pi[inside] <= 0).any():
        return math.inf
    return float(np.sum(q[inside] * (np.log(q[inside]) - np.log(pi[inside]))))


# --- What a divergence buys under the models.


def tradeoff(laboratory: Laboratory) -> Found:
    """Compute acceptance, calls and right answers by divergence, a position's and a sequence's."""
    kinds = {"facts": shipped("facts").subset(160), "json": shipped("json").subset(24)}
    rows = {
        budget: [tradeoff_row(laboratory, budget, value, kinds, 1, 4) for value in values]
        for budget, values in (("divergence", DIVERGENCES), ("divergence_total", TOTALS))
    }
    at = {row["nats"]: row for row in rows["divergence"]}
    total = {row["nats"]: row for row in rows["divergence_total"]}
    checks = [
        Check("target calls a token at D = 0.1 over those at D = 0",
              at[0.1]["target_calls"] / at[0.0]["target_calls"], at_most=1.0),
        Check("acceptance at D = 0.5 less that at D = 0",
              at[0.5]["acceptance_rate"] - at[0.0]["acceptance_rate"], at_least=0.0),
        Check("largest kl_spent a token over D, finite D > 0",
              largest([row["kl_spent"] / d for d, row in at.items() if d not in (0.0, "inf")]),
              at_most=1.0 + 1e-9),
        Check("target calls a token at a sequence's budget of 2 nats over those at 0",
              total[2.0]["target_calls"] / total[0.0]["target_calls"], at_most=1.0),
    ]  # fmt: skip
    kept = ("nats", *FIELDS[:-1])
    names = {"divergence": "a position's", "divergence_total": "a sequence's"}
    tables = [
        Table(f"Budget {names[b]}: calls and kl_spent (nats) a token, shares right", kept,
              [tuple(row[name] for name in kept) for row in own])
        for b, own in rows.items()
    ]  # fmt: skip
    times = [
        Table(f"Budget {names[b]}: seconds a token", ("nats", "seconds"),
              [(row["nats"], row["seconds"]) for row in own])
        for b, own in rows.items()
    ]  # fmt: skip
    lines = [
        Line(f"budget {names[b]}", [row["kl_spent"] for row in own],
             [row["target_calls"] for row in own])
        for b, own in rows.items()
    ]  # fmt: skip
    plot = Plot("tradeoff", "What is saved, by what was spent of the two kinds of budgets.",
                "kl_spent, nats a token", "target calls a token", lines)  # fmt: skip
    return Found(checks, tables, [plot, _accuracy(rows, names)], times)


def _accuracy(rows: dict[str, list[dict[str, Any]]], names: dict[str, str]) -> Plot:
    lines = [
        Line(f"budget {names[b]}", [row["kl_spent"] for row in own], [row["right"] for row in own])
        for b, own in rows.items()
    ]
    return Plot("right", "Right answers, by what was spent.", "kl_spent, nats a token",
                "share of right answers", lines)  # fmt: skip


def tradeoff_row(
    laboratory: Laboratory,
    budget: str,
    value: float,
    kinds: dict[str, Prompts],
    seeds: int,
    gamma: int,
) -> dict[str, Any]:
    """Draw texts for prompts of some kinds with one budget; return means of ``FIELDS``.

    Args:
        laboratory: The models and the clock.
        budget: ``divergence`` or ``divergence_total``. value: of it, nats.
        kinds: Prompts by name, ``facts`` and ``json``.
        seeds: Draws of each prompt, as runs of their own.
        gamma: Tokens drafted before each verification.
    """
    found: dict[str, list[float]] = {name: [] for name in FIELDS}
    sampler = mentored_sampler(laboratory, budget, value, gamma)
    for seed in range(seeds):
        runs = {name: decode(laboratory, sampler, kinds[name], seeds=[seed]) for name in kinds}
        events = sum(run.events for run in runs.values())
        tested = [s.diagnostics for run in runs.values() for s in run.samples]
        for name in ("acceptance_rate", "accepted_length"):
            known = [float(d[name]) for d in tested if d[name] is not None]  # type: ignore[arg-type]
            found[name].append(float(np.mean(known)))
        for name in ("target_calls", "draft_calls", "kl_spent"):
            found[name].append(sum(run.total(name) for run in runs.values()) / events)
        found["seconds"].append(sum(run.seconds for run in runs.values()) / events)
        right = {name: runs[name].right(kinds[name]) for name in kinds}
        found["right_facts"].append(right["facts"])
        found["right_json"].append(right["json"])
        sizes = [len(kinds[name]) for name in kinds]
        found["right"].append(float(np.average(list(right.values()), weights=sizes)))
    nats = value if math.isfinite(value) else "inf"
    return {
        "budget": budget,
        "nats": nats,
        **{name: float(np.mean(values)) for name, values in found.items()},
    }


def mentored_sampler(laboratory: Laboratory, budget: str, value: float, gamma: int) -> Any:
    """Return the sampler of one budget."""
    how: dict[str, Any] = {"draft": pair(laboratory)[1], "gamma": gamma, budget: value}
    return SAMPLERS["mentored"](**how)
