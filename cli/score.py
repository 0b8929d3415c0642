"""``cdec score``: what a model and an artifact say of given texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli import options as shared
from cdec.cli.command import Run
from cdec.cli.model_options import ModelOptions, refuse_revision
from cdec.cli.tables import print_json

SOME_RECORDS_FAILED = 3


@dataclass(frozen=True, kw_only=True)
class WarpingOptions(ModelOptions):
    """How the model's distribution is warped, as in ``cdec sample``."""

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


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions(WarpingOptions):
    """What texts are held to, as in ``cdec sample``."""

    artifact: Annotated[
        Path | None,
        typer.Option(
            "--artifact",
            "-a",
            metavar="ARTIFACT",
            help="What texts are held to; log P and perplexity alone if not given.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    constraint: Annotated[
        list[str],
        typer.Option(
            "--constraint",
            metavar="NAME=ARTIFACT",
            help="Artifact that records of --prompts name; repeatable.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = field(default_factory=list)
    deny: Annotated[
        Path | None,
        typer.Option(
            "--deny",
            metavar="FILE",
            help="Texts that are no members, one a line.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    conjoined: Annotated[
        list[Path],
        typer.Option(
            "--and",
            metavar="ARTIFACT",
            help="Set or grammar that texts must satisfy as well; repeatable.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = field(default_factory=list)
    lookahead: Annotated[
        int | None,
        typer.Option(
            "--lookahead",
            metavar="K",
            help="Grammars: as the samples were drawn with.",
            rich_help_panel=shared.CONSTRAINT,
        ),
    ] = None
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Grammars: as the samples were drawn with.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = False
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens",
            help="Longest member; the set's or the model's own limit if not given.",
            rich_help_panel=shared.METHOD,
        ),
    ] = None
    candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            metavar="N",
            help="Masked candidates drawn for each prompt, to narrow the bounds of Q.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 0
    seed: Annotated[
        int,
        typer.Option("--seed", help="Of the candidates.", rich_help_panel=shared.METHOD),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class Options(ConstraintOptions):
    """Options of ``cdec score``; the documented defaults stand here and in the bases."""

    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Samples or texts: JSONL or lines; `-` is stdin.",
            rich_help_panel=shared.INPUT,
        ),
    ] = "-"
    field: Annotated[
        str,
        typer.Option("--field", help="Field with the text (JSONL).", rich_help_panel=shared.INPUT),
    ] = "text"
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="What stands before the texts of records that have no `prompt`.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Records as cdec sample read them: gives each sample the prompt of its `id`.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            metavar="FILE",
            help="Fills the prompts of --prompts, as in cdec sample.",
            rich_help_panel=shared.PROMPTS,
        ),
    ] = None
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-line-bytes",
            help="Longest line, bytes; 16 MiB if not given.",
            rich_help_panel=shared.INPUT,
        ),
    ] = None
    end: Annotated[
        bool,
        typer.Option(
            "--end/--no-end",
            help="Without artifact: count the end of the text as an event.",
            rich_help_panel=shared.METHOD,
        ),
    ] = True
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            help="Texts scored together, or more where they share a prompt.",
            rich_help_panel=shared.METHOD,
        ),
    ] = 64
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            metavar="A,B,...",
            help="Keep these fields of each record.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at the first bad record.", rich_help_panel=shared.OUTPUT
        ),
    ] = False


def execute(options: Options, run: Run) -> int:
    """Say how probable given texts are, and what an artifact makes of them, as JSON lines.

    Texts are lines, or JSONL records with `text` or `token_ids` (scored as they are), as cdec
    sample writes them. Each result has `logprob` (the end of the text is an event), `perplexity`
    (exp(-logprob / events)), `tokens`; with an artifact also `log_z_sum` (sum of log Z over the
    events), `log_masked` (masked decoding draws the text with this probability), `member`, `valid`
    (an independent check), `first_refused` of non-members, and certified bounds of the mass P(S)
    and of Q = P / P(S): `log_mass_lower`, `log_mass_upper`, `log_q_lower`, `log_q_upper`.
    Logarithms are natural.

    Consecutive records of one prompt (up to 10000) share their bounds. A bad record becomes an
    error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec score -a titles.arrow -i samples.jsonl --prompt "Question: Which city is it?"
      cdec sample -a set.arrow -i q.jsonl | cdec score -a set.arrow --prompts q.jsonl
      cdec score -m gpt2 -i texts.txt --prompt "A text: " --no-end | jq .perplexity
    """
    from cdec.cli.score_run import check_options, scored

    refuse_revision(options.model, run.typed)
    fields = check_options(options, run.typed)
    failed = 0
    for record in scored(options, run):
        is_error = "error" in record
        failed += is_error
        if fields is not None and not is_error:
            record = {name: record[name] for name in fields if name in record}
        with run.signals.shield():
            print_json(run.console, record)
    return SOME_RECORDS_FAILED if failed else 0
