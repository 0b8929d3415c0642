"""What a divergence buys: acceptance, calls and time of ``mentored``, as a figure needs it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cdec.samplers import SAMPLERS
from tools.benchmarks.drafts.common import Prompts, decode, pair, save, shipped
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting

DIVERGENCES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, math.inf)
TOTALS = (0.0, 0.1, 0.5, 1.0, 2.0)
_FIELDS = (
    *("acceptance_rate", "accepted_length", "target_calls", "draft_calls", "kl_spent", "right"),
    *("right_facts", "right_json", "seconds"),
)


def run(
    setting: Setting, facts: int = 400, records: int = 60, seeds: int = 1, gamma: int = 4
) -> dict[str, Any]:
    """Measure, print and save.

    Args:
        setting: The models, and where the figures go.
        facts: Shipped questions, spread evenly. records: Shipped requests for JSON.
        seeds: Draws of each prompt, as runs of their own.
        gamma: Tokens drafted before each verification.

    Returns:
        ``rows``: means over the seeds; calls, ``kl_spent`` (nats) and ``seconds`` (process time)
        are a token's, ``right`` shares of exact answers. An infinite divergence is "inf".
    """
    kinds = {"facts": shipped("facts").subset(facts), "json": shipped("json").subset(records)}
    decode(
        setting, _sampler(setting, "divergence", 0.1, gamma), kinds["facts"].subset(8)
    )  # warm up
    rows = [
        _row(setting, budget, value, kinds, seeds, gamma)
        for budget, values in (("divergence", DIVERGENCES), ("divergence_total", TOTALS))
        for value in values
    ]
    figures = {"gamma": gamma, "seeds": seeds, "rows": rows}
    show(
        f"mentored on facts and json, gamma {gamma}, temperature 1; calls, nats, seconds a token",
        ("budget", "nats", *_FIELDS),
        [(row["budget"], row["nats"], *(row[name] for name in _FIELDS)) for row in rows],
    )
    save(setting, "tradeoff", figures)
    return figures


def _row(
    setting: Setting,
    budget: str,
    value: float,
    kinds: dict[str, Prompts],
    seeds: int,
    gamma: int,
) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in _FIELDS}
    sampler = _sampler(setting, budget, value, gamma)
    for seed in range(seeds):
        runs = {name: decode(setting, sampler, kinds[name], seeds=[seed]) for name in kinds}
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


def _sampler(setting: Setting, budget: str, value: float, gamma: int) -> Any:
    how: dict[str, Any] = {"draft": pair(setting)[1], "gamma": gamma, budget: value}
    return SAMPLERS["mentored"](**how)
