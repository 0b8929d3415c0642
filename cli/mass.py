"""``cdec mass``: how much of a model's mass satisfies an artifact."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from cdec.cli import options as shared
from cdec.cli.command import Run
from cdec.cli.score import WarpingOptions


@dataclass(frozen=True, kw_only=True)
class RecordOptions(WarpingOptions):
    """Constraint and prompts, as in ``cdec sample``.

    Attributes:
        max_n: How many draws a record may ask for: its ``n`` does not matter here.
    """

    max_n: ClassVar[int] = 2**63 - 1

    artifact: Annotated[
        Path | None,
        typer.Option(
            "--artifact",
            "-a",
            metavar="ARTIFACT",
            help="The constraint of records that name none.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
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
            help="Texts that do not count, one a line.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    conjoined: Annotated[
        list[Path],
        typer.Option(
            "--and",
            metavar="ARTIFACT",
            help="Set or grammar that whole texts must satisfy as well; repeatable.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = field(default_factory=list)
    lookahead: Annotated[
        int | None,
        typer.Option(
            "--lookahead",
            metavar="K",
            help="Grammars: tokens may begin K terminals beyond the first; any number if not "
            "given.",
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


@dataclass(frozen=True, kw_only=True)
class Options(RecordOptions):
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
    seed: Annotated[
        int,
        typer.Option("--seed", help="Of every random draw.", rich_help_panel=shared.METHOD),
    ] = 0
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens",
            help="Longest text that counts; the longest member for sets, else 256.",
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
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at the first bad record.", rich_help_panel=shared.OUTPUT
        ),
    ] = False
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
    from cdec.cli.mass_run import measure

    return measure(options, run)
