"""The options that say where the prompts of a run come from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options.shared import PROMPTS, TemplateOption


@dataclass(frozen=True, kw_only=True)
class PromptOptions(CommonOptions):
    """Prompts: from the command line, a file or stdin."""

    input: Annotated[
        str,
        Declared("Prompts: text lines or JSONL; `-` is stdin.", PROMPTS, metavar="FILE"),
    ] = "-"
    prompt: Annotated[
        list[str],
        Declared("A prompt; repeatable.", PROMPTS, metavar="TEXT"),
    ] = field(default_factory=list)
    template: TemplateOption = None
    max_line_bytes: Annotated[
        int | None,
        Declared(
            "Longest prompt line, bytes; 16 MiB if not given.",
            PROMPTS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
