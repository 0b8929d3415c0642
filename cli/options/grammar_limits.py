"""The options that bound what compiling a grammar may cost; the defaults are the compiler's."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cdec.cli.frame.declaration import CommonOptions, Declared
from cdec.cli.options import shared

if TYPE_CHECKING:
    from cdec.compilers import GrammarLimits


@dataclass(frozen=True, kw_only=True)
class GrammarLimitOptions(CommonOptions):
    """Limits of a compilation, each with the default of ``GrammarLimits``."""

    max_grammar_bytes: Annotated[
        int | None,
        Declared(
            "Longest grammar text, bytes; 4 MiB if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    max_rules: Annotated[
        int | None,
        Declared(
            "Most rules, once repetitions are written out; 50000 if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    max_nesting: Annotated[
        int | None,
        Declared(
            "Brackets within brackets; 500 if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    max_repeat: Annotated[
        int | None,
        Declared(
            "Largest count of a repetition; 100000 if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    max_states: Annotated[
        int | None,
        Declared(
            "Most states of scanner or parser; 500000 if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    max_tree_nodes: Annotated[
        int | None,
        Declared(
            "Most nodes of all subterminal trees; 20 million if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None
    seconds: Annotated[
        float | None,
        Declared("CPU seconds for one grammar; 300 if not given.", shared.LIMITS, at_least=0.1),
    ] = None
    megabytes: Annotated[
        int | None,
        Declared(
            "Memory for one grammar; 4096 if not given.",
            shared.LIMITS,
            at_least=1,
            at_most=math.inf,
        ),
    ] = None


def grammar_limits(options: GrammarLimitOptions) -> GrammarLimits:
    """Return the compiler's limits with what was given in their place."""
    from cdec.compilers import GrammarLimits

    names = [field.name for field in dataclasses.fields(GrammarLimits)]
    given = {name: getattr(options, name) for name in names}
    return GrammarLimits(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class RecordGrammarOptions(GrammarLimitOptions):
    """Options about the grammars of records, and what compiling one may cost."""

    grammar_cache: Annotated[
        int,
        Declared(
            "Grammars of records that are kept compiled.",
            shared.CONSTRAINT,
            metavar="N",
            at_least=1,
            at_most=math.inf,
        ),
    ] = 64
    grammar_cache_size: Annotated[
        str,
        Declared("Most bytes of grammars kept compiled.", shared.CONSTRAINT, metavar="SIZE"),
    ] = "1GiB"
