"""The table of kinds of source: where each is opened, compiled and verified, typed and shown.

A new kind is its constraint, its compiler and a row here; and a command, if it is to have one.
Places are ``module:name`` and imported when they are first asked for, so that nobody who works
with one kind loads another, and ``core`` nothing of what stands on it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Places:
    """Modules that deal with one kind of source; "" where it is not.

    Attributes:
        constraint: Class that artifacts open as, check and explain texts with: a
            ``StoredConstraint``.
        artifact: The kind of artifact that it is compiled to, where that is another one's.
        compiler: ``SourceKind``: compiles a source, verifies an artifact.
        command: ``CompileCommand``: shows reports and artifacts; its module reads a source.
        summary: One line of what that command does.
        in_place: ``(Source, Run) -> ArtifactFile``: compiles a source that a command was given in
            the place of an artifact, or opens what was made of it before.
    """

    constraint: str = ""
    _: KW_ONLY
    artifact: str = ""
    compiler: str = ""
    command: str = ""
    summary: str = ""
    in_place: str = ""


SOURCE_KINDS: dict[str, Places] = {
    "set": Places(
        "cdec.core.sets.set_constraint:SetConstraint",
        compiler="cdec.compilers.sets.kind:SETS",
        command="cdec.cli.compile_set:SETS",
        summary="Compile a list of entities into an artifact.",
        in_place="cdec.cli.in_place:open_set",
    ),
    "grammar": Places(
        "cdec.core.grammars.grammar_constraint:GrammarConstraint",
        compiler="cdec.compilers.grammars.kind:GRAMMARS",
        command="cdec.cli.compile_grammar:GRAMMARS",
        summary="Compile a grammar into an artifact.",
        in_place="cdec.cli.in_place:open_grammar",
    ),
    "regex": Places(
        artifact="grammar",
        compiler="cdec.compilers.grammars.kind:REGEXES",
        command="cdec.cli.compile_regex:REGEXES",
        summary="Compile a regular expression into an artifact.",
        in_place="cdec.cli.in_place:open_regex",
    ),
    "schema": Places(
        "cdec.core.schemas.schema_constraint:SchemaConstraint",
        compiler="cdec.compilers.schemas.kind:SCHEMAS",
        command="cdec.cli.compile_schema:SCHEMAS",
        summary="Compile JSON Schemas into artifacts.",
        in_place="cdec.cli.in_place:open_schema",
    ),
    "spans": Places(
        "cdec.core.sets.corpus:CorpusConstraint",
        compiler="cdec.compilers.sets.corpus:SPANS",
        command="cdec.cli.compile_spans:SPANS",
        summary="Compile documents into an artifact of their pieces.",
        in_place="cdec.cli.in_place:open_spans",
    ),
}
"""Every kind of source by its name; those with a ``constraint`` are the kinds of artifact."""

CALLS = "cdec.cli.runs.calls:checked_calls"
"""``(Options, Run) -> Constraint``: of calls of tools, which ``check`` compiles for one run."""


def artifact_kinds() -> list[str]:
    """Return the kinds of artifact that this version reads."""
    return [name for name, places in SOURCE_KINDS.items() if places.constraint]


def found(place: str) -> Any:
    """Return what stands at a place."""
    module, name = place.split(":")
    return getattr(import_module(module), name)
