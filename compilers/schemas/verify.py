"""verify_schema: a schema's artifact, held against its stored source compiled again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdec.compilers.child.again import compiled_again
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.progress import Progress, silent

if TYPE_CHECKING:
    from cdec.compilers.comparison import Comparison
    from cdec.core.artifacts.read import ArtifactFile


def verify_schema(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Compile the stored schema again, with the recorded options, in a limited process.

    Args:
        file: A schema artifact.
        progress: As for ``ChildCompiler.compile``.

    Returns:
        As ``compiled_again``.

    Raises:
        CdecError: The schema does not compile.
    """
    options = json.loads(file.metadata["cdec.options"])
    again = SchemaOptions(
        lenient=options["lenient"],
        property_order=options["property_order"],
        whitespace=options["whitespace"],
        max_whitespace=options["max_whitespace"],
        # What was compiled before there was the option has any.
        escapes=options.get("escapes", "any"),
        formats=options["formats"],
        numbers=options.get("numbers", "any"),
        name=file.metadata.get("cdec.source", ""),
    )
    return compiled_again(file, file.metadata["cdec.schema"], again, progress)
