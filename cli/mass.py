"""``cdec mass``: how much of a model's mass satisfies an artifact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import Run
from cdec.cli.options import shared
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions
from cdec.cli.options.decoding import DecodingOptions
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.prompts import PromptOptions


@dataclass(frozen=True, kw_only=True)
class Options(PromptOptions, ConstraintOptions, ArtifactOptions, DecodingOptions, ModelOptions):
    """Options of ``cdec mass``; the documented defaults stand here and in the bases."""

    candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            metavar="N",
            help="Candidates drawn for each prompt; the estimate is their mean.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 256
    until_converged: Annotated[
        float | None,
        typer.Option(
            "--until-converged",
            metavar="W",
            help="Stop earlier where the certified bounds are W apart, as probabilities; such a "
            "record has bounds and no estimate, since a stopped mean is biased.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    round: Annotated[
        int,
        typer.Option(
            "--round",
            metavar="N",
            help="Candidates that are drawn before a record learns from them; decides results.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 16
    remember: Annotated[
        bool,
        typer.Option(
            "--remember/--no-remember",
            help="Let candidates learn from those before; if not, they are independent.",
            rich_help_panel=shared.METHOD,
        ),
    ] = True
    tree: Annotated[
        Path | None,
        typer.Option(
            "--tree",
            metavar="FILE.arrow",
            help="Keep what a single prompt's candidates learnt in this file, and begin with what "
            "it holds, as in cdec sample. Written when all is drawn.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    strict: shared.StrictOption = False
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON lines on a terminal too, not a table.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = False
    progress: shared.ProgressOption = None


def execute(options: Options, run: Run) -> int:
    """Say how much of a model's mass satisfies an artifact: P(S), estimated and bounded.

    For each prompt one JSON line (on a terminal, one row of a table): `mass` with its logarithm and
    standard error, from --candidates texts drawn as cdec sample --method asap draws them;
    `mass_lower` and `mass_upper`, certified for this model: what was found, and what is not
    excluded; `length_mass`, the share of it beyond the length limit. Logarithms are natural.

    A bad record becomes an error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec mass -a json.arrow --prompt "A JSON object:"
      cdec mass -a titles.arrow -i prompts.jsonl --candidates 1000 | jq .mass
      cdec mass -a cities.arrow --and short.arrow --prompt "A city:" --until-converged 0.01
      cdec mass -a sql.arrow --prompt "SELECT" --tree select.arrow
    """
    from cdec.cli.runs.mass import measure

    return measure(options, run)
