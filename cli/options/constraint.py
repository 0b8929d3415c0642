"""Options of what texts are held to: an artifact, what narrows it, free text before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options.shared import (
    CONSTRAINT,
    LIMITS,
    PROMPTS,
    CopyOption,
    LookaheadOption,
    require_utf8,
)
from cdec.core.combine.free.free_text import BUDGET, REGIONS, FreeText, MarkerLimits
from cdec.core.files.remote import Place


@dataclass(frozen=True, kw_only=True)
class ArtifactOptions(CommonOptions):
    """The artifact, by an option; ``cdec run`` takes it by its place."""

    artifact: Annotated[
        Place | None,
        Declared(
            "The constraint of records that name none, by path or URL; that of cdec.toml, or the "
            "only one in this folder, if not given.",
            CONSTRAINT,
            metavar="ARTIFACT",
            common=True,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions(CommonOptions):
    """Further artifacts, and what becomes of an artifact before texts are held to it."""

    constraint: Annotated[
        list[str],
        Declared(
            "Artifact that prompt records name in their `constraint` field; repeatable.",
            CONSTRAINT,
            metavar="NAME=ARTIFACT",
        ),
    ] = field(default_factory=list)
    deny: Annotated[
        Path | None,
        Declared(
            "Texts that are not allowed, one a line; the artifact stays as it is.",
            CONSTRAINT,
            metavar="FILE",
            common=True,
        ),
    ] = None
    conjoined: Annotated[
        list[Place],
        Declared(
            "Set or grammar that whole texts (a set's leading space, prefix and suffix "
            "included) must satisfy as well; repeatable.",
            CONSTRAINT,
            metavar="ARTIFACT",
        ),
    ] = field(default_factory=list)
    copy: CopyOption = False
    lookahead: LookaheadOption = None
    prefill: Annotated[
        str | None,
        Declared(
            "Begun answer that texts continue, within the constraint; the last message of a "
            "record's `messages`, if it is the assistant's, or its `prefill` wins.",
            PROMPTS,
            metavar="TEXT",
            decides=True,
        ),
    ] = None
    heal: Annotated[
        bool,
        Declared(
            "Grammars: cut the prompt's last tokens off, as many as one longer token could join, "
            "and let any tokens spell their text.",
            PROMPTS,
            decides=True,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class FreeTextOptions(CommonOptions):
    """Free text before the constraint, or around tagged regions."""

    after: Annotated[
        list[str],
        Declared(
            "The model writes freely up to this text, where the constraint begins; repeatable: the "
            "first to appear counts.",
            CONSTRAINT,
            metavar="TEXT",
            decides=True,
        ),
    ] = field(default_factory=list)
    between: Annotated[
        tuple[str, str] | None,
        Declared(
            "The constraint holds between these two texts, as often as the model writes them.",
            CONSTRAINT,
            metavar="BEGIN END",
            decides=True,
        ),
    ] = None
    budget: Annotated[
        int | None,
        Declared(
            "Most tokens of free text; then, or where the text ends before, the model is forced "
            "into the text of --after (or of a region that --regions asks for).",
            CONSTRAINT,
            metavar="TOKENS",
            at_least=BUDGET.at_least,
            decides=True,
        ),
    ] = None
    regions: Annotated[
        int | None,
        Declared(
            "With --between: fewest regions; 0 if not given.",
            CONSTRAINT,
            metavar="N",
            at_least=REGIONS.at_least,
            decides=True,
        ),
    ] = None

    marker_limits: Annotated[MarkerLimits, Limits(LIMITS)] = field(default_factory=MarkerLimits)

    @property
    def free_text(self) -> FreeText | None:
        """What was typed; None for nothing.

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
