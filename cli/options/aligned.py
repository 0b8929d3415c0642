"""The options of the methods that follow the model's own distribution: asap, exact, smc, topn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import METHOD


@dataclass(frozen=True, kw_only=True)
class AlignedOptions(CommonOptions):
    """What the draws of a record learn from each other, and when to stop."""

    round: Annotated[
        int,
        typer.Option(
            "--round",
            metavar="N",
            help="asap, exact, topn: candidates of a record that are drawn before it learns from "
            "them; decides results.",
            rich_help_panel=METHOD,
        ),
    ] = 16
    burn_in: Annotated[
        int,
        typer.Option(
            "--burn-in",
            metavar="N",
            help="asap: candidates that only teach; the first of all is masked decoding.",
            rich_help_panel=METHOD,
        ),
    ] = 100
    until_converged: Annotated[
        float | None,
        typer.Option(
            "--until-converged",
            metavar="W",
            help="asap: go on teaching until the certified bounds of the constraint's mass are "
            "W apart, as probabilities.",
            rich_help_panel=METHOD,
        ),
    ] = None
    max_draws: Annotated[
        int,
        typer.Option(
            "--max-draws",
            metavar="N",
            help="exact, asap: budget, candidates per sample; past it a sample of exact has the "
            'finish_reason "budget".',
            rich_help_panel=METHOD,
        ),
    ] = 1000
    fallback: Annotated[
        str,
        typer.Option(
            "--fallback",
            metavar="METHOD",
            help="exact: what a sample past the budget is: disc, asap or none.",
            rich_help_panel=METHOD,
        ),
    ] = "disc"
    abort: Annotated[
        bool,
        typer.Option(
            "--abort",
            help="exact: draw without masks where nothing is known yet, and give a candidate up "
            "at its first forbidden token; the same law.",
            rich_help_panel=METHOD,
        ),
    ] = False
    particles: Annotated[
        int,
        typer.Option(
            "--particles",
            metavar="N",
            help="smc: texts that grow together for each sample.",
            rich_help_panel=METHOD,
        ),
    ] = 16
    resample_below: Annotated[
        float,
        typer.Option(
            "--resample-below",
            metavar="SHARE",
            help="smc: resample where the effective sample size falls below this share of the "
            "particles.",
            rich_help_panel=METHOD,
        ),
    ] = 0.5
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="KIND",
            help="topn: rank token sequences (sequence), or texts by the summed probability of "
            "their tokenisations found (text).",
            rich_help_panel=METHOD,
        ),
    ] = "sequence"
    max_evaluations: Annotated[
        int | None,
        typer.Option(
            "--max-evaluations",
            metavar="N",
            help="topn: budget, prefixes per prompt; what is not proved by then has the "
            'finish_reason "budget".',
            rich_help_panel=METHOD,
        ),
    ] = None
    tree_bytes: Annotated[
        str,
        typer.Option(
            "--tree-cache",
            metavar="SIZE",
            help="asap, exact: memory for what a tree may draw from; changes no result.",
            rich_help_panel=METHOD,
        ),
    ] = "256MiB"
    tree: Annotated[
        Path | None,
        typer.Option(
            "--tree",
            metavar="FILE.arrow",
            help="asap, exact: keep what a single record's draws learnt in this file, and begin "
            "with what it holds; refused where model, warping, prompt or constraint differ. "
            "Written when all is drawn: an interrupted run leaves it as it was.",
            rich_help_panel=METHOD,
        ),
    ] = None
