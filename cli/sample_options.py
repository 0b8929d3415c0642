"""The options of ``cdec sample``, which ``cdec run`` shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli import options as shared
from cdec.cli.aligned_options import AlignedOptions
from cdec.cli.command import CommonOptions
from cdec.cli.draft_options import DraftOptions, RewardOptions
from cdec.cli.model_options import ModelOptions
from cdec.cli.speculation import SpeculationOptions


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(CommonOptions):
    """What is drawn: constraint, prompts, method."""

    constraint: Annotated[
        list[str],
        typer.Option(
            "--constraint",
            metavar="NAME=ARTIFACT",
            help="Artifact that records name in their `constraint` field; repeatable.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = field(default_factory=list)
    deny: Annotated[
        Path | None,
        typer.Option(
            "--deny",
            metavar="FILE",
            help="Texts never to emit, one a line; the artifact stays as it is.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    conjoined: Annotated[
        list[Path],
        typer.Option(
            "--and",
            metavar="ARTIFACT",
            help="Set or grammar that whole texts (a set's leading space, prefix and suffix "
            "included) must satisfy as well; repeatable.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = field(default_factory=list)
    lookahead: Annotated[
        int | None,
        typer.Option(
            "--lookahead",
            metavar="K",
            help="Grammars: tokens may begin K terminals beyond the first; any number if not given "
            "(0 forbids what the model would have written within the grammar).",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Grammars: cut the prompt's last token off, and let any tokens spell its text.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = False
    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Prompts: text lines or JSONL; `-` is stdin.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = "-"
    prompt: Annotated[
        list[str],
        typer.Option(
            "--prompt", metavar="TEXT", help="A prompt; repeatable.", rich_help_panel=shared.PROMPTS
        ),
    ] = field(default_factory=list)
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="FILE",
            help="Prompt text with {field} places, filled from each record.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-line-bytes",
            help="Longest prompt line, bytes; 16 MiB if not given.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
    max_n: Annotated[
        int | None,
        typer.Option(
            "--max-n",
            help="Most samples a record may ask for; 10000 if not given.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
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
    temperature: Annotated[
        float,
        typer.Option("--temperature", help="Divides the logits.", rich_help_panel=shared.METHOD),
    ] = 1.0
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", help="Keep the k best tokens.", rich_help_panel=shared.METHOD),
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(
            "--top-p",
            help="Keep the best tokens up to this mass.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option("--seed", help="Of every random draw.", rich_help_panel=shared.METHOD),
    ] = 0
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens",
            help="Longest text; the longest member for sets, else 256.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            help="Prompts decoded together; results come batch by batch.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 16


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
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at the first bad record.", rich_help_panel=shared.OUTPUT
        ),
    ] = False
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            metavar="A,B,...",
            help="Keep these fields of each sample.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None
    progress: shared.ProgressOption = None
