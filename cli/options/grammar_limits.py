"""The options that bound what compiling a grammar may cost, as the compiler declares them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits
from cdec.cli.options import shared
from cdec.compilers.grammars.definition import GrammarLimits

if TYPE_CHECKING:
    from cdec.compilers.grammars.child.cache import CacheLimits


@dataclass(frozen=True, kw_only=True)
class GrammarLimitOptions(CommonOptions):
    """Limits of a compilation."""

    grammar_limits: Annotated[GrammarLimits, Limits(shared.LIMITS)] = field(
        default_factory=GrammarLimits
    )


@dataclass(frozen=True, kw_only=True)
class RecordGrammarOptions(GrammarLimitOptions):
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


def cache_limits(options: RecordGrammarOptions) -> CacheLimits:
    """Return the limits on the grammars of records.

    Raises:
        UsageError: The size is none.
    """
    from cdec.compilers.grammars.child.cache import CacheLimits

    size = shared.parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1
    return CacheLimits(options.grammar_limits, options.grammar_cache, size)
