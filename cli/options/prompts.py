"""The options that say where the prompts of a run come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options.shared import DEFAULT_IDLE_MS, PROMPTS, IdleOption, TemplateOption
from cdec.data.input.source import PROMPT_LIMITS, InputLimits

if TYPE_CHECKING:
    from cdec.data.prompts.shard import Shard


@dataclass(frozen=True, kw_only=True)
class PromptOptions(CommonOptions):
    """Prompts: from the command line, a file or stdin."""

    input: Annotated[
        list[str],
        Declared(
            "Prompts: text, JSONL, CSV, Parquet, Arrow; a file, folder, URL or '*.csv'; `-` is "
            "stdin; repeatable.",
            PROMPTS,
            metavar="FILE",
            common=True,
        ),
    ] = field(default_factory=lambda: ["-"])
    input_format: Annotated[
        Literal["auto", "lines", "csv", "tsv"],
        Declared(
            "How the input is read: auto tells Parquet and Arrow by content and CSV by the name, "
            "and reads all else as lines.",
            PROMPTS,
        ),
    ] = "auto"
    shard: Annotated[
        str | None,
        Declared(
            "Only the I-th of N parts of the records, by a hash of their ids; each record is in "
            "one part.",
            PROMPTS,
            metavar="I/N",
            decides=True,
        ),
    ] = None
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
    idle: IdleOption = DEFAULT_IDLE_MS
    input_limits: Annotated[InputLimits, Limits(PROMPTS)] = PROMPT_LIMITS

    @property
    def chosen_shard(self) -> Shard | None:
        """The part of the records that is wanted; None for all.

        Raises:
            UsageError: ``shard`` is none.
        """
        from cdec.data.prompts.shard import Shard

        return None if self.shard is None else Shard.parse(self.shard)

    @property
    def streams(self) -> Sequence[str]:
        """The input, if records are read from it."""
        return () if self.has_texts else self.input

    @property
    def has_texts(self) -> bool:
        """Whether prompts are given as texts, so that no records are read."""
        return bool(self.prompt or self.prompt_file)
