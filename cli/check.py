"""``cdec check``: which texts an artifact accepts, and where it refuses the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from cdec.cli import options as shared
from cdec.cli.command import CommonOptions, Run
from cdec.cli.options import refuse_terminal, refuse_unused, require_at_least
from cdec.cli.tables import print_json


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec check``; the documented defaults stand here."""

    artifact: shared.ArtifactArgument
    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Texts, one a line; `-` is stdin.",
            rich_help_panel=shared.INPUT,
        ),
    ] = "-"
    format: Annotated[
        Literal["auto", "text", "jsonl", "csv", "parquet"],
        typer.Option("--format", help="Format of the texts.", rich_help_panel=shared.INPUT),
    ] = "auto"
    field: Annotated[
        str | None,
        typer.Option(
            "--field",
            help="Field or column with the texts (JSONL, CSV, Parquet).",
            rich_help_panel=shared.INPUT,
        ),
    ] = None
    token_ids: Annotated[
        bool,
        typer.Option(
            "--token-ids",
            help="The input is one JSON array of token ids a line.",
            rich_help_panel=shared.INPUT,
        ),
    ] = False
    allowed: Annotated[
        int,
        typer.Option(
            "--allowed",
            help="How many of the continuations that were allowed to show.",
            rich_help_panel=shared.OUTPUT,
        ),
    ] = 10


def execute(options: Options, run: Run) -> int:
    """Say which texts an artifact accepts, as JSON lines.

    A refused text comes with the first byte at which no member goes on, what was allowed there, and
    whether a member may end there. The exit status is 0 whatever the verdicts.

    \b
    Examples:
      printf 'Paris\\nParys\\n' | cdec check cities.arrow
      cdec check cities.arrow -i samples.jsonl --field text | jq -c 'select(.valid | not)'
    """
    from cdec.cli.pipeline import verdicts

    require_at_least(options.allowed, 0, "--allowed")
    if options.token_ids:
        refuse_unused(("format", "field"), run.typed, "with --token-ids")
    if options.input == "-":
        refuse_terminal("texts", "give -i FILE, or pipe them in")
    for verdict in verdicts(options):
        print_json(run.console, verdict)
    return 0
