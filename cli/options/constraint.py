"""The options that say what texts are held to: an artifact, and what narrows or adapts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options.shared import CONSTRAINT, PROMPTS, LookaheadOption


@dataclass(frozen=True, kw_only=True)
class ArtifactOptions(CommonOptions):
    """The artifact, by an option; ``cdec run`` takes it by its place."""

    artifact: Annotated[
        Path | None,
        typer.Option(
            "--artifact",
            "-a",
            metavar="ARTIFACT",
            help="The constraint of records that name none.",
            rich_help_panel=CONSTRAINT,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions(CommonOptions):
    """Further artifacts, and what becomes of an artifact before texts are held to it."""

    constraint: Annotated[
        list[str],
        typer.Option(
            "--constraint",
            metavar="NAME=ARTIFACT",
            help="Artifact that prompt records name in their `constraint` field; repeatable.",
            rich_help_panel=CONSTRAINT,
        ),
    ] = field(default_factory=list)
    deny: Annotated[
        Path | None,
        typer.Option(
            "--deny",
            metavar="FILE",
            help="Texts that are not allowed, one a line; the artifact stays as it is.",
            rich_help_panel=CONSTRAINT,
        ),
    ] = None
    conjoined: Annotated[
        list[Path],
        typer.Option(
            "--and",
            metavar="ARTIFACT",
            help="Set or grammar that whole texts (a set's leading space, prefix and suffix "
            "included) must satisfy as well; repeatable.",
            rich_help_panel=CONSTRAINT,
        ),
    ] = field(default_factory=list)
    lookahead: LookaheadOption = None
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Grammars: cut the prompt's last token off, and let any tokens spell its text.",
            rich_help_panel=PROMPTS,
        ),
    ] = False
