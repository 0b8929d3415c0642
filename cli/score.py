"""``cdec score``: what a model and an artifact say of given texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from cdec.cli.frame.command import Run
from cdec.cli.frame.results import print_results
from cdec.cli.options import shared
from cdec.cli.options.constraint import ArtifactOptions, ConstraintOptions
from cdec.cli.options.decoding import WarpingOptions
from cdec.cli.options.model import ModelOptions, refuse_revision
from cdec.cli.options.texts import TextRecordOptions


@dataclass(frozen=True, kw_only=True)
class Options(TextRecordOptions, ConstraintOptions, ArtifactOptions, WarpingOptions, ModelOptions):
    """Options of ``cdec score``; the documented defaults stand here and in the bases."""

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
    template: shared.TemplateOption = None
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
    fields: shared.FieldsOption = None
    strict: shared.StrictOption = False


def execute(options: Options, run: Run) -> int:
    """Say how probable given texts are, and what an artifact makes of them, as JSON lines.

    Texts are lines, or JSONL records with `text` or `token_ids` (scored as they are), as cdec
    sample writes them. Each result has `logprob` (the end of the text is an event), `perplexity`
    (exp(-logprob / events)), `tokens`; with an artifact also `log_z_sum` (sum of log Z over the
    events), `log_masked` (masked decoding draws the text with this probability), `member`, `valid`
    (an independent check), `first_refused` of non-members, and certified bounds of the mass P(S)
    and of Q = P / P(S): `log_mass_lower`, `log_mass_upper`, `log_q_lower`, `log_q_upper`.
    Logarithms are natural.

    Give --temperature, --top-k, --top-p, --deny, --and, --lookahead and --heal as the samples were
    drawn with, and --template with --prompts.

    Consecutive records of one prompt (up to 10000) share their bounds. A bad record becomes an
    error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec score -a titles.arrow -i samples.jsonl --prompt "Question: Which city is it?"
      cdec sample -a set.arrow -i q.jsonl | cdec score -a set.arrow --prompts q.jsonl
      cdec score -m gpt2 -i texts.txt --prompt "A text: " --no-end | jq .perplexity
    """
    from cdec.cli.runs.score import check_options, scored

    refuse_revision(options.model, run.typed)
    fields = check_options(options, run.typed)
    results = scored(options, run)
    if fields is not None:
        results = (_kept(record, fields) for record in results)
    return print_results(run, results)


def _kept(record: dict[str, object], fields: Sequence[str]) -> dict[str, object]:
    """Return a record with these fields alone; an error object stays whole."""
    if "error" in record:
        return record
    return {name: record[name] for name in fields if name in record}
