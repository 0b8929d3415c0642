"""``cdec demo``: compile, sample and compare, on what the package ships."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec demo``; the documented defaults stand here."""

    prompts: Annotated[
        int, Declared("Questions asked.", common=True, at_least=1, at_most=math.inf)
    ] = 8
    n: Annotated[
        int, Declared("Samples a question.", common=True, at_least=1, at_most=math.inf)
    ] = 8
    seed: Annotated[int, Declared("Of every random draw.", common=True)] = 0
    json: shared.JsonOption = False


def execute(options: Options, run: Run) -> int:
    """Compile, sample and compare on the shipped data.

    Compiles the shipped list of names, asks the embedded model a few questions whose answers are on
    the list, and shows for each method how many samples were members and how many were right. Then
    one question with five answers: what masked decoding draws, what the model's law is, and what
    exact draws. Needs no network and takes less than a minute.

    \b
    Examples:
      cdec demo
      cdec demo --prompts 50 -n 16 --json
    """
    from cdec.cli.tour.demonstration import NEXT, demonstrate

    result = demonstrate(run, prompts=options.prompts, n=options.n, seed=options.seed)
    if options.json:
        print_json(run.console, result.to_json())
        return 0
    run.console.data(result.introduction)
    run.console.data("")
    print_columns(run.console, *result.methods_table())
    run.console.data("")
    run.console.data(result.conclusion)
    run.console.data("")
    run.console.data(result.comparison)
    run.console.data("")
    print_columns(run.console, *result.answers_table())
    run.console.data("")
    run.console.data("Try next:")
    for line in NEXT:
        run.console.data(f"  {line}")
    return 0
