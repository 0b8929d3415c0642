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
    from cdec.compilers.schemas.options import (
        Escapes,
        Formats,
        NumberRange,
        PropertyOrder,
        SchemaLimits,
        Whitespace,
    )

KEPT, KEPT_BYTES = 64, 1 << 30
"""Constraints of records that are kept compiled, and their bytes."""
WHITESPACE = 8
"""Longest run of blanks that a grammar ignores, where nobody asks for another."""


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
    def of(
        cls,
        *,
        grammar_limits: GrammarLimits | None = None,
        lenient: bool = False,
        property_order: PropertyOrder = "any",
        whitespace: Whitespace = "usual",
        max_whitespace: int | None = WHITESPACE,
        escapes: Escapes = "usual",
        formats: Formats = "enforce",
        numbers: NumberRange = "finite",
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
    ) -> RecordSources:
        """Return the options for all kinds of texts.

        Args:
            grammar_limits: What compiling one text may cost.
            lenient: As in ``SchemaOptions``, like ``property_order``, ``whitespace``, ``formats``.
            property_order: As there.
            whitespace: As there.
            max_whitespace: Longest run of blanks, in schemas and grammars; None for any.
            escapes: As there.
            formats: As there.
            numbers: As there.
            kept: Constraints kept compiled.
            kept_bytes: Most bytes of them together.

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
        schemas = SchemaOptions(
            lenient=lenient,
            property_order=property_order,
            whitespace=whitespace,
            max_whitespace=MAX_RUN if max_whitespace is None else min(max_whitespace, MAX_RUN),
            escapes=escapes,
            formats=formats,
            numbers=numbers,
            limits=_schema_limits(limits),
            name="field 'schema'",
        )
        sources = {"grammar": grammars, "regex": patterns, "schema": schemas}
        return cls(sources, CacheLimits(kept, kept_bytes))


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
