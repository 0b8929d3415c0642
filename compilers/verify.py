"""Artifacts compiled again from what they hold, and compared: all columns, all metadata.

Opening checks that no contents lead outside of an array. That the tables are the ones of the
source, which the masks stand for, only compiling tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdec.compilers.child.compiler import ChildCompiler
from cdec.compilers.kinds import source_kind
from cdec.compilers.report import Comparison
from cdec.core.artifacts.opened import KINDS, bind_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import DIGEST_KEY, MADE_FROM_KEY
from cdec.core.errors import CdecError, UsageError
from cdec.core.files.whole import scratch_folder
from cdec.core.kinds import SOURCE_KINDS, artifact_kinds
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.compilers.kinds import SourceOptions
    from cdec.core.artifacts.read import ArtifactFile

_UNTOLD = (DIGEST_KEY, MADE_FROM_KEY, "cdec.version")
"""Entries that do not follow from the source: of the file, of what it lay in, of who wrote it."""


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
    known = [name for name in artifact_kinds() if SOURCE_KINDS[name].compiler]
    if file.kind not in known:
        raise UsageError(
            f"a {file.kind} cannot be compiled again from what it holds",
            hint=f"give an artifact of kind {' or '.join(known)}",
        )
    comparison = source_kind(file.kind).verify(file, progress)
    comparison.finish()
    return comparison


def compiled_again(
    file: ArtifactFile, source: str, options: SourceOptions[Any], progress: Progress
) -> Comparison:
    """Compile what an artifact was compiled from, and compare.

    Args:
        file: The artifact.
        source: Its stored source.
        options: As recorded.
        progress: As for ``ChildCompiler.compile``.

    Returns:
        What is the same: all columns, and all of the metadata but for the digest, the version of
        cdec and what the source file was.

    Raises:
        CdecError: The source does not compile.
    """
    vocabulary = bind_artifact(file).vocabulary
    comparison = Comparison(file)
    with (
        scratch_folder() as folder,
        ChildCompiler(options.kind) as child,
    ):
        path = folder / "again.arrow"
        try:
            child.compile(source, vocabulary, path, options, progress=progress)
        except CdecError as error:
            error.message = f"{file.path}: its source cannot be compiled again: {error.message}"
            error.args = (error.message,)
            raise
        compiled = verify_bytes(path.read_bytes(), KINDS)
    comparison.columns(compiled.arrays)
    found = {**dict.fromkeys(file.metadata, ""), **compiled.metadata}
    comparison.entries({name: found[name] for name in found if name not in _UNTOLD})
    return comparison
