"""Samples a second of ``asap`` and ``exact`` beside sequential sampling with a key-value cache.

Both make the same number of attempts on the same prompt, grammar and model, one after the other on
the same machine, each on one thread: cdec in rounds with its prefix cache; the baseline of
``aligned_sequential`` by the same method, one text at a time, every token of it a forward pass.
Both times have the prompt's forward pass in them, and are the process's own, which others on the
machine disturb little. ``exact`` is compared by attempts: their law is the same on both sides but
for the rounds, and there may be no samples to count. Beside them, over fewer texts: the baseline
without a tree (``masked``: whole texts, always), which is what plain sequential sampling costs, and
transformers' ``generate`` under the mask, which runs the prompt for every text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.core import LanguageModel
from cdec.integrations.findings.laboratory import one_thread
from cdec.integrations.findings.sygus import Task, constraint_of, sygus_tasks
from cdec.samplers import SAMPLERS
from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.aligned.convergence import spread
from tools.benchmarks.aligned.sequential import KeptPrompt, Sequential, generate
from tools.benchmarks.setting import Setting

METHODS: dict[str, dict[str, Any]] = {
    "asap": {"burn_in": 0},
    # One candidate a sample asked for: as many attempts as the baseline makes.
    "exact": {"max_draws": 1, "fallback": "none"},
}
ROUNDS = (16, 128)
_BESIDE = {
    "sequential_rate": "beside the same method one text at a time",
    "masked_rate": "beside masked texts one at a time",
}
_MASKED = 50
_GENERATED = 5
"""Texts of the baselines that learn nothing: their rates do not depend on what was drawn."""


def run(setting: Setting, tasks: int | None = 8, draws: int = 500) -> list[dict[str, Any]]:
    """Measure, print and save; return one row for every task and method."""
    one_thread()
    model = setting.target()
    module = plain_module(setting)
    chosen = sygus_tasks(model, shared_folder() / "data")
    headed = [task for task in chosen if not task.is_printed]
    rows = []
    for task in [*spread(headed, tasks), next(task for task in chosen if task.is_printed)]:
        rows += measure(setting, task, model, module, draws)
    overall = {
        f"{name} {size}, {_BESIDE[beside]}": _overall(rows, name, size, beside)
        for name in METHODS
        for size in ROUNDS
        for beside in _BESIDE
    }
    report.show(
        f"{draws} attempts a prompt: attempts a second (target of the ratios: ≥ 5)",
        (
            *("task", "prompt", "method", *(f"round {size}" for size in ROUNDS), "seq."),
            *(f"ratio {size}" for size in ROUNDS),
            *("seq. masked", "generate", "samples", "seq.", "evaluations", "seq."),
        ),
        [_cells(row) for row in rows],
    )
    report.show(
        "Ratios to the baseline",
        ("method, round, baseline", "geometric mean", "least", "tasks"),
        [(name, *figures.values()) for name, figures in overall.items()],
    )
    setting.save("aligned-rate", {"draws": draws, "overall": overall, "rows": rows})
    return rows


def _overall(
    rows: list[dict[str, Any]], name: str, size: int, beside: str
) -> dict[str, float | int]:
    ratios = [_ratio(row, size, beside) for row in rows if row["method"] == name]
    mean = float(np.exp(np.mean(np.log(ratios))))
    return {"geometric_mean": mean, "least": min(ratios), "tasks": len(ratios)}


def _ratio(row: dict[str, Any], size: int, beside: str = "sequential_rate") -> float:
    return float(row["rounds"][str(size)]["rate"] / row[beside])


def _cells(row: dict[str, Any]) -> list[object]:
    own, other = row["rounds"], row["sequential"]
    first = own[str(ROUNDS[0])]
    return [
        *(row["task"], row["prompt_tokens"], row["method"]),
        *(own[str(size)]["rate"] for size in ROUNDS),
        row["sequential_rate"],
        *(_ratio(row, size) for size in ROUNDS),
        *(row["masked_rate"], row["generate_rate"], first["samples"], other["samples"]),
        *(first["evaluations"], other["evaluations"]),
    ]


def plain_module(setting: Setting) -> Any:
    """Load the model as transformers does, in the dtype that cdec computes in."""
    from transformers import AutoModelForCausalLM

    dtype = setting.dtype or ("float32" if setting.device == "cpu" else "auto")
    module = AutoModelForCausalLM.from_pretrained(setting.model_path, dtype=dtype)
    return module.eval().to(setting.device)


def measure(
    setting: Setting, task: Task, model: LanguageModel, module: Any, draws: int
) -> list[dict[str, Any]]:
    """Return one row a method, cdec and the baseline measured in turn."""
    constraint = constraint_of(task, model)
    prompt = model.encode_prompt(task.prompt)
    session = constraint.session("cpu")
    end_ids = frozenset(model.vocabulary.eos_token_ids)
    begin = setting.seconds()
    for seed in range(_GENERATED):
        generate(module, prompt, session, min(end_ids), task.max_new_tokens, seed)
    generated = _GENERATED / (setting.seconds() - begin)

    def baseline(name: str, count: int) -> dict[str, Any]:
        begin = setting.seconds()
        sequential = Sequential(
            *(KeptPrompt(module, prompt), session, end_ids, task.max_new_tokens),
            method=name,
            rng=np.random.default_rng(1),
        )
        attempts = [sequential.attempt() for _ in range(count)]
        return {
            "rate": count / (setting.seconds() - begin),
            "samples": int(sum(attempt.is_accepted for attempt in attempts)),
            "evaluations": sum(attempt.calls for attempt in attempts),
        }

    masked = baseline("masked", min(_MASKED, draws))["rate"]
    rows = []
    for name, options in METHODS.items():
        rounds = {}
        for size in ROUNDS:
            how: dict[str, Any] = {**options, "round": size}
            rounds[str(size)] = _own(setting, task, constraint, SAMPLERS[name](**how), draws)
        sequential = baseline(name, draws)
        rows.append(
            {
                "task": task.name,
                "prompt_tokens": len(prompt),
                "method": name,
                "rounds": rounds,
                "sequential": sequential,
                "sequential_rate": sequential["rate"],
                "masked_rate": masked,
                "generate_rate": generated,
            }
        )
    return rows


def _own(setting: Setting, task: Task, constraint: Any, sampler: Any, draws: int) -> dict[str, Any]:
    """Time cdec's draws, the making of the samples included."""
    model = setting.target()
    how: dict[str, Any] = {"max_new_tokens": task.max_new_tokens}
    # Compiled code is warm.
    sampler.draw(model, constraint, task.prompt, n=2, rng=np.random.default_rng(0), **how)
    begin = setting.seconds()
    rng = np.random.default_rng(1)
    samples = sampler.draw(model, constraint, task.prompt, n=draws, rng=rng, **how)
    seconds = setting.seconds() - begin
    reasons = [sample.finish_reason for sample in samples]
    return {
        "rate": draws / seconds,
        "samples": reasons.count("complete"),
        "finish_reasons": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
        "evaluations": sum(sample.diagnostics["distinct_evaluations"] for sample in samples),
    }
