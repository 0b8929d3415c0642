"""Target calls of speculative and mentored decoding, and of ``disc`` and ``exact`` with a draft.

The end event counts as a token. A call is one sequence in one forward pass of the target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cdec.integrations.findings.decoding import Run, decode, entity_set, pair, shipped
from cdec.samplers import SAMPLERS
from tools.benchmarks.drafts.common import save
from tools.benchmarks.processes import side_by_side
from tools.benchmarks.report import show
from tools.benchmarks.setting import Setting

GAMMAS: tuple[int | str, ...] = (2, 3, 4, 5, 6, 7, 8, "auto")
TARGET = 0.6
_SETS = (("facts",), ("json",), ("glosses",), ("facts", "json"), ("facts", "json", "glosses"))


def run(
    setting: Setting,
    prompts: int | None = None,
    seeds: int = 3,
    members: int = 100,
    workers: int = 2,
) -> dict[str, Any]:
    """Measure, print and save.

    Args:
        setting: The models, and where the figures go.
        prompts: Of each kind, spread evenly; all if None.
        seeds: Draws of each prompt where events are drawn.
        members: Prompts of ``disc`` and ``exact``.
        workers: Processes; nothing is timed here.

    Returns:
        ``greedy``, ``sampling`` and ``aligned``: rows of calls a token or a sample.
    """
    figures = {
        **_measured(setting, prompts, seeds, members, workers),
        "target": TARGET,
    }
    _show(figures)
    save(setting, "calls", figures)
    return figures


def _measured(
    setting: Setting, prompts: int | None, seeds: int, members: int, workers: int
) -> dict[str, list[dict[str, Any]]]:
    plain = side_by_side(partial(_greedy_texts, setting), [prompts], workers=1)[0]
    work: list[tuple[str, tuple[Any, ...]]] = [
        *(("greedy", (gamma, prompts, plain)) for gamma in GAMMAS),
        *(("greedy_set", (gamma, prompts)) for gamma in (None, 2, 4, 8, "auto")),
        *(("sampling", (seed, d, prompts)) for seed in range(seeds) for d in (0.0, 0.1)),
        *(
            ("aligned", (name, drafts, draws, members))
            for name in ("disc", "exact", "masked")
            for draws in (1, 8)
            for drafts in (False, True)
        ),
    ]
    names, asked = zip(*work, strict=True)
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    found = side_by_side(partial(_row, setting), names, asked, workers=workers)
    for name, row in zip(names, found, strict=True):
        figures[name].append(row)
    return figures


def _row(setting: Setting, name: str, asked: tuple[Any, ...]) -> dict[str, Any]:
    kinds: dict[str, Callable[..., dict[str, Any]]] = {
        "greedy": _greedy,
        "greedy_set": _greedy_in_set,
        "sampling": _sampling,
        "aligned": _aligned,
    }
    return kinds[name](setting, *asked)


def _greedy_texts(setting: Setting, prompts: int | None) -> dict[str, list[tuple[int, ...]]]:
    greedy = SAMPLERS["greedy"]()
    return {
        name: _texts(decode(setting, greedy, shipped(name).subset(prompts))) for name in _SETS[-1]
    }


def _greedy(
    setting: Setting, gamma: int | str, prompts: int | None, plain: dict[str, list[tuple[int, ...]]]
) -> dict[str, Any]:
    sampler = _speculative(setting, gamma, greedy=True)
    runs = {name: decode(setting, sampler, shipped(name).subset(prompts)) for name in plain}
    row: dict[str, Any] = {"gamma": gamma}
    for names in _SETS:
        calls = sum(runs[name].total("target_calls") for name in names)
        row["+".join(names)] = calls / sum(runs[name].events for name in names)
    drafts = sum(run.total("draft_calls") for run in runs.values())
    row["draft_calls"] = drafts / sum(run.events for run in runs.values())
    # Passes of another width round otherwise: a tie of the two best may fall the other way.
    row["other_texts"] = sum(
        ours != theirs
        for name in plain
        for ours, theirs in zip(_texts(runs[name]), plain[name], strict=True)
    )
    return row


def _greedy_in_set(
    setting: Setting, gamma: int | str | None, prompts: int | None
) -> dict[str, Any]:
    sampler = SAMPLERS["greedy"]() if gamma is None else _speculative(setting, gamma, greedy=True)
    with entity_set(pair(setting)[0]) as constraint:
        run = decode(setting, sampler, shipped("facts").subset(prompts), constraint=constraint)
    return {"gamma": gamma, **run.calls()}


def _sampling(
    setting: Setting, seed: int, divergence: float, prompts: int | None
) -> dict[str, Any]:
    asked = shipped("facts", "json").subset(prompts)
    how: dict[str, Any] = {"draft": pair(setting)[1], "divergence": divergence}
    run = decode(setting, SAMPLERS["mentored"](**how), asked, seeds=[seed])
    return {"seed": seed, "divergence": divergence, **run.calls(), "right": run.right(asked)}


def _aligned(setting: Setting, name: str, drafts: bool, draws: int, members: int) -> dict[str, Any]:
    facts = shipped("facts").subset(members)
    if name == "masked":
        # The same law with a draft is that of ``speculative``.
        sampler = _speculative(setting, 4, greedy=False) if drafts else SAMPLERS[name]()
    else:
        how: dict[str, Any] = {"draft": pair(setting)[1] if drafts else None}
        sampler = SAMPLERS[name](**how)
    with entity_set(pair(setting)[0]) as constraint:
        run = decode(setting, sampler, facts, seeds=range(draws), constraint=constraint)
    return _aligned_row(name, drafts, draws, run)


def _aligned_row(name: str, drafts: bool, draws: int, run: Run) -> dict[str, Any]:
    count = len(run.samples)
    return {
        "method": name,
        "draft": drafts,
        "draws": draws,
        "target_calls": run.total("target_calls") / count,
        "draft_calls": run.total("draft_calls") / count,
        "evaluations": run.total("distinct_evaluations") / count,
    }


def _speculative(setting: Setting, gamma: int | str, *, greedy: bool) -> Any:
    how: dict[str, Any] = {"draft": pair(setting)[1], "gamma": gamma, "greedy": greedy}
    return SAMPLERS["speculative"](**how)


def _texts(run: Run) -> list[tuple[int, ...]]:
    return [tuple(sample.token_ids) for sample in run.samples]


def _show(figures: dict[str, Any]) -> None:
    names = ["+".join(kinds) for kinds in _SETS]
    show(
        f"Greedy with the embedded draft: target calls a token (target ≤ {TARGET})",
        ("gamma", *names, "draft calls", "other texts than greedy"),
        [
            (row["gamma"], *(row[name] for name in names), row["draft_calls"], row["other_texts"])
            for row in figures["greedy"]
        ],
    )
    show(
        "The same on facts under the shipped entity set",
        ("gamma", "target calls a token", "draft calls a token"),
        [(row["gamma"], row["target_calls"], row["draft_calls"]) for row in figures["greedy_set"]],
    )
    show(
        "Sampling facts and json, gamma 4 (target: D = 0.1 strictly fewer than D = 0)",
        ("seed", "divergence", "target calls a token", "draft calls", "right"),
        [tuple(row.values()) for row in figures["sampling"]],
    )
    show(
        "Facts under the shipped entity set, calls a sample",
        ("method", "draft", "draws", "target calls", "draft calls", "evaluations"),
        [
            tuple({**row, "draft": "yes" if row["draft"] else "-"}.values())
            for row in figures["aligned"]
        ],
    )
