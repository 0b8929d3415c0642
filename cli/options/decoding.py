"""The options of the distribution that texts are drawn from, and of drawing in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import METHOD


@dataclass(frozen=True, kw_only=True)
class WarpingOptions(CommonOptions):
    """How the model's distribution is warped."""

    temperature: Annotated[
        float,
        typer.Option("--temperature", help="Divides the logits.", rich_help_panel=METHOD),
    ] = 1.0
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", help="Keep the k best tokens.", rich_help_panel=METHOD),
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(
            "--top-p", help="Keep the best tokens up to this mass.", rich_help_panel=METHOD
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(WarpingOptions):
    """How texts are drawn for prompts."""

    seed: Annotated[
        int, typer.Option("--seed", help="Of every random draw.", rich_help_panel=METHOD)
    ] = 0
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-new-tokens",
            help="Longest text, tokens; the longest member for sets, else 256.",
            rich_help_panel=METHOD,
        ),
    ] = None
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            help="Prompts decoded together; results come batch by batch.",
            rich_help_panel=METHOD,
        ),
    ] = 16
