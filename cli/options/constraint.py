"""Options of what texts are held to: an artifact, what narrows it, free text before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.declaration import NumberOrWord, limits, option
from cdec.cli.options.shared import (
    CONSTRAINT,
    LIMITS,
    PROMPTS,
    THE_CONSTRAINT,
    copy_option,
    lookahead_option,
    require_utf8,
    sets_option,
)
from cdec.core.combine.free_text import BUDGET, REGIONS, FreeText, MarkerLimits
from cdec.core.errors import UsageError
from cdec.core.files.remote import Place

if TYPE_CHECKING:
    from cdec.core.combine.thinking import Amount

artifact_option = partial(
    option,
    None,
    "The constraint of records that name none, by path or URL; that of cdec.toml, or the only one "
    "in this folder, if not given.",
    CONSTRAINT,
    metavar="ARTIFACT",
    common=True,
    one_of=THE_CONSTRAINT,
)


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions:
    """Further artifacts, and what becomes of an artifact before texts are held to it."""

    constraint: list[str] = option(
        [],
        "Artifact that prompt records name in their `constraint` field; repeatable.",
        CONSTRAINT,
        metavar="NAME=ARTIFACT",
    )
    deny: Path | None = option(
        None,
        "Texts that are not allowed, one a line; the artifact stays as it is.",
        CONSTRAINT,
        metavar="FILE",
        common=True,
    )
    conjoined: list[Place] = option(
        [],
        "Set or grammar that whole texts (a set's leading space, prefix and suffix "
        "included) must satisfy as well; repeatable.",
        CONSTRAINT,
        metavar="ARTIFACT",
    )
    sets: list[str] = sets_option()
    copy: bool = copy_option()
    lookahead: int | None = lookahead_option()
    fit: bool = option(
        False,
        "Every text ends within --max-new-tokens: a token is allowed only where an end is still "
        "within reach.",
        CONSTRAINT,
        decides=True,
    )
    canonical: bool = option(
        False,
        "Only the token sequences that the tokenizer itself writes for their text.",
        CONSTRAINT,
        decides=True,
    )
    templated: bool = option(
        False,
        "Only token sequences whose fixed parts, where the constraint leaves one byte open, are "
        "spelled by themselves, as templates do.",
        CONSTRAINT,
        decides=True,
    )
    prefill: str | None = option(
        None,
        "Begun answer that texts continue, within the constraint; the last message of a "
        "record's `messages`, if it is the assistant's, or its `prefill` wins.",
        PROMPTS,
        metavar="TEXT",
        decides=True,
    )
    heal: bool = option(
        False,
        "Grammars: cut the prompt's last tokens off, as many as one longer token could join, "
        "and let any tokens spell their text.",
        PROMPTS,
        decides=True,
    )


@dataclass(frozen=True, kw_only=True)
class FreeTextOptions:
    """Free text before the constraint, or around tagged regions."""

    after: list[str] = option(
        [],
        "The model writes freely up to this text, where the constraint begins; repeatable: the "
        "first to appear counts.",
        CONSTRAINT,
        metavar="TEXT",
        decides=True,
    )
    between: tuple[str, str] | None = option(
        None,
        "The constraint holds between these two texts, as often as the model writes them.",
        CONSTRAINT,
        metavar="BEGIN END",
        decides=True,
    )
    budget: int | None = option(
        None,
        "Most tokens of free text; then, or where the text ends before, the model is forced "
        "into the text of --after (or of a region that --regions asks for).",
        CONSTRAINT,
        metavar="TOKENS",
        at_least=BUDGET.at_least,
        decides=True,
    )
    regions: int | None = option(
        None,
        "With --between: fewest regions; 0 if not given.",
        CONSTRAINT,
        metavar="N",
        at_least=REGIONS.at_least,
        decides=True,
    )

    thinking: NumberOrWord | None = option(
        None,
        "What the model thinks before: off, on, or at most N tokens, after which it is forced to "
        "end it; as its chat template does by itself if not given.",
        CONSTRAINT,
        metavar="off|on|N",
        decides=True,
    )
    thinking_tags: tuple[str, str] | None = option(
        None,
        "What begins and what ends the thinking, where neither template nor special tokens tell.",
        CONSTRAINT,
        metavar="BEGIN END",
        decides=True,
    )

    marker_limits: MarkerLimits = limits(MarkerLimits(), LIMITS)

    @property
    def asked_thinking(self) -> Amount | None:
        """The typed amount of thinking; None for what the model does by itself.

        Raises:
            UsageError: It is none, or there are tags and no amount.
        """
        if self.thinking is None:
            if self.thinking_tags is not None:
                raise UsageError(
                    "--thinking-tags say how thinking is written, and nothing is asked of it",
                    hint="give --thinking off, on or a number of tokens too",
                )
            return None
        text = str(self.thinking)
        if text in ("on", "off"):
            return "on" if text == "on" else "off"
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
        raise UsageError(
            f"--thinking is {text!r}, expected off, on or a number of tokens",
            hint="leave it out for what the model does by itself",
        )

    @property
    def free_text(self) -> FreeText | None:
        """The typed value; None for nothing.

        Raises:
            UsageError: It makes no sense, or is no UTF-8.
            LimitError: Its markers are too many, or too long.
        """
        after = tuple(require_utf8(text, "--after") for text in self.after)
        between = self.between
        if between is not None:
            between = (require_utf8(between[0], "--between"), require_utf8(between[1], "--between"))
        if after and between is not None:
            return FreeText(after, between, limits=self.marker_limits)
        return FreeText.joined(
            None,
            after=after or None,
            between=between,
            budget=self.budget,
            regions=self.regions,
            limits=self.marker_limits,
        )
