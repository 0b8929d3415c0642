"""Verifying the artifacts that were typed; a tree of prefixes is told by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cdec.core.errors import ArtifactVersionError, CdecError, UsageError

if TYPE_CHECKING:
    from cdec.core.artifacts.kinds import ArtifactFile


def read_artifact(path: Path) -> ArtifactFile:
    """Map and verify the artifact of a constraint.

    Raises:
        UsageError: It is what ``--tree`` keeps.
        CdecError: It is missing or damaged.
    """
    from cdec.core.artifacts import kinds as artifact

    try:
        return artifact.read_artifact(path)
    except ArtifactVersionError:
        _refuse_tree(path)
        raise


def _refuse_tree(path: Path) -> None:
    """Refuse a tree of prefixes, which is kept as an artifact is.

    Raises:
        UsageError: It is one.
    """
    from cdec.core.artifacts.read import ArtifactLimits, map_verified
    from cdec.samplers.learning.saved.file import KINDS

    try:
        tree = map_verified(path, KINDS, ArtifactLimits())
    except CdecError:
        return
    raise UsageError(
        f"{path} is no constraint: it is a tree that --tree kept, "
        f"{len(tree.arrays['parent']):,} prefixes that the draws of one record have met",
        hint="give it to --tree of cdec sample or cdec mass, with that record's model, prompt and "
        "artifact",
    )
