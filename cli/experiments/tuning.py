"""Choice among the cells of an experiment: the cheapest ones, then the best of these."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.experiments.recipe import MethodTable, Recipe
from cdec.cli.frame.config import option_fields, typed_words, unknown_key
from cdec.cli.frame.declaration import NumberOrWord, flag_of, parameters_of
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import UsageError
from cdec.core.options import Option
from cdec.data.metrics.choice import choose

if TYPE_CHECKING:
    from cdec.cli.experiments.grid import Cell
    from cdec.data.metrics.evaluation import Evaluation, Result

NO_FILE = Path("the grid")
"""Stands for the file of a recipe that was typed."""


@dataclass(frozen=True)
class Candidate:
    """A cell with what it costs and how good it is.

    Attributes:
        cell: Its name.
        cost, quality: With their intervals.
        is_cheap: Whether it is among the cheapest, of which one is chosen.
        on_frontier: Whether no other is both cheaper and better.
    """

    cell: str
    cost: Result
    quality: Result
    is_cheap: bool
    on_frontier: bool

    def to_json(self) -> dict[str, object]:
        """Return it as one JSON-ready object."""
        return {
            "cell": self.cell,
            "cost": self.cost.to_json(),
            "quality": self.quality.to_json(),
            "cheap": self.is_cheap,
            "frontier": self.on_frontier,
        }


def candidates_of(
    found: Evaluation, cost: str, metric: str, cheapest: int
) -> tuple[list[Candidate], Candidate]:
    """Return all cells, the cheapest first, and the one that is chosen.

    CDSL chooses so (appendix C): the ten fastest of a grid, then the best of these.

    Args:
        found: Their evaluation.
        cost: A metric of which less is better.
        metric: That is to be good.
        cheapest: How many are looked at.

    Raises:
        UsageError: No cell has both.
    """
    sign = -1.0 if found.settings.metrics[metric].better == "lower" else 1.0
    rows = [
        (system.name, results[cost], results[metric])
        for system in found.systems
        if {cost, metric} <= (results := found.results[system.name]).keys()
        and not math.isnan(results[metric].interval.value)
    ]
    if not rows:
        raise UsageError(f"no cell has both {cost} and {metric}", hint="see `cdec eval --help`")
    choice = choose(
        rows,
        lambda row: row[1].interval.value,
        lambda row: sign * row[2].interval.value,
        cheapest,
    )
    listed = [
        Candidate(*row, place < cheapest, row in choice.frontier)
        for place, row in enumerate(choice.ranked)
    ]
    return listed, listed[choice.ranked.index(choice.chosen)]


def typed_recipe(
    method: str, grid: Sequence[str], given: Mapping[str, Any], evaluation: Mapping[str, Any]
) -> Recipe:
    """Return the recipe of a grid that was typed.

    Args:
        method: Of all cells.
        grid: ``NAME=A,B,...`` each.
        given: Options of ``cdec sample`` that ``cdec.toml`` gives, by name.
        evaluation: Options of the evaluation by name.

    Raises:
        UsageError: An option is unknown, may not be varied, or has a value that is none.
    """
    known = option_fields(SampleOptions)
    varied: dict[str, Sequence[Any]] = {}
    for text in grid:
        key, equals, values = text.partition("=")
        key = key.strip().removeprefix("--").replace("_", "-")
        if key not in known:
            near = unknown_key(NO_FILE, key, known)
            raise UsageError(f"--grid names {key!r}, which is no option", hint=near.hint)
        option = known[key]
        if option.typed_only or option.name in varied:
            why = "is given twice" if option.name in varied else "cannot be varied"
            raise UsageError(f"--grid: {flag_of(option.name)} {why}", hint="leave it out")
        words = [word.strip() for word in values.split(",")]
        if not equals or not all(words):
            raise UsageError(
                f"--grid is {text!r}, expected NAME=VALUE,VALUE,...",
                hint="write for example --grid K=1,4,16",
            )
        varied[option.name] = [_value(option, word) for word in words]
    return Recipe(
        path=NO_FILE,
        shared={name: [value] for name, value in given.items()},
        methods=[MethodTable(None, {"method": [method], **varied})],
        evaluation=evaluation,
    )


def _value(option: Option, text: str) -> Any:
    """Return what a word says for an option."""
    if option.type is bool and text in ("true", "false"):
        return text == "true"
    if option.type in (int, float):
        try:
            return option.type(text)
        except ValueError:
            pass
    elif option.type in (str, Path, NumberOrWord):
        return option.type(text)
    elif text in getattr(option.type, "__args__", ()):
        return text
    raise UsageError(
        f"--grid: {text!r} is no value of {flag_of(option.name)}",
        hint="see `cdec sample --help-all`",
    )


def command_of(cell: Cell, artifacts: Mapping[str, Path]) -> str:
    """Return the ``cdec sample`` of a cell, as it is typed for other prompts."""
    known = parameters_of(SampleOptions)
    values = {
        name: value
        for name, value in cell.held_to(artifacts).items()
        if name not in _OF_THE_VALIDATION and value not in (None, [], known[name].default)
    }
    words = ["cdec", "sample", *typed_words(values), "-i", "PROMPTS", "-o", "SAMPLES"]
    return shlex.join(words)


_OF_THE_VALIDATION = {"input", "prompt", "prompt_file", "shard", "engine", "workers"}
