"""The options about grammars and the like that records bring, and what these are compiled with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.grammar_limits import GrammarLimitOptions, parse_whitespace
from cdec.cli.options.schemas import SchemaReadingOptions
from cdec.compilers.grammars.definition import GrammarLimits

if TYPE_CHECKING:
    from cdec.compilers.child.cache import CacheLimits
    from cdec.compilers.child.source import SourceOptions
    from cdec.compilers.schemas.options import SchemaLimits


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


@dataclass(frozen=True)
class RecordSources:
    """How the texts that records bring are compiled and kept.

    Attributes:
        options: What a text is compiled with, by the field of records that it stands in.
        limits: Of what is kept.
    """

    options: Mapping[str, SourceOptions[Any]]
    limits: CacheLimits

    @classmethod
    def of(cls, options: RecordSourceOptions | None = None) -> RecordSources:
        """Return what was typed; None for the defaults.

        Raises:
            UsageError: A value out of bounds.
        """
        from cdec.compilers.child.cache import CacheLimits
        from cdec.compilers.grammars.options import GrammarOptions
        from cdec.compilers.grammars.patterns import regex_options
        from cdec.compilers.schemas.options import MAX_RUN, SchemaOptions

        options = options or RecordSourceOptions()
        size = shared.parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1
        run = parse_whitespace(options)
        grammars = GrammarOptions(
            limits=options.grammar_limits,
            max_whitespace=run,
            precompute=0,
            name="field 'grammar'",
        )
        patterns = regex_options(limits=options.grammar_limits, name="field 'regex'", precompute=0)
        schemas = SchemaOptions(
            lenient=options.lenient,
            property_order=options.property_order,
            whitespace=options.whitespace,
            max_whitespace=MAX_RUN if run is None else min(run, MAX_RUN),
            formats=options.formats,
            limits=_schema_limits(options.grammar_limits),
            name="field 'schema'",
        )
        sources = {"grammar": grammars, "regex": patterns, "schema": schemas}
        return cls(sources, CacheLimits(options.grammar_cache, size))


def _schema_limits(typed: GrammarLimits) -> SchemaLimits:
    """Return the limits on schemas: those on grammars of the same name, where they were typed."""
    from cdec.compilers.schemas.options import SchemaLimits

    usual = GrammarLimits()
    known = {declared.name for declared in dataclasses.fields(SchemaLimits)}
    given = {
        declared.name: getattr(typed, declared.name)
        for declared in dataclasses.fields(typed)
        if declared.name in known
    }
    return SchemaLimits(
        **{name: value for name, value in given.items() if value != getattr(usual, name)}
    )
