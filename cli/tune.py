"""``cdec tune``: options of a method, chosen on prompts whose answers are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import group, option
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.options.constraint import ConstraintOptions
from cdec.cli.options.evaluation import hook_option, references_option
from cdec.cli.options.model import DecodingOptions, WarpingOptions
from cdec.cli.options.one_line import OneLineOptions
from cdec.cli.options.sampling import OutputOptions, SampleOptions
from cdec.core.errors import ConfigError, UsageError
from cdec.core.files.whole import whole_file
from cdec.data.metrics.choice import CHEAPEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdec.cli.experiments.carry_out import Experiment, PlannedCell
    from cdec.cli.experiments.tuning import Candidate
    from cdec.data.metrics.evaluation import Evaluation, Result

_CHOICE = "Choice"


@dataclass(frozen=True, kw_only=True)
class Options(SampleOptions):
    """Options of ``cdec tune``: those of ``cdec sample``, a grid, and what is good."""

    recipe: str | None = option(
        None,
        "A recipe whose cells are compared, instead of a grid that is typed.",
        metavar="RECIPE",
        positional=True,
    )
    one_line: OneLineOptions = group(OneLineOptions, common=False)
    held: ConstraintOptions = group(ConstraintOptions, common=False)
    warping: WarpingOptions = group(WarpingOptions, common=False)
    decoding: DecodingOptions = group(DecodingOptions, common=False)
    writing: OutputOptions = group(OutputOptions, common=False)
    grid: list[str] = option(
        [],
        "Values of an option that are tried, each with each of the others; repeatable.",
        _CHOICE,
        metavar="NAME=A,B,...",
        common=True,
    )
    metric: str = option(
        "exact_match",
        "What is to be good, as of `cdec eval`.",
        _CHOICE,
        metavar="METRIC",
        common=True,
    )
    cost: str = option(
        "target_calls",
        "What is to be small: target_calls, draft_calls, target_tokens, cost_per_token, ...",
        _CHOICE,
        metavar="METRIC",
        common=True,
    )
    cheapest: int = option(
        CHEAPEST,
        "Of how many of the cheapest the best is chosen.",
        _CHOICE,
        metavar="N",
        at_least=1,
        common=True,
    )
    references: str | None = references_option(common=False)
    hook: str | None = hook_option()
    plots: bool = option(True, "Draw quality against cost (needs matplotlib).", shared.OUTPUT)


def execute(options: Options, run: Run) -> int:
    """Choose options of a method: the cheapest, then the best.

    Every combination of the values of --grid is drawn for prompts whose answers are known, as by
    `cdec run`, into the folder of -o (tune if not given), unless it is there. Of the cheapest the
    best is chosen; its command is printed, and frontier.svg shows what quality costs.

    \b
    Examples:
      cdec tune -a set.arrow -i val.jsonl --references refs.jsonl --grid K=1,4,16 -k 2
      cdec tune study.toml --metric tv --cost distinct_evaluations
    """
    shared.refuse_unused(_OF_ONE_RUN, run.typed, "with a grid")
    experiment = _experiment(options, run)
    if options.plots:
        from cdec.data.reports.plots import require_plots

        require_plots()
    try:
        planned = experiment.planned()
    except ConfigError as error:
        if options.recipe is not None:
            raise
        raise UsageError(error.message, hint=error.hint) from error
    found, status = experiment.carry_out(planned, run)
    _tell(experiment, planned, found, options, run)
    return status


_OF_ONE_RUN = ("resume", "stream", "trace", "tree", "save_counts")
_OWN = frozenset(
    {"recipe", "grid", "metric", "cost", "cheapest", "references", "hook", "plots"}
    | {"output", "force", "json", "quiet", "debug", "trust_config", "progress"}
)
"""Options of the choice, which no cell is given."""


def _experiment(options: Options, run: Run) -> Experiment:
    """Return the experiment that is typed, or the one of the recipe.

    Raises:
        CdecError: It makes no sense.
    """
    from cdec.cli.experiments.carry_out import Experiment
    from cdec.cli.experiments.folder import ExperimentFolder
    from cdec.cli.experiments.recipe import Recipe, recipe_of
    from cdec.cli.experiments.tuning import typed_recipe

    output = options.writing.output or Path("tune")
    if not isinstance(output, Path):
        raise UsageError(f"{output} is a URL, and an experiment goes to a folder of this machine")
    evaluation = _evaluation(options)
    typed = {name: run.given[name] for name in run.typed - _OWN}
    if options.recipe is not None:
        unused = ("grid", "method")
        shared.refuse_unused(unused, run.typed, "with a recipe, whose lists are the grid")
        path = recipe_of(options.recipe)
        if path is None:
            raise UsageError(
                f"{options.recipe} is no recipe", hint="name a .toml, or an artifact with -a"
            )
        recipe = Recipe.read(path).evaluated_by(evaluation)
    else:
        if not options.grid:
            raise UsageError("there is nothing to choose from", hint="give --grid NAME=A,B,...")
        names = run.given.keys() - run.typed - _OWN - {"method"}
        configured = {name: run.given[name] for name in sorted(names)}
        recipe = typed_recipe(options.choice.method, options.grid, configured, evaluation)
        typed = {name: value for name, value in typed.items() if name != "method"}
    return Experiment(recipe, ExperimentFolder(output), typed, options.hook, options.writing.force)


def _evaluation(options: Options) -> dict[str, Any]:
    """Return the options of the evaluation that are typed."""
    given: dict[str, Any] = {"metrics": f"{options.metric},{options.cost}"}
    if found := re.search(r"@(\d+)$", options.metric):
        given["at"] = found[1]
    return given | ({} if options.references is None else {"references": options.references})


def _tell(
    experiment: Experiment,
    planned: Sequence[PlannedCell],
    found: Evaluation,
    options: Options,
    run: Run,
) -> None:
    """Print the candidates and the chosen one, and draw them."""
    from cdec.cli.experiments.tuning import candidates_of, command_of

    listed, chosen = candidates_of(found, options.cost, options.metric, options.cheapest)
    cells = [each.cell for each in planned]
    cell = next(each for each in cells if each.name == chosen.cell)
    command = command_of(cell, experiment.artifacts(cells).files(cell.tokenizer))
    said = {
        "metric": options.metric,
        "cost": options.cost,
        "cells": [each.to_json() for each in listed],
        "chosen": chosen.cell,
        "options": dict(next(each.config for each in planned if each.cell is cell)),
        "command": command,
    }
    if options.plots:
        _draw(said, found, experiment.folder.path)
    if options.json:
        print_json(run.console, said)
        return
    _print(listed, chosen, options, run)
    run.console.data("")
    run.console.data(command)


def _print(listed: Sequence[Candidate], chosen: Candidate, options: Options, run: Run) -> None:
    rows = [
        (
            each.cell,
            _shown(each.cost),
            _shown(each.quality),
            "chosen" if each is chosen else "cheap" if each.is_cheap else "",
            "yes" if each.on_frontier else "",
        )
        for each in listed
    ]
    print_columns(run.console, ("cell", options.cost, options.metric, "", "frontier"), rows)


def _shown(result: Result) -> str:
    value, lower, upper = result.interval
    return f"{value:.4g} [{lower:.4g}, {upper:.4g}]"


def _draw(said: Mapping[str, Any], found: Evaluation, folder: Path) -> None:
    """Write the picture beside the evaluation."""
    from cdec.data.reports.plots import frontier_plot

    units = {name: metric.unit for name, metric in found.settings.metrics.items()}
    labels = [f"{name}, {units[name]}" for name in (said["cost"], said["metric"])]
    plot = frontier_plot(said["cells"], said["chosen"], (labels[0], labels[1]))
    for form, drawing in plot.files.items():
        with whole_file(folder / f"{plot.name}.{form}", force=True) as file:
            file.write(drawing)
