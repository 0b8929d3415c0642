"""Options of grammars and schemas that records bring, and what compiling one may cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.declaration import (
    NumberOrWord,
    flag_of,
    group,
    limits,
    option,
    parameters_of,
)
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.cli.options import shared
from cdec.cli.options.prompts import BatchFileOptions, PromptOptions
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import MAX_WHITESPACE
from cdec.compilers.schemas.options import (
    Escapes,
    Formats,
    NumberRange,
    PropertyOrder,
    SchemaLimits,
    SchemaOptions,
    Whitespace,
)
from cdec.core.errors import UsageError
from cdec.core.grammars.blanks import MAX_RUN
from cdec.integrations.records.sources import RecordSources

if TYPE_CHECKING:
    from cdec.core.schemas.references import Reference


@dataclass(frozen=True, kw_only=True)
class GrammarLimitOptions:
    """Limits of a compilation, and of the blanks that a grammar ignores."""

    max_whitespace: NumberOrWord = option(
        NumberOrWord(MAX_WHITESPACE),
        "Longest run of blanks that a grammar ignores: N on a line, N line breaks, 4N of "
        "indentation; 0 for none at all, `none` for any number.",
        shared.CONSTRAINT,
        metavar="N",
        decides=True,
    )

    grammar_limits: GrammarLimits = limits(GrammarLimits(), shared.LIMITS)


def parse_whitespace(options: GrammarLimitOptions) -> int | None:
    """Return the longest run of blanks; None for any.

    Raises:
        UsageError: Neither a number nor ``none``.
    """
    text = options.max_whitespace
    if text in ("none", "inf"):
        return None
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_RUN)):
        return int(text)
    raise UsageError(
        f"--max-whitespace is {str(text)!r}, expected a number from 0 to {MAX_RUN:,}, or none",
        hint=f"leave it out for {MAX_WHITESPACE}",
    )


@dataclass(frozen=True, kw_only=True)
class SchemaReadingOptions:
    """Meaning of a JSON Schema where the standard leaves it open or masks cannot hold it."""

    lenient: bool = option(
        False,
        "Where masks cannot enforce a keyword of a JSON Schema, record it (`unenforced`) and "
        "go on, instead of refusing the schema.",
        shared.CONSTRAINT,
        decides=True,
        common=True,
    )
    property_order: PropertyOrder = option(
        "any",
        "Order of an object's properties: any, or as the schema declares them.",
        shared.CONSTRAINT,
        decides=True,
        common=True,
    )
    whitespace: Whitespace = option(
        "usual",
        "White space of JSON: as writers have it, any, none, or lines indented by 2 blanks.",
        shared.CONSTRAINT,
        decides=True,
        common=True,
    )
    escapes: Escapes = option(
        "usual",
        "Escapes in JSON texts: those that writers have (usual: of printable ASCII only "
        "quotes and backslashes are escaped), or any.",
        shared.CONSTRAINT,
        decides=True,
    )
    formats: Formats = option(
        "enforce",
        "Whether `format` is enforced, or only an annotation.",
        shared.CONSTRAINT,
        decides=True,
    )
    numbers: NumberRange = option(
        "finite",
        "Numbers of JSON texts: those that doubles can hold, neither infinite nor taken for 0, "
        "or any.",
        shared.CONSTRAINT,
        decides=True,
    )
    refs: list[str] = option(
        [],
        "Document that JSON Schemas may refer to by URL, from FILE; may be repeated. Nothing is "
        "fetched.",
        shared.CONSTRAINT,
        metavar="URL=FILE",
        decides=True,
    )
    ref_dir: list[Path] = option(
        [],
        "Folder of such documents, found by $id and by file name; may be repeated.",
        shared.CONSTRAINT,
        metavar="DIR",
        decides=True,
    )


def read_references(options: SchemaReadingOptions, limits: SchemaLimits) -> tuple[Reference, ...]:
    """Read the documents that schemas may refer to, as typed.

    Raises:
        UsageError: What stands behind ``refs`` is no URL=FILE.
        CdecError: A document cannot be read.
    """
    if not options.refs and not options.ref_dir:
        return ()
    from cdec.compilers.schemas.references import references_of

    return references_of([*map(_document, options.refs), *options.ref_dir], limits)


def schema_options(
    options: SchemaReadingOptions, references: tuple[Reference, ...], **more: Any
) -> SchemaOptions:
    """Return what schemas are compiled with, as typed.

    Args:
        options: Typed.
        references: As ``read_references`` gives them.
        more: Further fields of ``SchemaOptions``.
    """
    return SchemaOptions(
        lenient=options.lenient,
        property_order=options.property_order,
        whitespace=options.whitespace,
        escapes=options.escapes,
        formats=options.formats,
        numbers=options.numbers,
        references=references,
        **more,
    )


pinned_sets_option = partial(
    option,
    [],
    "Set that alone may be given by this name: the digest of the artifact is recorded, and another "
    "one is refused. Of other names any set may be given. Repeatable.",
    shared.CONSTRAINT,
    metavar="NAME=ARTIFACT",
)


def pinned_sets(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return names and digests of the sets that an artifact is to know again.

    Raises:
        UsageError: A ``--set`` that is no NAME=ARTIFACT, or no set.
        CdecError: A file is missing or damaged.
    """
    if not pairs:
        return ()
    from cdec.core.sets.within import digests_of

    return digests_of(shared.parse_pairs(pairs, "--set"))


def _document(text: str) -> dict[str, Path]:
    uri, _, file = text.rpartition("=")
    if not uri or not file:
        raise UsageError(
            f"--ref is {text!r}, expected URL=FILE",
            hint="write for example --ref https://example.org/item.json=item.json",
        )
    return {uri: Path(file)}


@dataclass(frozen=True, kw_only=True)
class RecordSourceOptions:
    """Options about the grammars and schemas of records, and what compiling one may cost."""

    grammars: GrammarLimitOptions = group(GrammarLimitOptions)
    schemas: SchemaReadingOptions = group(SchemaReadingOptions)
    grammar_cache: int = option(
        64,
        "Grammars, schemas and candidates of records that are kept compiled.",
        shared.CONSTRAINT,
        metavar="N",
        at_least=1,
        at_most=math.inf,
    )
    grammar_cache_size: str = option(
        "1GiB", "Most bytes of what is kept compiled of records.", shared.CONSTRAINT, metavar="SIZE"
    )


def record_sources(options: RecordSourceOptions | None = None) -> RecordSources:
    """Return how the texts of records are compiled, as typed; None for the defaults.

    Raises:
        UsageError: A value out of bounds.
    """
    # Declarations of options, which help shows, load no arrays.
    from cdec.compilers.cache import CacheLimits

    options = options or RecordSourceOptions()
    max_whitespace = parse_whitespace(options.grammars)
    kept_bytes = shared.parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1
    return RecordSources.of(
        grammar_limits=options.grammars.grammar_limits,
        schemas=schema_options(options.schemas, read_references(options.schemas, SchemaLimits())),
        max_whitespace=max_whitespace,
        kept=CacheLimits(options.grammar_cache, kept_bytes),
    )


_SOURCES: Mapping[type[Any], tuple[str, ...]] = {
    SchemaReadingOptions: ("schema", "--schema"),
    GrammarLimitOptions: ("grammar", "regex", "schema", "--grammar", "--regex", "--schema"),
    RecordSourceOptions: ("grammar", "regex", "schema", "candidates"),
}
"""Fields of records, and options, whose sources the options of a class are about; those of its
groups have their own."""


@cache
def source_fields() -> Mapping[str, tuple[str, ...]]:
    """Return, for each option about sources, the fields and options that it is about."""
    found: dict[str, tuple[str, ...]] = {}
    for owner, fields in _SOURCES.items():
        found = dict.fromkeys(parameters_of(owner), fields) | found
    return found


def unused_source_options(typed: frozenset[str], brought: Collection[str]) -> list[str]:
    """Return the options that were typed and are about nothing that records bring.

    Args:
        typed: Options that stood on the command line.
        brought: Fields that records have, and options that give a source.
    """
    about = source_fields()
    return sorted(n for n in typed if n in about and not set(about[n]).intersection(brought))


def described_unused(names: Collection[str]) -> str:
    """Return what options are about: ``--whitespace is about a schema that a record brings``."""
    about = dict.fromkeys(field for name in names for field in source_fields()[name])
    *others, last = (field for field in about if not field.startswith("--"))
    what = f"{', '.join(others)} or {last}" if others else last
    verb = "are" if len(names) > 1 else "is"
    return f"{', '.join(map(flag_of, names))} {verb} about a {what} that a record brings"


def check_record_sources(
    prompts: PromptOptions,
    batch: BatchFileOptions,
    flags: Sequence[str],
    typed: frozenset[str],
) -> None:
    """Refuse options about sources where neither a record nor the command line can bring any."""
    if prompts.has_texts:
        brought, why = [*flags], "a prompt that is typed brings none"
    elif batch.openai_batch:
        brought, why = [*flags, *batch.allow], "--allow lets requests bring none"
    else:
        return
    names = unused_source_options(typed, brought)
    if names:
        raise UsageError(
            f"{described_unused(names)}, and {why}", hint=f"leave it out{_instead(names)}"
        )


def _instead(names: Collection[str]) -> str:
    """Return the commands that take the same options: an artifact is as it was compiled."""
    commands = [
        f"cdec {command}"
        for command in COMMANDS
        if command.startswith("compile-")
        and set(names) <= parameters_of(options_class_of(command)).keys()
    ]
    about = f"; an artifact is as it was compiled, so give it to {' or '.join(commands)}"
    return about if commands else ""
