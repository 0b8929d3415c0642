"""ASAp's Figures 4 to 6 of one task: divergence and expectations of several methods.

For a task all methods draw the same number of texts (``asap`` records all of its draws, from the
first). The target is P normalised over all distinct texts that any of them found; the certified
bracket of log P(S) says how much of Q that leaves out: at most 1 - exp(lower - upper).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cdec.core import LanguageModel, Sample
from cdec.integrations.findings.curves import (
    Draws,
    Target,
    divergence_curve,
    expectation_curve,
    floor_divergence,
    target_of,
    values_of,
)
from cdec.integrations.findings.sygus import Task, constraint_of
from cdec.samplers.registry import SAMPLERS

WINDOW = 500
METHODS: dict[str, dict[str, Any]] = {
    "masked": {"max_walks": 128},
    "asap": {"burn_in": 0, "round": 16},
    "exact": {"round": 16, "max_draws": 2, "fallback": "none"},
}
"""subtle: ``exact`` may spend two candidates for each text asked for; it returns fewer texts where
that is not enough, and all of them are exact."""
_STRIDE = 25
_POINTS = 200


def measured_task(
    model: LanguageModel,
    task: Task,
    n: int,
    methods: Mapping[str, Mapping[str, Any]],
    window: int = WINDOW,
) -> dict[str, Any]:
    """Draw ``n`` texts by each method and compute all curves of one task.

    Args:
        model: Draws. task: Its prompt and grammar.
        n: Texts of each method.
        methods: Options by the name of the method.
        window: Draws of a window of Figure 4, n at most.
    """
    window = min(window, n)
    constraint = constraint_of(task, model)
    drawn: dict[str, Draws] = {}
    facts: dict[str, dict[str, Any]] = {}
    for name, options in methods.items():
        sampler = SAMPLERS[name](**options)
        begin = time.perf_counter()
        samples = sampler.draw(
            *(model, constraint, task.prompt),
            n=n,
            rng=np.random.default_rng(2024),
            max_new_tokens=task.max_new_tokens,
        )
        facts[name] = _facts(samples, time.perf_counter() - begin)
        drawn[name] = complete(samples)
    target = target_of(list(drawn.values()))
    upper = min(fact["log_mass_upper"] or 0.0 for fact in facts.values())
    floor, floor_sd = floor_divergence(target, window, np.random.default_rng(5))
    return {
        "task": task.name,
        "family": task.family,
        "in_paper": task.in_paper,
        "cut": task.cut,
        "prompt_tokens": len(model.encode_prompt(task.prompt)),
        "max_new_tokens": task.max_new_tokens,
        "draws": n,
        "window": window,
        "target": {
            "texts": len(target.law),
            "log_mass": target.log_mass,
            "log_mass_upper": upper,
            "coverage": float(np.exp(min(0.0, target.log_mass - upper))),
            "mean_q": target.mean_q,
            "mean_log_p": target.mean_log_p,
            "window_kl": floor,
            "window_kl_sd": floor_sd,
        },
        "methods": {name: facts[name] | curves(drawn[name], target, window) for name in methods},
    }


def complete(samples: Sequence[Sample]) -> Draws:
    """Return the texts that are the method's own: complete, and no fallback's."""
    kept = [s for s in samples if s.finish_reason == "complete" and s.logprob is not None]
    log_p = np.array([sample.logprob for sample in kept], np.float64)
    return Draws([tuple(sample.token_ids) for sample in kept], log_p)


def curves(draws: Draws, target: Target, window: int) -> dict[str, Any]:
    """Return the curves of one method on one task."""
    values = values_of(draws, target)
    return {
        "log_p": draws.log_p.tolist(),
        "divergence": divergence_curve(draws, window, _STRIDE),
        "expectation": expectation_curve(values, _POINTS),
        "expectation_log_p": expectation_curve(draws.log_p, _POINTS),
        "mean_q": float(values.mean()) if values.size else None,
        "late_mean_q": float(values[-window:].mean()) if values.size else None,
        "mean_log_p": float(draws.log_p.mean()) if values.size else None,
    }


def _facts(samples: Sequence[Sample], seconds: float) -> dict[str, Any]:
    reasons = [sample.finish_reason for sample in samples]
    last = samples[-1].diagnostics
    return {
        "seconds": seconds,
        "finish_reasons": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
        "distinct": len({tuple(s.token_ids) for s in samples if s.finish_reason == "complete"}),
        "evaluations": sum(sample.diagnostics["distinct_evaluations"] for sample in samples),
        **{
            name: last.get(name)
            for name in ("log_mass_lower", "log_mass_upper", "length_mass_upper")
        },
    }
