"""``cdec demo``: compile, sample and compare, on what the package ships."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions, Run
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.cli.options.shared import require_at_least


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec demo``; the documented defaults stand here."""

    prompts: Annotated[int, typer.Option("--prompts", help="Questions asked.")] = 8
    n: Annotated[int, typer.Option("-n", "--n", help="Samples a question.")] = 8
    seed: Annotated[int, typer.Option("--seed", help="Of every random draw.")] = 0
    json: shared.JsonOption = False


def execute(options: Options, run: Run) -> int:
    """Compile, sample and compare on the shipped data.

    Compiles the shipped list of names, asks the embedded model a few questions whose answers are on
    the list, and shows for each method how many samples were members and how many were right.
    Needs no network and takes less than a minute.

    \b
    Examples:
      cdec demo
      cdec demo --prompts 50 -n 16 --json
    """
    from cdec.cli.demonstration import demonstrate

    require_at_least(options.prompts, 1, "--prompts")
    require_at_least(options.n, 1, "--n")
    result = demonstrate(run, prompts=options.prompts, n=options.n, seed=options.seed)
    if options.json:
        print_json(run.console, result.to_json())
        return 0
    run.console.data(result.introduction)
    run.console.data("")
    print_columns(run.console, *result.answers_table())
    run.console.data("")
    print_columns(run.console, *result.methods_table())
    run.console.data("")
    run.console.data(result.conclusion)
    return 0
