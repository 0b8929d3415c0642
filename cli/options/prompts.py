"""Options of prompts, and of the requests of OpenAI batch files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.declaration import limits, option
from cdec.cli.options.shared import (
    LIMITS,
    PROMPTS,
    InputFormat,
    idle_option,
    input_format_option,
    no_header_option,
    refuse_unused,
    template_option,
)
from cdec.core.errors import UsageError
from cdec.data.input.source import PROMPT_LIMITS, InputLimits
from cdec.data.output.forms import LINES, form_of
from cdec.integrations.serving.settings import AskedLimits

if TYPE_CHECKING:
    from cdec.data.ids import Shard


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """Prompts: from the command line, a file or stdin."""

    input: list[str] = option(
        ["-"],
        "Prompts: text, JSON, CSV, Parquet, Arrow; a file, folder, URL or '*.csv'; `-` is "
        "stdin; repeatable.",
        PROMPTS,
        metavar="FILE",
        common=True,
    )
    input_format: InputFormat = input_format_option()
    no_header: bool = no_header_option()
    shard: str | None = option(
        None,
        "Only the I-th of N parts of the records, by a hash of their ids; each record is in "
        "one part.",
        PROMPTS,
        metavar="I/N",
        decides=True,
    )
    prompt: list[str] = option(
        [],
        "A prompt; repeatable. Newlines are typed as $'one\\ntwo'.",
        PROMPTS,
        metavar="TEXT",
        common=True,
    )
    prompt_file: list[str] = option(
        [],
        "A file that is one prompt, newlines included (all but one at its end); repeatable; "
        "`-` is stdin.",
        PROMPTS,
        metavar="FILE",
    )
    template: Path | None = template_option()
    strict_fields: bool = option(
        False, "Refuse records with fields that no template and no reward reads.", PROMPTS
    )
    idle: int = idle_option()
    input_limits: InputLimits = limits(PROMPT_LIMITS, PROMPTS)

    @property
    def chosen_shard(self) -> Shard | None:
        """The part of the records that is wanted; None for all.

        Raises:
            UsageError: ``shard`` is none.
        """
        from cdec.data.ids import Shard

        return None if self.shard is None else Shard.parse(self.shard)

    @property
    def streams(self) -> Sequence[str]:
        """The input, if records are read from it."""
        return () if self.has_texts else self.input

    @property
    def read(self) -> Sequence[str]:
        """The files that prompts come from, ``-`` for stdin."""
        return self.prompt_file if self.has_texts else self.input

    @property
    def has_texts(self) -> bool:
        """True where prompts are given as texts, so that no records are read."""
        return bool(self.prompt or self.prompt_file)


@dataclass(frozen=True, kw_only=True)
class BatchFileOptions:
    """Requests of OpenAI batch files, and what they may ask."""

    openai_batch: bool = option(
        False,
        "The input is an OpenAI batch file: its lines are requests for chat or text "
        "completions, and the responses are written.",
        PROMPTS,
        decides=True,
    )
    allow: list[str] = option(
        [],
        "What such requests may bring to be compiled: candidates, grammar, regex, schema; "
        "repeatable, nothing if not given.",
        PROMPTS,
        metavar="KIND",
        decides=True,
    )
    served_name: str | None = option(
        None,
        "What such requests call the model; the name by which it is loaded if not given.",
        PROMPTS,
        metavar="NAME",
        decides=True,
    )
    asked_limits: AskedLimits = limits(AskedLimits(), LIMITS)


_OF_REQUESTS = ("allow", "served_name", "max_candidates", "max_text_bytes")
_OF_RECORDS = (
    *("prompt", "prompt_file", "input_format", "template", "strict_fields", "tree"),
    *("keep_input", "no_header"),
)


def check_batch_file(
    options: BatchFileOptions,
    typed: frozenset[str],
    *,
    template: Path | None,
    span_of: str | None,
    output: Path | None,
    engine: str,
) -> None:
    """Refuse options that mean nothing to batch files, or to anything else.

    Args:
        options: As typed.
        typed: Fields that stood on the command line.
        template: That fills prompts of records.
        span_of: Field of records that holds a document.
        output: Where responses go; None for stdout.
        engine: Where they are drawn.

    Raises:
        UsageError: One was typed; the output is a table; or workers would draw them.
    """
    if not options.openai_batch:
        refuse_unused(_OF_REQUESTS, typed, "without --openai-batch")
        return
    refuse_unused(_OF_RECORDS, typed, "with --openai-batch, whose requests bring all they need")
    beside = {
        "--template": template is not None,
        "--span-of": span_of is not None,
        "--engine ray": engine == "ray",
    }
    for name, is_set in beside.items():
        if is_set:
            raise UsageError(f"{name} means nothing with --openai-batch", hint="leave it out")
    if output is not None and form_of(output).kind != LINES:
        raise UsageError(
            f"{output} would be a table by its name, and responses are lines of JSON",
            hint="name a file that ends in .jsonl",
        )
