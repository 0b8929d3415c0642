"""Uncached model calls per exact sample on toys A and B, beside the design's reference numbers.

A *call* is an evaluation on the path of an attempt, root and end event included, whether or not a
cache could answer it (design, ALGORITHMS section 3). Each of the seeds is a record with a tree of
its own; all records of a table row decode together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core import CdecError
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.worlds import Toy, toy_a, toy_b
from tools.benchmarks import report
from tools.benchmarks.setting import Setting

SAMPLES = 100
REFERENCE = {("A", False): 6.54, ("A", True): 6.62, ("B", False): 3.38, ("B", True): 3.43}
TOLERANCE = 0.05
PREFIXES = {"A": 37, "B": 10}
"""Distinct prefixes that exist."""


def run(setting: Setting, seeds: int = 300) -> list[dict[str, Any]]:
    """Measure, print and save; return one row for every toy, method and round size."""
    rows = [
        measure(name, toy, abort=abort, round_size=round_size, seeds=seeds)
        for name, toy in (("A", toy_a()), ("B", toy_b()))
        for abort in (False, True)
        for round_size in (1, 16)
    ]
    report.show(
        f"Uncached model calls per exact sample: mean of {SAMPLES} samples, {seeds} seeds",
        ("toy", "method", "round", "calls", "± s.e.", "reference", "distinct", "exist", "ratio"),
        [
            (
                *(row["toy"], row["method"], row["round"], row["calls"], row["se"]),
                f"{row['reference']} ± {TOLERANCE}" if row["round"] == 1 else "≤ 1.5 × round 1",
                *(row["distinct"], PREFIXES[row["toy"]], row["calls"] / row["reference"]),
            )
            for row in rows
        ],
    )
    setting.save("aligned-calls", rows)
    return rows


def measure(name: str, toy: Toy, *, abort: bool, round_size: int, seeds: int) -> dict[str, Any]:
    """Draw ``SAMPLES`` texts for each seed and average the calls they took."""
    options: dict[str, Any] = {"round": round_size, "abort": abort}
    sampler = SAMPLERS["exact"](**options)
    rng = np.random.default_rng(4)
    requests = [Request("", toy.constraint, draw_seeds(rng, SAMPLES)) for _ in range(seeds)]
    calls: list[float] = []
    distinct: list[int] = []
    for drawn in sampler.draw_batch(toy.model(), requests):
        if isinstance(drawn, CdecError):
            raise drawn
        costs: list[dict[str, Any]] = [dict(sample.diagnostics) for sample in drawn]
        calls.append(float(np.mean([cost["path_calls"] for cost in costs])))
        distinct.append(sum(cost["distinct_evaluations"] for cost in costs))
    return {
        "toy": name,
        "method": "exact --abort" if abort else "exact",
        "round": round_size,
        "calls": float(np.mean(calls)),
        "se": float(np.std(calls, ddof=1) / np.sqrt(seeds)) if seeds > 1 else None,
        "reference": REFERENCE[name, abort],
        "distinct": float(np.mean(distinct)),
        "distinct_most": int(np.max(distinct)),
    }
