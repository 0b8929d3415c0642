"""The options that say what texts are held to: an artifact, and what narrows or adapts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options.shared import CONSTRAINT, PROMPTS, CopyOption, LookaheadOption
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
