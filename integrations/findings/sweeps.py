"""Sweeps over thresholds of speculative lookahead, and speculation alone: shapes of their figures.

Paper: Constrained Decoding with Speculative Lookaheads (Nakshatri et al. 2025), Figures 2 and 7 to
11, Tables 7 and 8; whatever texts are judged by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings.commongen import cdsl, shown_options
from cdec.integrations.findings.decoding import decode
from cdec.integrations.findings.finding import Check, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.method_rows import Method, Task, measure
from cdec.samplers.registry import SAMPLERS

C = "0.34"
"""The cost of a draft call in target calls at which one is chosen and drawn."""
TESTS = ("hard", "speculative", "ratio")
SPECULATED: dict[str, dict[str, object]] = {
    "hard": {"greedy": True},
    "ratio": {"ratio": True},
    "lossless": {},
}
"""Tests of plain speculation: Tables 7a and 8a, 7b and 8b, and the one that leaves the law."""
Row = Mapping[str, Any]
Key = tuple[str, str, str, float]
"""Draft, test, what is varied, its value."""


@dataclass(frozen=True)
class Sweep:
    """What is varied, one option at a time.

    Attributes:
        fixed: Options while another is varied.
        varied: Values by option.
        depth: Tokens of a lookahead.
        score: Of the judge, which is drawn. axis: What it is called there.
    """

    fixed: Mapping[str, Any]
    varied: Mapping[str, tuple[float, ...]]
    depth: int
    score: str
    axis: str

    def rows(
        self,
        laboratory: Laboratory,
        task: Task,
        drafting: Mapping[str, LanguageModel],
        tests: Sequence[str] = TESTS,
    ) -> dict[Key, Row]:
        """Run each setting once, though every sweep passes through what the others fix.

        Args:
            laboratory: The models. task: What they are measured on.
            drafting: Drafts by name; the first by all tests, others by the first test.
            tests: Of the target.
        """
        keys: dict[Key, dict[str, Any]] = {}
        for place, draft in enumerate(drafting):
            for test in tests[:1] if place else tests:
                for name, values in self.varied.items():
                    for value in values:
                        options = {**self.fixed, "depth": self.depth, name: value, "verify": test}
                        keys[draft, test, name, value] = options
        labels = {key: f"{key[0]}, {shown_options(options)}" for key, options in keys.items()}
        methods = {
            labels[key]: cdsl(labels[key], drafting[key[0]], **options)
            for key, options in keys.items()
        }
        every = [Method("cdlh", "cdlh", {"depth": self.depth}), *methods.values()]
        found = by_label(measure(laboratory, every, task, {}))
        return {key: found[label] for key, label in labels.items()}

    def table(self, rows: Mapping[Key, Row], title: str, scores: Sequence[str]) -> Table:
        """Return all settings with their calls and some scores."""
        columns = ("draft", "test", "varied", "value", f"× at c={C}", "target calls", "draft calls",
                   *scores)  # fmt: skip
        cells = [
            (*key, row["speedup"][C], *row["path"].values(), *(row[score] for score in scores))
            for key, row in rows.items()
        ]
        fixed = f"d = {self.depth}, {shown_options(self.fixed)}"
        return Table(f"{title}; what is not varied: {fixed}", columns, cells)

    def plots(self, rows: Mapping[Key, Row]) -> list[Plot]:
        """Return speedup and score by each option that is varied."""
        return [
            self._plot(rows, name, is_cost) for name in self.varied for is_cost in (True, False)
        ]

    def _plot(self, rows: Mapping[Key, Row], name: str, is_cost: bool) -> Plot:
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for (draft, test, varied, value), row in rows.items():
            if varied == name:
                x, y = lines.setdefault(f"{draft}, {test}", ([], []))
                x.append(value)
                y.append(row["speedup"][C] if is_cost else row[self.score])
        axis = f"times cheaper than cdlh, c={C}" if is_cost else self.axis
        caption = f"{axis[0].upper()}{axis[1:]}, by {name}."
        what = "speedup" if is_cost else self.score
        return Plot(f"{name}-{what}".replace("_", "-"), caption, name, axis,
                    [Line(label, *points) for label, points in lines.items()])  # fmt: skip


def by_label(rows: Sequence[Row]) -> dict[str, Row]:
    """Return rows by what their method is called."""
    return {row["method"]: row for row in rows}


def speculated(
    laboratory: Laboratory, task: Task, drafting: Mapping[str, LanguageModel], gamma: int
) -> dict[str, Row]:
    """Return rows of plain speculation by test and draft, of greedy and of masked decoding.

    Args:
        laboratory: The models. task: What they are measured on.
        drafting: Drafts by name. gamma: Tokens that are drafted.
    """
    methods = [Method("greedy", "greedy"), Method("masked", "masked")]
    methods += [
        Method(f"{test}, {name}", "speculative", {"gamma": gamma, **how}, draft=draft)
        for name, draft in drafting.items()
        for test, how in SPECULATED.items()
    ]
    return by_label(measure(laboratory, methods, task, {}, base="greedy"))


def speculation_table(
    laboratory: Laboratory,
    task: Task,
    rows: Mapping[str, Row],
    drafting: Mapping[str, LanguageModel],
    scores: Sequence[str],
) -> Table:
    """Return the shape of Tables 7 and 8: calls, acceptance, and scores, also of drafts alone."""
    alone = _drafts_alone(laboratory, task, drafting, scores)
    columns = ("test, draft", "accepted / tested", "accepted a verification", "draft calls",
               "target calls", *scores, *(f"draft alone, {score}" for score in scores))  # fmt: skip
    nothing = (None,) * len(scores)
    cells = [
        (label, row["acceptance_rate"], row["accepted_length"],
         row["path"]["draft_calls"], row["path"]["target_calls"],
         *(row[score] for score in scores), *alone.get(label.partition(", ")[2], nothing))
        for label, row in rows.items()
    ]  # fmt: skip
    return Table(f"{len(task.prompts)} prompts; calls a token", columns, cells)


def _drafts_alone(
    laboratory: Laboratory,
    task: Task,
    drafting: Mapping[str, LanguageModel],
    scores: Sequence[str],
) -> dict[str, tuple[float, ...]]:
    found, greedy = {}, SAMPLERS["greedy"]()
    for name, draft in drafting.items():
        run = decode(laboratory, greedy, task.prompts, model=draft, length=task.length)
        judged = task.judge([sample.text or "" for sample in run.samples])
        found[name] = tuple(judged[score] for score in scores)
    return found


def of_speculation(rows: Mapping[str, Row], drafting: Mapping[str, Any], gamma: int) -> list[Check]:
    """Return what plain speculation must keep, whatever texts are judged by."""
    hard = [rows[f"hard, {name}"] for name in drafting]
    every = [row for label, row in rows.items() if label.partition(", ")[0] in SPECULATED]
    ranked = sorted(hard, key=lambda row: row["acceptance_rate"])
    falls = [
        after["path"]["target_calls"] / before["path"]["target_calls"]
        for before, after in pairwise(ranked)
    ]
    greedy = rows["greedy"]["texts"]
    return [
        Check("hard test: largest share of texts other than greedy ones",
              largest([share_of_others(row["texts"], greedy) for row in hard]), at_most=0.01),
        Check("largest target calls a token", largest([row["path"]["target_calls"]
              for row in every]), at_most=1.0),
        Check("largest draft calls over target calls", largest([row["path"]["draft_calls"]
              / row["path"]["target_calls"] for row in every]), at_most=float(gamma)),
        Check("hard test: largest target calls a token over those of the draft that is accepted "
              "next less often", largest(falls), at_most=1.0),
        Check("the target as its own draft: share accepted by any test, smallest",
              min(rows[f"{test}, target"]["acceptance_rate"] for test in SPECULATED),
              at_least=1.0),
    ]  # fmt: skip


def share_of_others(texts: Sequence[str], those: Sequence[str]) -> float:
    """Return the share of texts that are not what stands beside them."""
    return sum(a != b for a, b in zip(texts, those, strict=True)) / len(texts)
