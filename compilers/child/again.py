"""An artifact held against its stored source, compiled again in a limited process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdec.compilers.child.compiler import ChildCompiler
from cdec.compilers.comparison import Comparison
from cdec.core.artifacts.digest import DIGEST_KEY
from cdec.core.artifacts.kinds import KINDS, bind_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import MADE_FROM_KEY
from cdec.core.errors import CdecError
from cdec.core.files.scratch import scratch_folder
from cdec.core.progress import Progress

if TYPE_CHECKING:
    from cdec.compilers.child.source import SourceOptions
    from cdec.core.artifacts.read import ArtifactFile

_UNTOLD = (DIGEST_KEY, MADE_FROM_KEY, "cdec.version")
"""Entries that do not follow from the source: of the file, of what it lay in, of who wrote it."""


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
