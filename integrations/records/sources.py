"""Grammars, regular expressions and schemas that records bring, compiled and kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.compilers.cache import CacheLimits
    from cdec.compilers.grammars.definition import GrammarLimits
    from cdec.compilers.kinds import SourceOptions
    from cdec.compilers.schemas.options import SchemaLimits, SchemaOptions

WHITESPACE = 8
"""Longest run of blanks that a grammar ignores, where nobody asks for another."""


@dataclass(frozen=True)
class RecordSources:
    """Compilation and storage of the texts that records bring.

    Attributes:
        options: What a text is compiled with, by the field of records that it stands in.
        limits: Of what is kept.
    """

    options: Mapping[str, SourceOptions[Any]]
    limits: CacheLimits

    @classmethod
    def of(
        cls,
        *,
        grammar_limits: GrammarLimits | None = None,
        schemas: SchemaOptions | None = None,
        max_whitespace: int | None = WHITESPACE,
        kept: CacheLimits | None = None,
    ) -> RecordSources:
        """Return the options for all kinds of texts.

        Args:
            grammar_limits: What compiling one text may cost.
            schemas: How a schema is read.
            max_whitespace: Longest run of blanks, in schemas and grammars; None for any.
            kept: Of constraints kept compiled; None: 64 of them, 1 GiB.

        Raises:
            UsageError: A value out of bounds.
        """
        from cdec.compilers.cache import CacheLimits
        from cdec.compilers.grammars.definition import GrammarLimits
        from cdec.compilers.grammars.options import GrammarOptions, regex_options
        from cdec.compilers.schemas.options import MAX_RUN, SchemaOptions

        limits = grammar_limits or GrammarLimits()
        grammars = GrammarOptions(
            limits=limits, max_whitespace=max_whitespace, precompute=0, name="field 'grammar'"
        )
        patterns = regex_options(limits=limits, name="field 'regex'", precompute=0)
        read = dataclasses.replace(
            schemas or SchemaOptions(),
            max_whitespace=MAX_RUN if max_whitespace is None else min(max_whitespace, MAX_RUN),
            limits=_schema_limits(limits),
            name="field 'schema'",
        )
        sources = {"grammar": grammars, "regex": patterns, "schema": read}
        return cls(sources, kept or CacheLimits())


def _schema_limits(given: GrammarLimits) -> SchemaLimits:
    """Return the limits on schemas: those on grammars of the same name that are not the usual."""
    from cdec.compilers.grammars.definition import GrammarLimits
    from cdec.compilers.schemas.options import SchemaLimits

    usual = GrammarLimits()
    known = {declared.name for declared in dataclasses.fields(SchemaLimits)}
    values = {
        declared.name: getattr(given, declared.name)
        for declared in dataclasses.fields(given)
        if declared.name in known
    }
    return SchemaLimits(
        **{name: value for name, value in values.items() if value != getattr(usual, name)}
    )
