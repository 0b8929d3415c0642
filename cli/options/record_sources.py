"""The options about grammars and the like that records bring, and what these are compiled with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.grammar_limits import GrammarLimitOptions, parse_whitespace
from cdec.cli.options.schemas import SchemaReadingOptions
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
