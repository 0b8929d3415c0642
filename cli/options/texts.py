"""The options that say where given texts come from: records for a model, or texts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import INPUT


@dataclass(frozen=True, kw_only=True)
class TextRecordOptions(CommonOptions):
    """Records of texts that a model reads."""

    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Texts or samples: lines or JSONL; `-` is stdin.",
            rich_help_panel=INPUT,
        ),
    ] = "-"
    field: Annotated[
        str, typer.Option("--field", help="Field with the text (JSONL).", rich_help_panel=INPUT)
    ] = "text"
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-line-bytes",
            help="Longest line, bytes; 16 MiB if not given.",
            rich_help_panel=INPUT,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TextFormatOptions(CommonOptions):
    """How texts stand in a file that artifacts are made of, or checked against."""

    format: Annotated[
        Literal["auto", "text", "jsonl", "csv", "parquet"],
        typer.Option("--format", help="Format of the texts.", rich_help_panel=INPUT),
    ] = "auto"
    field: Annotated[
        str | None,
        typer.Option(
            "--field",
            help="Field or column with the texts (JSONL, CSV, Parquet).",
            rich_help_panel=INPUT,
        ),
    ] = None
