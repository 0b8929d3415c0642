"""The options about grammars and the like that records bring, and what these are compiled with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cdec.cli.frame.declaration import Declared
from cdec.cli.options import shared
from cdec.cli.options.grammar_limits import GrammarLimitOptions, parse_whitespace

if TYPE_CHECKING:
    from cdec.compilers.child.cache import CacheLimits
    from cdec.compilers.child.source import SourceOptions


@dataclass(frozen=True, kw_only=True)
class RecordSourceOptions(GrammarLimitOptions):
    """Options about the grammars of records, and what compiling one may cost."""

    grammar_cache: Annotated[
        int,
        Declared(
            "Grammars and candidates of records that are kept compiled.",
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

        options = options or RecordSourceOptions()
        size = shared.parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1
        grammars = GrammarOptions(
            limits=options.grammar_limits,
            max_whitespace=parse_whitespace(options),
            precompute=0,
            name="field 'grammar'",
        )
        patterns = regex_options(limits=options.grammar_limits, name="field 'regex'", precompute=0)
        sources = {"grammar": grammars, "regex": patterns}
        return cls(sources, CacheLimits(options.grammar_cache, size))
