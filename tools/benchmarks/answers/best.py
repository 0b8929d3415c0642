"""The three best of a large catalogue: calls and seconds a prompt, and how often they are right.

The truth is the list that ``topn`` proves without a budget. Calls are those of the records: one is
one sequence in one forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdec.compilers import set_constraint
from cdec.core import CdecError, Sample
from cdec.core.constraint import Constraint
from cdec.core.models.language_model import LanguageModel
from cdec.samplers import Request
from cdec.samplers.topn import DEFAULT_EVALUATIONS, TopnSampler
from tools.benchmarks import report
from tools.benchmarks.answers.catalogue import QUESTIONS, products
from tools.benchmarks.setting import Setting

WANTED = 3
BUDGETS = (100, 200, DEFAULT_EVALUATIONS, 600, 1200)
TARGET = "≤ 300 calls"


def run(setting: Setting, members: int = 50_000, prompts: int = 16) -> list[dict[str, Any]]:
    """Measure, print and save; return one row for every budget, the last one without."""
    model = setting.target()
    constraint = set_constraint(products(members), model.vocabulary)
    questions = QUESTIONS[:prompts]
    truth, proved = _searched(setting, model, constraint, questions, {"proved": True})
    rows = []
    for budget in BUDGETS:
        how = {"max_evaluations": budget}
        rows.append(_compared(*_searched(setting, model, constraint, questions, how), truth))
    rows.append(_compared(truth, proved, truth))
    for row, budget in zip(rows, [*BUDGETS, None], strict=True):
        row["budget"] = budget
    report.show(
        f"The {WANTED} best of {members:,} products, {len(questions)} prompts; target {TARGET}",
        ("budget", "calls", "most", "s a prompt", "best found", "all 3", "proved", "nats short"),
        [
            (
                row["budget"] or "none",
                *(row[name] for name in ("calls", "calls_most", "seconds", "best_found")),
                *(row[name] for name in ("all_found", "proved", "short")),
            )
            for row in rows
        ],
    )
    setting.save("answers-best", rows, members=members)
    return rows


def _searched(
    setting: Setting,
    model: LanguageModel,
    constraint: Constraint,
    questions: Sequence[str],
    how: dict[str, Any],
) -> tuple[list[list[Sample]], float]:
    """Return the samples of every question, and the seconds a question took."""
    sampler = TopnSampler(**how)
    begin = setting.seconds()
    found = []
    for question in questions:
        (samples,) = sampler.draw_batch(model, [Request(question, constraint, range(WANTED))])
        if isinstance(samples, CdecError):
            raise samples
        found.append(samples)
    return found, (setting.seconds() - begin) / len(questions)


def _compared(
    found: list[list[Sample]], seconds: float, truth: list[list[Sample]]
) -> dict[str, Any]:
    """Return the figures of one budget."""
    calls = [sum(sample.target_calls for sample in samples) for samples in found]
    pairs = list(zip(found, truth, strict=True))
    return {
        "calls": float(np.median(calls)),
        "calls_most": max(calls),
        "seconds": seconds,
        "best_found": np.mean([a[0].text == b[0].text for a, b in pairs]).item(),
        "all_found": np.mean([_texts(a) == _texts(b) for a, b in pairs]).item(),
        "proved": np.mean([all(s.proved for s in samples) for samples in found]).item(),
        "short": np.median([_last(b) - _last(a) for a, b in pairs]).item(),
    }


def _texts(samples: list[Sample]) -> list[str | None]:
    return [sample.text for sample in samples]


def _last(samples: list[Sample]) -> float:
    """Return log P of the last of a list."""
    logprob = samples[-1].logprob
    return -np.inf if logprob is None else logprob
