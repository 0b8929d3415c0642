"""ASAp's Figures 4 to 6: divergence and expectations of ``masked``, ``asap`` and ``exact``.

For each task the three methods draw the same number of texts (``asap`` records all of its draws,
from the first). The target is P normalised over all distinct texts that any of them found; the
certified bracket of log P(S) says how much of Q that leaves out: at most 1 - exp(lower - upper).

*Expectation* is the paper's: of the target probability of the drawn text, so it is near 1 where
one text has nearly all of the mass. A method's gap is its mean minus the target's; Figure 6 is
summed up by the squares of the gaps over a family.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cdec.core import LanguageModel
from cdec.integrations.findings.aligned import METHODS, WINDOW, measured_task
from cdec.integrations.findings.laboratory import one_thread
from cdec.integrations.findings.sygus import Task, sygus_tasks, toy_task
from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.processes import side_by_side
from tools.benchmarks.setting import Setting


def run(
    setting: Setting, tasks: int | None = None, draws: int = 2000, workers: int = 2
) -> list[dict[str, Any]]:
    """Measure, print and save; one JSON file a task and one for the summary.

    Args:
        setting: The model of all tasks but the toy, and where the figures go.
        tasks: Number of SyGuS tasks, spread evenly over all; None takes all.
        draws: Texts of each method.
        workers: Processes, each with one thread.
    """
    data = shared_folder() / "data"
    chosen = [toy_task(), *spread(sygus_tasks(setting.target(), data), tasks)]
    rows = []
    for result in measured(setting, chosen, draws, workers):
        setting.save(f"aligned-convergence-{slug(result['task'])}", result)
        rows.append(summary(result))
    _show(rows, draws)
    gaps = gap_sums(rows)
    _show_gaps(gaps)
    setting.save("aligned-convergence", {"draws": draws, "tasks": rows, "squared_gaps": gaps})
    return rows


def measured(
    setting: Setting, tasks: Sequence[Task], draws: int, workers: int
) -> Iterator[dict[str, Any]]:
    """Yield the result of each task, in order."""
    one = partial(measure, setting, n=draws)
    if workers < 2:
        yield from map(one, tasks)
    else:
        yield from side_by_side(one, tasks, workers=workers, initializer=one_thread)


def measure(setting: Setting, task: Task, n: int) -> dict[str, Any]:
    """Draw ``n`` texts by each method and compute all curves of one task."""
    return measured_task(model_of(setting, task), task, n, METHODS)


def model_of(setting: Setting, task: Task) -> LanguageModel:
    """Return the setting's target; the toy has stories260K."""
    if task.family != "toy":
        return setting.target()
    folder = shared_folder() / "data" / "model_stories260k" / "hf"
    return replace(setting, model=str(folder)).target()


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Return one row: divergence of the last window above Q's own, and gaps of expectations."""
    target, row = result["target"], {"task": result["task"], "family": result["family"]}
    row |= {"log_mass": target["log_mass"], "coverage": target["coverage"]}
    row |= {"target_kl": target["window_kl"], "target_kl_sd": target["window_kl_sd"]}
    row["target_mean_q"] = target["mean_q"]
    for name, method in result["methods"].items():
        found = method["divergence"]["kl"]
        row[f"{name}_complete"] = len(method["log_p"])
        row[f"{name}_first_kl"] = found[0] if found else None
        row[f"{name}_last_kl"] = found[-1] if found else None
        row[f"{name}_mean_q"] = method["mean_q"]
        row[f"{name}_late_mean_q"] = method["late_mean_q"]
        row[f"{name}_seconds"] = method["seconds"]
    return row


def gap_sums(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the sums of squared gaps of expectations by family and method, as Figure 6 gives."""
    sums: dict[str, dict[str, Any]] = {}
    for family in sorted({row["family"] for row in rows}):
        mine = [row for row in rows if row["family"] == family]
        sums[family] = {"tasks": len(mine)}
        for name in METHODS:
            for key in ("mean_q", "late_mean_q"):
                gaps = [
                    row[f"{name}_{key}"] - row["target_mean_q"]
                    for row in mine
                    if row[f"{name}_{key}"] is not None
                ]
                sums[family][f"{name}_{key}"] = float(np.square(gaps).sum()) if gaps else None
                sums[family][f"{name}_tasks"] = len(gaps)
    return sums


def spread(tasks: Sequence[Task], count: int | None) -> list[Task]:
    """Return ``count`` tasks spread evenly, or all."""
    if count is None or count >= len(tasks):
        return list(tasks)
    return [tasks[i] for i in np.linspace(0, len(tasks) - 1, count).astype(int)]


def slug(name: str) -> str:
    """Return a task's name as part of a file name."""
    return name.replace(" (printed)", "-printed")


def _show(rows: Sequence[dict[str, Any]], draws: int) -> None:
    report.show(
        f"KL(window of {min(WINDOW, draws)} ‖ P), first and last of {draws} draws; mean target "
        "probability of the last window",
        (
            *("task", "log P(S) ≥", "of Q", "Q's KL", "masked", "asap", "exact"),
            *("n exact", "Q's mean", "masked", "asap", "exact"),
        ),
        [
            (
                *(row["task"], row["log_mass"], f"{100 * row['coverage']:.3g} %"),
                f"{row['target_kl']:.2f} ± {row['target_kl_sd']:.2f}",
                *(_pair(row, name) for name in METHODS),
                *(row["exact_complete"], row["target_mean_q"]),
                *(row[f"{name}_late_mean_q"] for name in METHODS),
            )
            for row in rows
        ],
    )


def _pair(row: dict[str, Any], name: str) -> str:
    first, last = row[f"{name}_first_kl"], row[f"{name}_last_kl"]
    return "-" if first is None else f"{first:.2f} → {last:.2f}"


def _show_gaps(gaps: dict[str, dict[str, Any]]) -> None:
    report.show(
        "Sums of squared gaps of expectations (all draws | last window)",
        ("family", "tasks", *METHODS),
        [
            (
                *(family, row["tasks"]),
                *(
                    f"{row[f'{name}_mean_q']:.3f} | {row[f'{name}_late_mean_q']:.3f}"
                    if row[f"{name}_mean_q"] is not None
                    else "-"
                    for name in METHODS
                ),
            )
            for family, row in gaps.items()
        ],
    )
