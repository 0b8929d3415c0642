"""The command that compiles an artifact again, for the tokenizer of another model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.kinds import command_of
from cdec.core.errors import TokenizerMismatchError

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary


def bind_for(file: ArtifactFile, vocabulary: Vocabulary | None) -> StoredConstraint:
    """Open a verified artifact for a model's vocabulary.

    Raises:
        TokenizerMismatchError: It was compiled for another one; the hint is what to type.
    """
    from cdec.core.artifacts.opened import bind_artifact

    try:
        return bind_artifact(file, vocabulary)
    except TokenizerMismatchError as error:
        if not isinstance(file.path, Path):
            raise  # nobody knows where it should be written
        name = vocabulary.name if vocabulary is not None else ""
        again = recompiling(file.path, bind_artifact(file).summary(), name or "MODEL")
        error.hint = error.hint if again is None else f"compile it again: {again}"
        raise


def recompiling(path: Path, described: Mapping[str, Any], tokenizer: str) -> str | None:
    """Return the command that writes an artifact again; None where nobody knows it.

    Args:
        path: Of the artifact, which is replaced.
        described: What it says of itself: its source and the options that made it.
        tokenizer: Of the model that it shall fit.
    """
    command = command_of(described)
    if command is None:
        return None
    tail = ["--tokenizer", tokenizer, "-o", str(path), "--force"]
    return f"{command.again(path, described)} {shlex.join(tail)}"
