"""The options that say where the prompts of a run come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options.shared import PROMPTS, TemplateOption
from cdec.data.input.source import PROMPT_LIMITS, InputLimits


@dataclass(frozen=True, kw_only=True)
class PromptOptions(CommonOptions):
    """Prompts: from the command line, a file or stdin."""

    input: Annotated[
        str,
        Declared(
            "Prompts: text lines or JSONL; `-` is stdin.", PROMPTS, metavar="FILE", common=True
        ),
    ] = "-"
    prompt: Annotated[
        list[str],
        Declared(
            "A prompt; repeatable. Newlines are typed as $'one\\ntwo'.",
            PROMPTS,
            metavar="TEXT",
            common=True,
        ),
    ] = field(default_factory=list)
    prompt_file: Annotated[
        list[str],
        Declared(
            "A file that is one prompt, newlines included (all but one at its end); repeatable; "
            "`-` is stdin.",
            PROMPTS,
            metavar="FILE",
        ),
    ] = field(default_factory=list)
    template: TemplateOption = None
    strict_fields: Annotated[
        bool,
        Declared("Refuse records with fields that no template and no reward reads.", PROMPTS),
    ] = False
    input_limits: Annotated[InputLimits, Limits(PROMPTS)] = PROMPT_LIMITS

    @property
    def has_texts(self) -> bool:
        """Whether prompts are given as texts, so that no records are read."""
        return bool(self.prompt or self.prompt_file)
