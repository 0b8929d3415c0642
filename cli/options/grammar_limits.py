"""The options that bound what compiling a grammar may cost, as the compiler declares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared, Limits, NumberOrWord
from cdec.cli.options import shared
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import MAX_WHITESPACE
from cdec.core.errors import UsageError
from cdec.core.grammars.blanks import MAX_RUN


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
