"""The options that bound what compiling a grammar may cost, as the compiler declares them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits, NumberOrWord
from cdec.cli.options import shared
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import MAX_WHITESPACE
from cdec.core.errors import UsageError
from cdec.core.grammars.blanks import MAX_RUN

if TYPE_CHECKING:
    from cdec.compilers.grammars.child.cache import CacheLimits


@dataclass(frozen=True, kw_only=True)
class GrammarLimitOptions(CommonOptions):
    """Limits of a compilation, and of the blanks that a grammar ignores."""

    max_whitespace: Annotated[
        NumberOrWord,
        Declared(
            "Longest run of blanks that a grammar ignores: N on a line, N line breaks, 4N of "
            "indentation; 0 for none at all, `none` for any number.",
            shared.CONSTRAINT,
            metavar="N",
            decides=True,
        ),
    ] = field(default_factory=lambda: NumberOrWord(MAX_WHITESPACE))

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
    return CacheLimits(
        options.grammar_limits, options.grammar_cache, size, parse_whitespace(options)
    )


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
