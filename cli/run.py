"""``cdec run``: an artifact runs as ``cdec sample -a ARTIFACT``, a recipe as an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli import sample
from cdec.cli.eval import print_evaluation
from cdec.cli.frame.command import Run
from cdec.cli.frame.config import FILE_NAME
from cdec.cli.frame.declaration import flag_of, option, parameters_of
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.options.evaluation import hook_option
from cdec.cli.options.sampling import SampleOptions
from cdec.core.errors import ConfigError, UsageError
from cdec.core.files.remote import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdec.cli.experiments.carry_out import Experiment, PlannedCell


@dataclass(frozen=True, kw_only=True)
class Options(SampleOptions):
    """Options of ``cdec run``: those of ``cdec sample``, the artifact by its place, or a recipe."""

    artifact: Place | None = option(
        None,
        "An artifact, by path or URL; or a recipe: a .toml, or a shipped one's name; the artifact "
        "of cdec.toml, or the only one in this folder, if not given.",
        metavar="ARTIFACT|RECIPE",
        positional=True,
        has_key=True,
        one_of=shared.THE_CONSTRAINT,
    )
    dry_run: bool = option(
        False, "Recipes: print the grid, and do nothing.", shared.OUTPUT, common=True
    )
    hook: str | None = hook_option()


def execute(options: Options, run: Run) -> int:
    """Run the experiment of a recipe, or sample with an artifact.

    A recipe is a TOML file: artifacts, prompts, methods with options that may be lists, an
    evaluation. Every combination is drawn as by `cdec sample` into the folder of -o, unless it is
    there, then evaluated; typed options win. Shipped recipes: asap, cdsl, disc, domino, mentored.

    \b
    Examples:
      cdec run titles.arrow -i prompts.jsonl -o samples.jsonl
      cdec run disc -o results && cdec report results/evaluation.json
    """
    recipe = _recipe(options, run)
    if recipe is None:
        shared.refuse_unused(("dry_run", "hook"), run.typed, "without a recipe")
        return sample.execute(options, run)
    shared.refuse_unused(_OF_ONE_RUN, run.typed, "with a recipe")
    experiment = _experiment(recipe, options, run)
    planned = experiment.planned()
    if options.dry_run:
        _print_grid(planned, options, run)
        return 0
    found, status = experiment.carry_out(planned, run)
    if options.json:
        print_json(run.console, found.to_json())
    else:
        print_evaluation(found, run)
    run.console.note(f"evaluation: {experiment.folder.evaluation}")
    return status


_OF_ONE_RUN = ("method", "resume", "stream", "trace", "tree", "save_counts")
_OWN = frozenset(
    {"artifact", "dry_run", "hook", "output", "force", "json"}
    | {"quiet", "debug", "trust_config", "progress"}
)
"""Options of the experiment, which no cell is given."""


def _recipe(options: Options, run: Run) -> Path | None:
    """Return the recipe that is named; None where an artifact is.

    Raises:
        ConfigError: ``cdec.toml`` names a recipe: what was found must not write files.
    """
    if options.artifact is None:
        return None
    from cdec.cli.experiments.recipe import recipe_of

    recipe = recipe_of(str(options.artifact))
    if recipe is not None and "artifact" not in run.typed:
        raise ConfigError(
            f"{FILE_NAME}: {options.artifact} is a recipe and may stand on the command line only",
            hint=f"type cdec run {options.artifact}",
            key="artifact",
        )
    if recipe is not None and run.given.keys() - run.typed:
        run.console.note(f"{FILE_NAME} counts for nothing here: a recipe says all itself")
    return recipe


def _experiment(path: Path, options: Options, run: Run) -> Experiment:
    """Read the recipe, with what was typed beside it.

    Raises:
        CdecError: The recipe makes no sense.
    """
    from cdec.cli.experiments.carry_out import Experiment
    from cdec.cli.experiments.folder import ExperimentFolder
    from cdec.cli.experiments.recipe import Recipe

    output = options.writing.output
    if output is not None and not isinstance(output, Path):
        raise UsageError(f"{output} is a URL, and an experiment goes to a folder of this machine")
    typed = {name: run.given[name] for name in run.typed - _OWN}
    recipe = Recipe.read(path)
    beside = path.with_suffix("") if str(path) == str(options.artifact) else Path(recipe.name)
    return Experiment(
        recipe, ExperimentFolder(output or beside), typed, options.hook, options.writing.force
    )


def _print_grid(planned: Sequence[PlannedCell], options: Options, run: Run) -> None:
    """Print a line a cell."""
    declared = parameters_of(SampleOptions)
    if options.json:
        for each in planned:
            samples = str(each.options.writing.output)
            said = {"cell": each.cell.name, "samples": samples, "options": each.config}
            print_json(run.console, said)
        return
    rows = []
    for each in planned:
        varied = [f"{flag_of(declared[n].name)} {v}" for n, v in each.cell.varied.items()]
        rows.append([each.cell.name, each.cell.method, _state(each), " ".join(varied)])
    print_columns(run.console, ["cell", "method", "samples", "varied"], rows)


def _state(each: PlannedCell) -> str:
    output = each.options.writing.output_file
    return "there" if output is not None and output.exists() else "to draw"
