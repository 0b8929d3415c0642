"""The options that say where the prompts of a run come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import PROMPTS, TemplateOption


@dataclass(frozen=True, kw_only=True)
class PromptOptions(CommonOptions):
    """Prompts: from the command line, a file or stdin."""

    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Prompts: text lines or JSONL; `-` is stdin.",
            rich_help_panel=PROMPTS,
        ),
    ] = "-"
    prompt: Annotated[
        list[str],
        typer.Option(
            "--prompt", metavar="TEXT", help="A prompt; repeatable.", rich_help_panel=PROMPTS
        ),
    ] = field(default_factory=list)
    template: TemplateOption = None
    max_line_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-line-bytes",
            help="Longest prompt line, bytes; 16 MiB if not given.",
            rich_help_panel=PROMPTS,
        ),
    ] = None
