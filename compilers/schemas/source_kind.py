"""How the limited child compiles JSON Schemas."""

from __future__ import annotations

from pathlib import Path

from cdec.compilers.child.source import SourceKind
from cdec.compilers.schemas.compile import build_schema, compile_with
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.tokens.vocabulary import Vocabulary

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


def _nothing(vocabulary: Vocabulary) -> None:
    """Make nothing of a vocabulary: compiling a schema does not look at it."""


SCHEMAS = SourceKind(
    options=SchemaOptions,
    compile=compile_with,
    warm_up=_load,
    settle=_compile_first,
    prepare=_nothing,
)
