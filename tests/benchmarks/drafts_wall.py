"""Time beside what the call counts predict, and what decoding prompts together gains.

The prediction is target calls times a greedy call of the target plus draft calls times a greedy
call of the draft, at the same batch size. Times are process times on one thread, which others on
the machine disturb little; measurement and baseline alternate, and the best of a few counts.
"""

from __future__ import annotations

from typing import Any

from cdec.samplers import SAMPLERS
from cdec.samplers.rewards import build_reward
from tests.benchmarks.drafts_common import (
    Prompts,
    concept_sets,
    decode,
    entity_set,
    pair,
    save,
    shipped,
    show,
)
from tests.benchmarks.drafts_table import seconds_a_call
from tests.conftest import shared_folder

TARGET = 1.2
_LENGTH = 24


def run_wall(
    prompts: int = 48, repeats: int = 3, batches: tuple[int, ...] = (1, 16)
) -> dict[str, Any]:
    """Measure every method, print and save.

    Args:
        prompts: Decoded at each batch size, at most; a third of them one at a time.
        repeats: Runs of each, of which the fastest counts.
        batches: Prompts that decode together.

    Returns:
        ``rows``: milliseconds a call of both models, calls, seconds, and seconds over prediction.
    """
    rows = []
    with entity_set(pair()[0]) as constraint:
        for batch in batches:
            count = prompts if batch > 1 else max(4, prompts // 3)
            kinds = _prompts(count)
            for label, kind, options in _METHODS:
                under = constraint if label.endswith("set") else None
                found = _beside_prediction(
                    kind, options, kinds[under is None], batch, under, repeats
                )
                rows.append({"method": label, "batch": batch, **found})
    show(
        f"Process time over what calls predict, one thread (target ≤ {TARGET})",
        ("method", "batch", "target ms", "draft ms", "target calls", "draft calls", "s", "ratio"),
        [tuple(row.values()) for row in rows],
    )
    figures = {"rows": rows, "target": TARGET, "worst": max(row["ratio"] for row in rows)}
    save("wall", figures)
    return figures


def run_batches(prompts: int = 128, repeats: int = 2) -> dict[str, Any]:
    """Measure tokens a second by batch size, with a draft and without; print and save.

    Args:
        prompts: Shipped questions; a fourth of them one at a time.
        repeats: Runs of each, of which the fastest counts.
    """
    facts = shipped("facts")
    samplers = {
        "greedy": SAMPLERS["greedy"](),
        "speculative, greedy": _sampler("speculative", {"greedy": True}),
        "masked": SAMPLERS["masked"](),
        "speculative, sampling": _sampler("speculative", {}),
    }
    rows: list[dict[str, Any]] = []
    for label, sampler in samplers.items():
        rates: dict[str, float] = {}
        for batch in (1, 4, 16, 64):
            asked = facts.subset(prompts if batch > 1 else prompts // 4)
            decode(sampler, asked.subset(2), batch=batch)
            runs = [decode(sampler, asked, batch=batch) for _ in range(repeats)]
            rates[str(batch)] = max(run.events / run.seconds for run in runs)
        rows.append({"method": label, "rates": rates, "gain": rates["64"] / rates["1"]})
    show(
        "Tokens a second by prompts that decode together, one thread",
        ("method", "1", "4", "16", "64", "gain of 64 over 1"),
        [(row["method"], *row["rates"].values(), row["gain"]) for row in rows],
    )
    save("batches", rows)
    return {"rows": rows}


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


def _sampler(name: str, options: dict[str, Any]) -> Any:
    how = dict(options)
    if name != "cdlh":
        how["draft"] = pair()[1]
    if name.startswith("cd"):
        how["reward"] = build_reward("coverage")
    return SAMPLERS[name](**how)


def _beside_prediction(
    name: str, options: dict[str, Any], prompts: Prompts, batch: int, constraint: Any, repeats: int
) -> dict[str, Any]:
    sampler = _sampler(name, options)
    how: dict[str, Any] = {"batch": batch, "length": _LENGTH, "constraint": constraint}
    decode(sampler, prompts.subset(4), **how)  # warm up
    runs, target, draft = [], [], []
    for _ in range(repeats):
        target.append(seconds_a_call(0, prompts, batch, constraint, 1))
        runs.append(decode(sampler, prompts, **how))
        draft.append(seconds_a_call(1, prompts, batch, constraint, 1))
    run = min(runs, key=lambda one: one.seconds)
    calls = run.total("target_calls"), run.total("draft_calls")
    predicted = calls[0] * min(target) + calls[1] * min(draft)
    return {
        "target_ms": 1e3 * min(target),
        "draft_ms": 1e3 * min(draft),
        "target_calls": int(calls[0]),
        "draft_calls": int(calls[1]),
        "seconds": run.seconds,
        "ratio": run.seconds / predicted,
    }
