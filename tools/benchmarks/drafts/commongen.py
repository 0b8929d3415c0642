"""The left half of the lookahead paper's Table 1, in shape: sentences that name given concepts.

Greedy, beams, nuclei, ``cdlh``, ``cdlh-approx`` and ``cdsl`` on CommonGen's dev part: speedup over
``cdlh`` by cost, soft and hard satisfaction. Thresholds of ``cdsl`` are chosen on the training part
alone: once as the paper does (the grid of its Table 2 with k = 3; of the ten cheapest the one that
satisfies most), and once with branch and depth free (of those at least three times cheaper than
``cdlh`` at c = .34 the one that satisfies most). No choice depends on a timing of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from cdec.data.metrics import choice
from cdec.integrations.findings.commongen import (
    GRID,
    LENGTH,
    ConceptJudge,
    combinations,
)
from cdec.integrations.findings.decoding import Prompts, concept_sets, cost
from cdec.integrations.findings.method_rows import (
    LOOKAHEAD,
    Method,
    Task,
    columns,
    cost_ratios,
    measure,
    plain_methods,
)
from tests.shared import shared_folder
from tools.benchmarks.drafts.common import save
from tools.benchmarks.processes import side_by_side
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting

REWARDS = ("coverage", "coverage:past")
CHOICE_RATIO = 0.34
TARGET_SPEEDUP = 3.0
_JUDGED = ("soft", "hard", "hard, lists")
_PAPER = {**GRID, "verify": ("hard", "speculative")}
_FREE: dict[str, tuple[Any, ...]] = {
    "branch": (5, 6, 7, 8),
    "depth": (1, 2),
    "reward_threshold": (0.6, 0.9),
    "target_tries": (0,),
    "on_reject": ("keep", "discard"),
}
_QUICK: dict[str, tuple[Any, ...]] = {
    "depth": (1, 3),
    "accept_threshold": (0.3,),
    "branch": (6,),
    "verify": ("hard",),
}
Settings = dict[str, Any]


def run(
    setting: Setting, sets: int = 200, training: int = 100, workers: int = 2, quick: bool = False
) -> dict[str, Any]:
    """Choose thresholds, measure, print and save.

    Args:
        setting: The models, and where the figures go.
        sets: Dev concept sets. training: Training concept sets that choose.
        workers: Processes that try settings; nothing is timed there.
        quick: Try a corner of the grids.

    Returns:
        ``chosen`` settings, ``tables`` by reward and what the targets say of them.
    """
    trials = search(setting, training, workers, quick)
    chosen = choose(trials)
    _show_choices(trials, chosen)
    prompts, records = concept_sets(shared_folder() / "data/commongen/dev.jsonl.xz", sets)
    ratios = cost_ratios(setting, prompts)
    tables = {}
    for spec in REWARDS:
        judge = ConceptJudge(spec, prompts, records)
        task = Task(prompts, judge.reward, judge, LENGTH)
        rows = measure(setting, _methods(chosen), task, ratios)
        tables[spec] = rows
        heads, cells = columns(rows, ratios, _JUDGED)
        show(f"{sets} dev concept sets, reward {spec}", heads, cells)
    verdicts = {spec: _verdicts(rows) for spec, rows in tables.items()}
    for spec, found in verdicts.items():
        show(
            f"Targets, reward {spec}: speedup ≥ {TARGET_SPEEDUP:g}, and hard satisfaction",
            ("row", *heads[1 : 1 + len(found[0]["speedup"])], "hard", "≥"),
            [
                (one["method"], *one["speedup"].values(), one["hard"], one["halfway"])
                for one in found
            ],
        )
    figures = {"ratios": ratios, "chosen": chosen, "tables": tables, "targets": verdicts}
    save(setting, "table-left", {**figures, "trials": trials})
    return figures


def search(
    setting: Setting, training: int, workers: int, quick: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Try all settings on training concept sets; rows with path calls, soft and hard."""
    grids = {"paper": _PAPER, "free": _FREE}
    tried: dict[str, list[Settings]] = {}
    for name, grid in grids.items():
        axes = {
            key: [value for value in values if not quick or value in _QUICK.get(key, values)]
            for key, values in grid.items()
        }
        tried[name] = combinations(axes)
    # The best a lookahead does, with the target and with the draft.
    tried["base"] = [{"method": "greedy"}, {"method": "cdlh"}, {"method": "cdlh-approx"}]
    flat = [(name, one) for name, settings in tried.items() for one in settings]
    one = partial(_try, setting, training=training)
    rows = side_by_side(one, [settings for _, settings in flat], workers=workers)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tried}
    for (name, _), row in zip(flat, rows, strict=True):
        found[name].append(row)
    return found


def choose(trials: dict[str, list[dict[str, Any]]]) -> dict[str, Settings]:
    """Return the settings chosen by the paper's rule and by the target's."""
    cdlh = next(row for row in trials["base"] if row["method"] == "cdlh")
    enough = [r for r in trials["free"] if r["cost"] * TARGET_SPEEDUP <= cdlh["cost"]]
    paper = choice.choose(trials["paper"], lambda row: float(row["cost"]), _merit).chosen
    free = max(enough or trials["free"], key=_merit)
    return {"paper": paper["settings"], "free": free["settings"]}


def _merit(row: Mapping[str, Any]) -> tuple[float, float]:
    return row["hard"], row["soft"]


def _try(setting: Setting, settings: Settings, training: int) -> dict[str, Any]:
    """Run one setting of ``cdsl``, or a ``method``, on training concept sets."""
    options = dict(settings)
    name = options.pop("method", "cdsl")
    prompts, judge = _training(training)
    run = Method(name, name, options).run(setting, Task(prompts, judge.reward, judge, LENGTH))
    judged = judge([sample.text for sample in run.samples])
    path = run.path_calls()
    return {
        "method": name,
        "settings": options,
        **path,
        "cost": cost(path, CHOICE_RATIO),
        "soft": judged["soft"],
        "hard": judged["hard"],
    }


@lru_cache(maxsize=1)
def _training(count: int) -> tuple[Prompts, ConceptJudge]:
    prompts, records = concept_sets(shared_folder() / "data/commongen/train.jsonl.xz", count)
    return prompts, ConceptJudge(REWARDS[0], prompts, records)


def _methods(chosen: dict[str, Settings]) -> list[Method]:
    rows = [*plain_methods(3), *(Method(name, name) for name in LOOKAHEAD)]
    for name, settings in chosen.items():
        rows.append(Method(f"cdsl, {name} grid", "cdsl", settings))
        # As in the paper: the baselines look as far ahead, and as wide.
        shape: Settings = {key: settings[key] for key in ("branch", "depth") if key in settings}
        told = f"k={shape.get('branch', 3)}, d={shape['depth']}"
        if shape not in ({"depth": 3}, {"branch": 3, "depth": 3}):
            rows += [Method(f"{other}, {told}", other, shape) for other in LOOKAHEAD[:2]]
    return rows


def _verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_label = {row["method"]: row for row in rows}
    halfway = (by_label["greedy"]["hard"] + by_label["cdlh"]["hard"]) / 2
    return [
        {"method": label, "speedup": row["speedup"], "hard": row["hard"], "halfway": halfway}
        for label, row in by_label.items()
        if label.startswith("cdsl") or label == "cdlh-approx"
    ]


def _show_choices(trials: dict[str, list[dict[str, Any]]], chosen: dict[str, Settings]) -> None:
    best = [*trials["base"]]
    for name in ("paper", "free"):
        best += [row for row in trials[name] if row["settings"] == chosen[name]]
    show(
        f"Chosen on the training part: cost at c={CHOICE_RATIO}",
        ("method", "settings", "target calls", "draft calls", "cost", "soft", "hard"),
        [
            (
                *(row["method"], " ".join(f"{k}={v}" for k, v in row["settings"].items())),
                *(row["target_calls"], row["draft_calls"], row["cost"], row["soft"], row["hard"]),
            )
            for row in best
        ],
    )
