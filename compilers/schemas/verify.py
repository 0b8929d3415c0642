"""verify_schema: a schema's artifact, held against its stored source compiled again."""

from __future__ import annotations

import json
from dataclasses import replace
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
    # What was compiled before there was an option has any.
    options = {"escapes": "any", "numbers": "any"} | json.loads(file.metadata["cdec.options"])
    said = {"cdec.options": json.dumps(options, sort_keys=True)}
    file = replace(file, metadata=file.metadata | said)
    again = SchemaOptions(
        lenient=options["lenient"],
        property_order=options["property_order"],
        whitespace=options["whitespace"],
        max_whitespace=options["max_whitespace"],
        escapes=options["escapes"],
        formats=options["formats"],
        numbers=options["numbers"],
        name=file.metadata.get("cdec.source", ""),
    )
    return compiled_again(file, file.metadata["cdec.schema"], again, progress)
