"""The options of ``cdec sample``, which ``cdec run`` shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options import shared
from cdec.cli.options.aligned import AlignedOptions
from cdec.cli.options.constraint import ConstraintOptions
from cdec.cli.options.decoding import DecodingOptions
from cdec.cli.options.drafts import DraftOptions, RewardOptions
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.prompts import PromptOptions
from cdec.cli.options.speculation import SpeculationOptions


@dataclass(frozen=True, kw_only=True)
class MethodOptions(CommonOptions):
    """Which method, what disc, beam and masked take, and how many samples."""

    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="unconstrained, greedy, masked, beam, disc, asap, exact, smc or topn; with two "
            "models speculative or mentored; with a reward cdlh, cdlh-approx or cdsl.",
            rich_help_panel=shared.METHOD,
        ),
    ] = "disc"
    max_tries: Annotated[
        int,
        typer.Option(
            "--K",
            "-K",
            help="disc (up to 4,194,304), and exact past its budget (65,536): candidates tried.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 4
    recycle: Annotated[
        bool,
        typer.Option(
            "--recycle",
            help="disc: resample the rejected candidates instead of drawing new ones.",
            rich_help_panel=shared.METHOD,
        ),
    ] = False
    top_m: Annotated[
        int | None,
        typer.Option(
            "--top-m",
            help="masked, disc: verify the model's M best tokens instead of masking all.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    beams: Annotated[
        int | None,
        typer.Option("--beams", help="beam, disc: width.", rich_help_panel=shared.METHOD),
    ] = None
    n: Annotated[
        int,
        typer.Option("-n", "--n", help="Samples a prompt.", rich_help_panel=shared.METHOD),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(DecodingOptions, MethodOptions, PromptOptions, ConstraintOptions):
    """What is drawn: constraint, prompts, method."""

    max_n: Annotated[
        int | None,
        typer.Option(
            "--max-n",
            help="Most samples a record may ask for; 10000 if not given.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SampleOptions(
    RewardOptions, DraftOptions, AlignedOptions, SpeculationOptions, ModelOptions, DrawingOptions
):
    """Everything but the artifact; the documented defaults stand here and in the bases."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Append samples to this file; stdout if not given.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None
    force: shared.ForceOption = False
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with an unfinished output file.", rich_help_panel=shared.OUTPUT
        ),
    ] = False
    strict: shared.StrictOption = False
    fields: shared.FieldsOption = None
    progress: shared.ProgressOption = None
