"""What a divergence buys: acceptance, calls and time of ``mentored``, as a figure needs it."""

from __future__ import annotations

from typing import Any

from cdec.integrations.findings.decoding import decode, shipped
from cdec.integrations.findings.mentored import (
    DIVERGENCES,
    FIELDS,
    TOTALS,
    mentored_sampler,
    tradeoff_row,
)
from tools.benchmarks.drafts.common import save
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting


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
        setting, mentored_sampler(setting, "divergence", 0.1, gamma), kinds["facts"].subset(8)
    )  # warm up
    rows = [
        tradeoff_row(setting, budget, value, kinds, seeds, gamma)
        for budget, values in (("divergence", DIVERGENCES), ("divergence_total", TOTALS))
        for value in values
    ]
    figures = {"gamma": gamma, "seeds": seeds, "rows": rows}
    show(
        f"mentored on facts and json, gamma {gamma}, temperature 1; calls, nats, seconds a token",
        ("budget", "nats", *FIELDS),
        [(row["budget"], row["nats"], *(row[name] for name in FIELDS)) for row in rows],
    )
    save(setting, "tradeoff", figures)
    return figures
