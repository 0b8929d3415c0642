"""DISC on worlds that can be enumerated: its first figure, and its two theorems as curves.

Paper: arXiv 2504.09135. Laws are enumerated, and drawn beside: the share of a text among n draws
is further than ``slack`` from its probability once in a million times (Hoeffding's inequality).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from cdec.integrations.findings.enumeration import (
    Law,
    disc,
    expected_draws,
    log_prob,
    masked,
    mass,
    target,
    total_variation,
)
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.worlds import Row, Toy, lured, soccer_shoes, toy_a, toy_b
from cdec.samplers.registry import SAMPLERS

DRAWS = 20_000
_ONCE_IN = 1e6
_SEED = 2504
_MOST_WALKS = 1 << 15


def figure(laboratory: Laboratory) -> Found:
    """Compute the first figure: masked decoding recommends gloves, the model would say shoes."""
    toy = soccer_shoes()
    laws = {"masked": masked(toy).law, "disc, K=8": disc(toy, 8), "exact": target(toy)}
    drawn = {
        "masked": shares(toy, "masked"),
        "disc, K=8": shares(toy, "disc", K=8),
        "exact": shares(toy, "exact"),
    }
    gloves, shoes = (0, 3), (1, 0, 2)
    p = {row: math.exp(log_prob(toy, row)) for row in toy.members}
    texts = {row: toy.vocabulary.decode(row).decode() for row in toy.members}
    checks = [
        Check("P(soccer gloves) under the model", p[gloves], at_most=p[shoes]),
        Check(
            "how often masked decoding says gloves rather than shoes, ratio",
            laws["masked"][gloves] / laws["masked"][shoes],
            at_least=0.6 / 0.36 - 1e-9,
        ),
        Check(
            "total variation of DISC, K=8, from Q over that of masked",
            total_variation(laws["disc, K=8"], laws["exact"])
            / total_variation(laws["masked"], laws["exact"]),
            at_most=0.1,
        ),
        *(
            Check(
                f"shares of {name} drawn, farthest from its law",
                farthest(drawn[name], law),
                at_most=slack(),
            )
            for name, law in laws.items()
        ),
    ]
    columns = ("text", "P", "Q", *(f"{name}, {how}" for name in drawn for how in ("law", "drawn")))
    rows = [
        (
            *(texts[row], p[row], laws["exact"][row]),
            *(value for name in drawn for value in (laws[name][row], drawn[name].get(row, 0.0))),
        )
        for row in toy.members
    ]
    return Found(checks, [Table("Probabilities of what may be recommended", columns, rows)])


def bias(laboratory: Laboratory) -> Found:
    """Compute Theorem 2.1: masked decoding can be as far from Q as ln 1 / (1 - p_b)."""
    rows, ratios, gaps = [], {}, {}
    for bad in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999):
        toy = lured(1 - bad, 1e-6)
        bound = -math.log1p(-bad)
        law, drawn = masked(toy).law, shares(toy, "masked")
        ratios[bad] = divergence(target(toy), law) / bound
        gaps[bad] = farthest(drawn, law)
        rows.append((bad, bound, ratios[bad] * bound, law[1,], drawn.get((1,), 0.0)))
    others = {}
    for name, toy in {"toy A": toy_a(), "toy B": toy_b(), "figure": soccer_shoes()}.items():
        others[name] = divergence(target(toy), masked(toy).law) / -math.log(mass(toy))
    checks = [
        Check(
            "least KL(Q || masked) over ln 1/(1 - p_b) in the family",
            min(ratios.values()),
            at_least=0.99,
        ),
        Check(
            "largest of these ratios, other worlds too",
            largest({**ratios, **others}),
            at_most=1 + 1e-9,
        ),
        Check("shares drawn, farthest from the law", largest(gaps), at_most=slack()),
    ]
    columns = ("p_b", "ln 1/(1-p_b), nats", "KL(Q || masked), nats", "rare member, law", "drawn")
    plot = Plot(
        "bias",
        "KL(Q || masked) of a family of worlds of two texts, on the bound that no world exceeds.",
        "1 - p_b, the model's mass on the set",
        "nats",
        [
            Line("KL(Q || masked)", [1 - row[0] for row in rows], [row[2] for row in rows]),
            Line("ln 1/(1 - p_b)", [1 - row[0] for row in rows], [row[1] for row in rows]),
        ],
        log_x=True,
    )
    return Found(checks, [Table("Masked decoding, worlds of two texts", columns, rows)], [plot])


def convergence(laboratory: Laboratory) -> Found:
    """Compute Theorem 3.1: DISC tends to Q, at an expected cost that is bounded."""
    checks: list[Check] = []
    tables, plots = [], []
    for name, toy in {"A": toy_a(), "B": toy_b()}.items():
        rows = [_row(toy, tries) for tries in (1, 2, 4, 8, 16)]
        checks += _checks(name, toy, rows)
        title = f"DISC on toy {name}, 1 - p_b = {mass(toy):.6f}"
        tables.append(Table(title, tuple(rows[0]), [tuple(row.values()) for row in rows]))
        plots.append(_plot(name, rows))
    return Found(checks, tables, plots)


def _row(toy: Toy, tries: int) -> dict[str, float]:
    law, q, bad = disc(toy, tries), target(toy), 1 - mass(toy)
    sampler = SAMPLERS["disc"](K=tries, max_walks=_MOST_WALKS)
    rng = np.random.default_rng([_SEED, tries])
    samples = sampler.draw(toy.model(), toy.constraint, "", n=DRAWS, rng=rng)
    drawn = _shares([tuple(sample.token_ids) for sample in samples])
    counts = np.array([sample.diagnostics["draws"] for sample in samples], float)
    bound = bad**tries / (1 - bad) * (math.sqrt(bad * (1 - bad) / tries) + bad / tries)
    return {
        "K": tries,
        "TV, law": total_variation(law, q),
        "TV, drawn": total_variation(drawn, q),
        "farthest share": farthest(drawn, law),
        "KL(Q || law), nats": divergence(q, law),
        "bound, nats": bound,
        "E[k], law": expected_draws(toy, tries),
        "k, drawn": float(counts.mean()),
        "its standard error": float(counts.std(ddof=1) / math.sqrt(DRAWS)),
    }


def _checks(name: str, toy: Toy, rows: list[dict[str, float]]) -> list[Check]:
    ratios = [row["KL(Q || law), nats"] / row["bound, nats"] for row in rows]
    gaps = [abs(row["k, drawn"] - row["E[k], law"]) / row["its standard error"] for row in rows]
    most = (1 + math.exp(-1)) / mass(toy)
    return [
        Check(
            f"{name}: largest KL(Q || DISC) over the bound without its constant",
            largest(ratios),
            at_most=1.0,
        ),
        Check(
            f"{name}: KL(Q || DISC) at K=16 over that at K=1",
            rows[-1]["KL(Q || law), nats"] / rows[0]["KL(Q || law), nats"],
            at_most=0.05,
        ),
        Check(f"{name}: largest E[k]", largest([row["E[k], law"] for row in rows]), at_most=most),
        Check(f"{name}: candidates drawn, standard errors from E[k]", largest(gaps), at_most=5.0),
        Check(
            f"{name}: shares drawn, farthest from the law",
            largest([row["farthest share"] for row in rows]),
            at_most=slack(),
        ),
    ]


def _plot(name: str, rows: list[dict[str, float]]) -> Plot:
    x = [row["K"] for row in rows]
    lines = [
        Line(label, x, [row[label] for row in rows])
        for label in ("TV, law", "TV, drawn", "KL(Q || law), nats", "bound, nats")
    ]
    caption = f"Toy {name}: how far DISC is from Q, enumerated and drawn, and the theorem's bound."
    return Plot(f"toy-{name}", caption, "K", "distance from Q", lines, log_x=True, log_y=True)


def shares(toy: Toy, method: str, **options: Any) -> Law:
    """Draw texts of a world; return the share of each."""
    sampler = SAMPLERS[method](max_walks=_MOST_WALKS, **options)
    rng = np.random.default_rng(_SEED)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=DRAWS, rng=rng)
    return _shares([tuple(sample.token_ids) for sample in samples])


def _shares(rows: list[Row]) -> Law:
    return {row: count / len(rows) for row, count in Counter(rows).items()}


def divergence(law: Mapping[Row | None, float], other: Mapping[Row | None, float]) -> float:
    """Return KL(law || other) in nats, inf where the other lacks an outcome."""
    return math.fsum(
        p * math.log(p / other[row]) if other.get(row, 0.0) > 0 else math.inf
        for row, p in law.items()
        if p > 0
    )


def farthest(drawn: Law, law: Law) -> float:
    """Return the largest difference of a share and its probability."""
    return max(abs(drawn.get(row, 0.0) - law.get(row, 0.0)) for row in {*drawn, *law})


def slack(draws: int = DRAWS) -> float:
    """Return what a share of ``draws`` differs from its probability by, once in a million."""
    return math.sqrt(math.log(2 * _ONCE_IN) / (2 * draws))
