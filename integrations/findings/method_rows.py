"""Rows of the two tables of methods with and without lookahead: calls, cost and speedup.

Cost is P = c draft calls + target calls a token, c the cost of a draft call in target calls, and a
call is one sequence in one forward pass (design, ALGORITHMS section 4). Calls are given twice: as
computed here, where a prefix that was evaluated is not evaluated again, and as papers count them,
where nothing is kept; the latter are what speedups and targets refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings.decoding import PAPER_RATIOS, Prompts, Run, cost, decode, pair
from cdec.integrations.findings.laboratory import Laboratory
from cdec.samplers.registry import SAMPLERS

LOOKAHEAD = ("cdlh", "cdlh-approx", "cdsl")
_BATCH = 100
_DRAFTED = ("cdlh-approx", "cdsl", "speculative")


@dataclass(frozen=True)
class Task:
    """What methods are measured on.

    Attributes:
        prompts: What is gone on from.
        reward: Of those that look ahead.
        judge: Gives figures of the texts, and what else of them is to be kept.
        length: Most new tokens.
    """

    prompts: Prompts
    reward: Any
    judge: Callable[[list[str]], dict[str, Any]]
    length: int


@dataclass(frozen=True)
class Method:
    """A row: a sampler with its options, and the nucleus it draws from.

    Attributes:
        label: Of the row.
        name: In SAMPLERS. options: Of the sampler, draft and reward apart. top_p: None for none.
        draft: The laboratory's if None.
    """

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    top_p: float | None = None
    draft: LanguageModel | None = None

    def run(self, laboratory: Laboratory, task: Task) -> Run:
        """Decode the prompts."""
        target, draft = pair(laboratory)
        options = dict(self.options)
        if self.name in LOOKAHEAD:
            options["reward"] = task.reward
        if self.name in _DRAFTED:
            options["draft"] = self.draft or draft
        model = target if self.top_p is None else target.with_warping(top_p=self.top_p)
        sampler = SAMPLERS[self.name](**options)
        return decode(
            laboratory, sampler, task.prompts, model=model, batch=_BATCH, length=task.length
        )


def plain_methods(beams: int) -> list[Method]:
    """Return the methods that look at no reward."""
    return [
        Method("greedy", "greedy"),
        # Without a penalty a beam search prefers texts of a few words.
        Method(f"beam {beams}", "beam", {"beams": beams, "length_penalty": 1.0}),
        Method("top-p 0.5", "masked", top_p=0.5),
        Method("top-p 0.9", "masked", top_p=0.9),
    ]


def measure(
    laboratory: Laboratory,
    methods: list[Method],
    task: Task,
    ratios: Mapping[str, float],
    *,
    base: str = "cdlh",
) -> list[dict[str, Any]]:
    """Run methods and return a row each.

    Args:
        laboratory: The models.
        methods: Rows. task: What they are measured on.
        ratios: Measured c by the name they get; the papers' join them.
        base: Label of the one over which speedups are.

    Returns:
        Rows with ``computed`` and ``path`` calls a token; ``cost``, ``speedup`` and
        ``computed_speedup`` by ratio, the speedups over ``base``; and what the judge says.
    """
    every = {**ratios, **{f"{ratio:g}": ratio for ratio in PAPER_RATIOS}}
    rows: list[dict[str, Any]] = []
    for method in methods:
        run = method.run(laboratory, task)
        path, computed = run.path_calls(), run.calls()
        rows.append(
            {
                "method": method.label,
                "options": dict(method.options),
                "computed": computed,
                "path": path,
                "cost": {name: cost(path, ratio) for name, ratio in every.items()},
                "computed_cost": {name: cost(computed, ratio) for name, ratio in every.items()},
                "tokens": run.events / len(run.samples),
                "acceptance_rate": run.mean("acceptance_rate"),
                "accepted_length": run.mean("accepted_length"),
                "seconds": run.seconds,
                **task.judge([sample.text or "" for sample in run.samples]),
            }
        )
    slow = next(row for row in rows if row["method"] == base)
    for row in rows:
        for name, costs in (("speedup", "cost"), ("computed_speedup", "computed_cost")):
            row[name] = {c: slow[costs][c] / row[costs][c] for c in every}
    return rows


def columns(
    rows: list[dict[str, Any]], ratios: Mapping[str, float], judged: tuple[str, ...]
) -> tuple[list[str], list[Any]]:
    """Return the column names and the cells of a table of rows; calls are "target + draft"."""
    names = list(rows[0]["speedup"])
    heads = [
        "method",
        *(f"× at c={ratios[c]:.2f}, {c}" if c in ratios else f"× at c={c}" for c in names),
        *("calls a token", "with caches", "× with caches", "tokens", *judged),
    ]
    cells = [
        (
            *(row["method"], *(row["speedup"][name] for name in names)),
            *(_pair(row["path"]), _pair(row["computed"]), row["computed_speedup"][names[0]]),
            *(row["tokens"], *(row[name] for name in judged)),
        )
        for row in rows
    ]
    return heads, cells


def _pair(calls: Mapping[str, float]) -> str:
    return f"{calls['target_calls']:.2f} + {calls['draft_calls']:.2f}"


def cost_ratios(
    laboratory: Laboratory, prompts: Prompts, batches: tuple[int, ...] = (64, 1)
) -> dict[str, float]:
    """Measure c: greedy tokens a second of the target over those of the draft.

    Args:
        laboratory: The models and the clock.
        prompts: To decode.
        batches: Prompts that decode together; the first is of the batches of the tables.

    Returns:
        c by "batch B".
    """
    asked = {batch: prompts.subset(max(8, min(2 * batch, 64))) for batch in batches}
    return {
        f"batch {batch}": seconds_a_call(laboratory, 1, asked[batch], batch)
        / seconds_a_call(laboratory, 0, asked[batch], batch)
        for batch in batches
    }


def seconds_a_call(
    laboratory: Laboratory,
    which: int,
    prompts: Prompts,
    batch: int,
    constraint: Any = None,
    repeats: int = 3,
) -> float:
    """Return the seconds of a call of the target (0) or the draft (1) in greedy decoding.

    The best of some repeats: what else runs can only add to it.
    """
    greedy, times = SAMPLERS["greedy"](), []
    for _ in range(repeats):
        run = decode(
            laboratory,
            greedy,
            prompts,
            model=pair(laboratory)[which],
            batch=batch,
            length=24,
            constraint=constraint,
        )
        times.append(run.seconds / run.total("target_calls"))
    return min(times)
