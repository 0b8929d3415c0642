"""Time beside what the call counts predict, and what decoding prompts together gains.

The prediction is what both models take to read the prompts, and from there target calls times a
greedy call of the target plus draft calls times a greedy call of the draft, at the same batch size.
A call that verifies a draft reads several tokens, a greedy one reads one; the ``wide ratio`` is the
same with the measured price of that. Times are process times on one thread, which others on the
machine disturb little; measurement and baseline alternate, and the best of a few counts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cdec.integrations.findings.decoding import (
    Prompts,
    concept_sets,
    decode,
    entity_set,
    pair,
    shipped,
)
from cdec.samplers import SAMPLERS
from cdec.samplers.rewards import build_reward
from tests.shared import shared_folder
from tools.benchmarks.drafts.common import save
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting

TARGET = 1.2
_LENGTH = 24


def run_wall(
    setting: Setting, prompts: int = 48, repeats: int = 3, batches: tuple[int, ...] = (1, 16)
) -> dict[str, Any]:
    """Measure every method, print and save.

    Args:
        setting: The models and the clock, and where the figures go.
        prompts: Decoded at each batch size, at most; a third of them one at a time.
        repeats: Runs of each, of which the fastest counts.
        batches: Prompts that decode together.

    Returns:
        ``rows``: milliseconds a call of both models, calls, seconds, and seconds over prediction;
        what a call costs that verifies a draft of this method, in greedy calls, and seconds over
        the prediction with it.
    """
    rows = []
    with entity_set(pair(setting)[0]) as constraint:
        for batch in batches:
            count = prompts if batch > 1 else max(4, prompts // 3)
            kinds = _prompts(count)
            for label, kind, options in _METHODS:
                under = constraint if label.endswith("set") else None
                found = _beside_prediction(
                    setting, kind, options, kinds[under is None], batch, under, repeats
                )
                rows.append({"method": label, "batch": batch, **found})
    show(
        f"Process time over what calls predict, one thread (target ≤ {TARGET})",
        (
            *("method", "batch", "target ms", "draft ms", "target calls", "draft calls"),
            *("s", "ratio", "wide call", "wide ratio"),
        ),
        [tuple(row.values()) for row in rows],
    )
    figures = {"rows": rows, "target": TARGET, "worst": max(row["ratio"] for row in rows)}
    save(setting, "wall", figures)
    return figures


def run_batches(setting: Setting, prompts: int = 128, repeats: int = 2) -> dict[str, Any]:
    """Measure tokens a second by batch size, with a draft and without; print and save.

    Args:
        setting: The models and the clock, and where the figures go.
        prompts: Shipped questions; a fourth of them one at a time.
        repeats: Runs of each, of which the fastest counts.
    """
    facts = shipped("facts")
    samplers = {
        "greedy": SAMPLERS["greedy"](),
        "speculative, greedy": _sampler(setting, "speculative", {"greedy": True}),
        "masked": SAMPLERS["masked"](),
        "speculative, sampling": _sampler(setting, "speculative", {}),
    }
    rows: list[dict[str, Any]] = []
    for label, sampler in samplers.items():
        rates: dict[str, float] = {}
        for batch in (1, 4, 16, 64):
            asked = facts.subset(prompts if batch > 1 else prompts // 4)
            decode(setting, sampler, asked.subset(2), batch=batch)
            runs = [decode(setting, sampler, asked, batch=batch) for _ in range(repeats)]
            rates[str(batch)] = max(run.events / run.seconds for run in runs)
        rows.append({"method": label, "rates": rates, "gain": rates["64"] / rates["1"]})
    show(
        "Tokens a second by prompts that decode together, one thread",
        ("method", "1", "4", "16", "64", "gain of 64 over 1"),
        [(row["method"], *row["rates"].values(), row["gain"]) for row in rows],
    )
    save(setting, "batches", rows)
    return {"rows": rows}


_WIDTHS = {"speculative": 5, "mentored": 5, "disc": 5, "cdsl": 4}
"""Tokens that a verifying pass reads of each row, by method, at default options."""

_METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("speculative, greedy", "speculative", {"greedy": True}),
    ("speculative, sampling", "speculative", {}),
    ("mentored", "mentored", {}),
    ("cdlh", "cdlh", {}),
    ("cdlh-approx", "cdlh-approx", {}),
    ("cdsl", "cdsl", {}),
    ("cdsl, b=0, r=.9", "cdsl", {"target_tries": 0, "reward_threshold": 0.9}),
    ("speculative, sampling, in the set", "speculative", {}),
    ("disc with a draft, in the set", "disc", {}),
]


def _prompts(count: int) -> tuple[Prompts, Prompts]:
    """Return questions, which the set answers, and concept sets."""
    concepts, _ = concept_sets(shared_folder() / "data/commongen/dev.jsonl.xz", count)
    return shipped("facts").subset(count), concepts


def _sampler(setting: Setting, name: str, options: dict[str, Any]) -> Any:
    how = dict(options)
    if name != "cdlh":
        how["draft"] = pair(setting)[1]
    if name.startswith("cd"):
        how["reward"] = build_reward("coverage")
    return SAMPLERS[name](**how)


def _beside_prediction(
    setting: Setting,
    name: str,
    options: dict[str, Any],
    prompts: Prompts,
    batch: int,
    constraint: Any,
    repeats: int,
) -> dict[str, Any]:
    sampler = _sampler(setting, name, options)
    how: dict[str, Any] = {"batch": batch, "length": _LENGTH, "constraint": constraint}
    decode(setting, sampler, prompts.subset(4), **how)  # warm up
    runs, target, draft = [], [], []
    for _ in range(repeats):
        target.append(_greedy_times(setting, 0, prompts, how))
        runs.append(decode(setting, sampler, prompts, **how))
        draft.append(_greedy_times(setting, 1, prompts, how))
    run = min(runs, key=lambda one: one.seconds)
    calls = int(run.total("target_calls")), int(run.total("draft_calls"))
    wide = _wide_call(setting, batch, _WIDTHS.get(name, 1))
    predicted = []
    for factor in (1.0, wide):
        seconds = 0.0
        for count, times, price in zip(calls, (target, draft), (factor, 1.0), strict=True):
            reading, call = np.min(times, axis=0).tolist()
            # The first call of a prompt is the one that reads it.
            seconds += reading + (count - len(prompts)) * call * price if count else 0.0
        predicted.append(seconds)
    return {
        "target_ms": 1e3 * min(call for _, call in target),
        "draft_ms": 1e3 * min(call for _, call in draft),
        "target_calls": calls[0],
        "draft_calls": calls[1],
        "seconds": run.seconds,
        "ratio": run.seconds / predicted[0],
        "wide_call": wide,
        "wide_ratio": run.seconds / predicted[1],
    }


@cache
def _wide_call(setting: Setting, rows: int, width: int) -> float:
    """Return the time of a pass of the target over ``width`` tokens a row, over that of one."""
    return (
        _pass_seconds(setting, rows, width) / _pass_seconds(setting, rows, 1) if width > 1 else 1.0
    )


def _pass_seconds(setting: Setting, rows: int, width: int, repeats: int = 20) -> float:
    """Return the least time of a pass over ``width`` new tokens of each row."""
    model, rng, least = pair(setting)[0], np.random.default_rng(0), float("inf")
    contexts = model.prefill([rng.integers(3, 400, 25).tolist() for _ in range(rows)])
    model.evaluate(contexts)
    for _ in range(repeats):
        levels, ends = [], contexts
        for _ in range(width):
            ends = model.advance(ends, rng.integers(3, 400, rows))
            levels.append(ends)
        before = setting.seconds()
        model.evaluate(np.concatenate(levels))
        least = min(least, setting.seconds() - before)
    model.release(contexts)
    return least


def _greedy_times(
    setting: Setting, which: int, prompts: Prompts, how: dict[str, Any]
) -> tuple[float, float]:
    """Return seconds that the target (0) or the draft (1) takes to read prompts, and for a call."""
    greedy = SAMPLERS["greedy"]()
    first = decode(setting, greedy, prompts, model=pair(setting)[which], **(how | {"length": 1}))
    whole = decode(setting, greedy, prompts, model=pair(setting)[which], **how)
    calls = whole.total("target_calls") - first.total("target_calls")
    return first.seconds, (whole.seconds - first.seconds) / max(1.0, calls)
