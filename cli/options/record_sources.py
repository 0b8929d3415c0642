"""The options about grammars and the like that records bring, and what these are compiled with."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, parameters_of
from cdec.cli.frame.registry import COMMANDS, options_class_of
from cdec.cli.frame.spellings import flag_of
from cdec.cli.options import shared
from cdec.cli.options.grammar_limits import GrammarLimitOptions, parse_whitespace
from cdec.cli.options.prompts import BatchFileOptions
from cdec.cli.options.schemas import SchemaReadingOptions
from cdec.core.errors import UsageError
from cdec.integrations.records.sources import RecordSources


@dataclass(frozen=True, kw_only=True)
class RecordSourceOptions(SchemaReadingOptions, GrammarLimitOptions):
    """Options about the grammars and schemas of records, and what compiling one may cost."""

    grammar_cache: Annotated[
        int,
        Declared(
            "Grammars, schemas and candidates of records that are kept compiled.",
            shared.CONSTRAINT,
            metavar="N",
            at_least=1,
            at_most=math.inf,
        ),
    ] = 64
    grammar_cache_size: Annotated[
        str,
        Declared(
            "Most bytes of what is kept compiled of records.", shared.CONSTRAINT, metavar="SIZE"
        ),
    ] = "1GiB"


def record_sources(options: RecordSourceOptions | None = None) -> RecordSources:
    """Return how the texts of records are compiled, as typed; None for the defaults.

    Raises:
        UsageError: A value out of bounds.
    """
    options = options or RecordSourceOptions()
    return RecordSources.of(
        grammar_limits=options.grammar_limits,
        lenient=options.lenient,
        property_order=options.property_order,
        whitespace=options.whitespace,
        max_whitespace=parse_whitespace(options),
        escapes=options.escapes,
        formats=options.formats,
        numbers=options.numbers,
        kept=options.grammar_cache,
        kept_bytes=shared.parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1,
    )


_SOURCES: Mapping[type[CommonOptions], tuple[str, ...]] = {
    SchemaReadingOptions: ("schema",),
    GrammarLimitOptions: ("grammar", "regex", "schema"),
    RecordSourceOptions: ("grammar", "regex", "schema", "candidates"),
}
"""Fields of records that the options of a class are about; those of its bases have their own."""


@cache
def source_fields() -> Mapping[str, tuple[str, ...]]:
    """Return, for each option about what records bring, the fields that it is about."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(parameters_of(CommonOptions), ())
    for owner, fields in _SOURCES.items():
        found = dict.fromkeys(parameters_of(owner), fields) | found
    return {name: fields for name, fields in found.items() if fields}


def sourceless(typed: frozenset[str], brought: Collection[str]) -> list[str]:
    """Return the options that were typed and are about nothing that records bring.

    Args:
        typed: Options that stood on the command line.
        brought: Fields that records have.
    """
    about = source_fields()
    return sorted(n for n in typed if n in about and not set(about[n]).intersection(brought))


def said_of_sourceless(names: Collection[str]) -> str:
    """Return what options are about: ``--whitespace is about a schema that a record brings``."""
    *others, last = dict.fromkeys(field for name in names for field in source_fields()[name])
    what = f"{', '.join(others)} or {last}" if others else last
    verb = "are" if len(names) > 1 else "is"
    return f"{', '.join(map(flag_of, names))} {verb} about a {what} that a record brings"


def check_record_sources(options: BatchFileOptions, typed: frozenset[str]) -> None:
    """Refuse options about what records bring, where none can bring it.

    Args:
        options: Where records come from.
        typed: Options that stood on the command line.

    Raises:
        UsageError: One was typed.
    """
    if options.has_texts:
        names, why = sourceless(typed, ()), "a prompt that is typed brings none"
    elif options.openai_batch:
        names, why = sourceless(typed, options.allow), "--allow lets requests bring none"
    else:
        return
    if names:
        raise UsageError(
            f"{said_of_sourceless(names)}, and {why}", hint=f"leave it out{_instead(names)}"
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
