"""JSON Schemas as a kind of source: in the limited child, and verified."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.kinds import SourceKind
from cdec.compilers.schemas.compile import build_schema, compile_with
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.progress import Progress, silent
from cdec.core.schemas.references import from_json
from cdec.core.sets.within import pinned_digests
from cdec.core.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdec.compilers.report import Comparison
    from cdec.core.artifacts.read import ArtifactFile

FIRST_SCHEMA = """{
    "type": "object",
    "properties": {
        "date": {"type": "string", "format": "date"},
        "word": {"allOf": [{"pattern": "a+"}, {"not": {"const": "a"}}], "maxLength": 9},
        "count": {"type": "integer", "minimum": 5, "multipleOf": 3},
        "list": {"type": "array", "items": {"enum": [1, "a", null]}, "contains": {"const": 1}}
    },
    "patternProperties": {"^x": {"type": "number"}},
    "required": ["date"]
}"""
"""Touches what is made at its first use: automata of strings, keys and numbers."""


def _compile_first() -> None:
    """Compile a small schema that uses what many do."""
    _compile(FIRST_SCHEMA)


def _load() -> None:
    """Compile the smallest of schemas, so that modules are loaded."""
    _compile('{"const": 1}')


def _compile(text: str) -> None:
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], [256])
    build_schema(text, vocabulary, SchemaOptions(), Path("first"))


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
    from cdec.compilers.verify import compiled_again

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
        references=from_json(file.metadata.get("cdec.references", "[]")),
        set_digests=tuple(pinned_digests(file.metadata).items()),
        name=file.metadata.get("cdec.source", ""),
    )
    return compiled_again(file, file.metadata["cdec.schema"], again, progress)


SCHEMAS = SourceKind(
    verify=verify_schema,
    options=SchemaOptions,
    compile=compile_with,
    warm_up=_load,
    settle=_compile_first,
)
