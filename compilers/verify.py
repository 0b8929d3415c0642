"""verify_artifact: compile an artifact again from what it holds, and compare everything.

Opening checks that no contents lead outside of an array. That the tables are the ones of the
source, which the masks stand for, only compiling tells. A new kind of artifact is a function in its
compiler's room and a line in ``VERIFIERS``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cdec.core.errors import UsageError
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.compilers.comparison import Comparison
    from cdec.core.artifacts.read import ArtifactFile

VERIFIERS: dict[str, str] = {
    "set": "cdec.compilers.sets.verify:verify_set",
    "grammar": "cdec.compilers.grammars.verify:verify_grammar",
    "schema": "cdec.compilers.schemas.verify:verify_schema",
}
"""Kind of artifact → module and function, imported on first use."""


def verify_artifact(file: ArtifactFile, *, progress: Progress = silent) -> Comparison:
    """Compile an artifact again from its own source or rows, and compare all that follows.

    Args:
        file: As ``read_artifact`` gives it.
        progress: Told when a phase begins.

    Returns:
        What is the same, and what it was compiled from. Cost: that of compiling it; grammars and
        schemas are compiled in a limited process.

    Raises:
        ArtifactInvalidError: It is not what its source compiles to; ``differing`` names the columns
            and entries.
        CdecError: Its source does not compile, or not within the limits.
        UsageError: Artifacts of this kind have no source.
    """
    if file.kind not in VERIFIERS:
        raise UsageError(
            f"a {file.kind} cannot be compiled again from what it holds",
            hint=f"give an artifact of kind {' or '.join(VERIFIERS)}",
        )
    module, name = VERIFIERS[file.kind].split(":")
    comparison: Comparison = vars(importlib.import_module(module))[name](file, progress)
    comparison.finish()
    return comparison
