"""The options that bound what compiling a grammar may cost; the defaults are the compiler's."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cdec.cli.frame.command import CommonOptions
from cdec.cli.options import shared
from cdec.cli.options.shared import require_at_least

if TYPE_CHECKING:
    from cdec.compilers import GrammarLimits

_FLAGS = {
    "max_grammar_bytes": "--max-grammar-bytes",
    "max_rules": "--max-rules",
    "max_nesting": "--max-nesting",
    "max_repeat": "--max-repeat",
    "max_states": "--max-states",
    "max_tree_nodes": "--max-tree-nodes",
    "compile_seconds": "--compile-seconds",
    "compile_megabytes": "--compile-megabytes",
}
_FIELDS = {"compile_seconds": "seconds", "compile_megabytes": "megabytes"}


@dataclass(frozen=True, kw_only=True)
class GrammarLimitOptions(CommonOptions):
    """Limits of a compilation, each with the default of ``GrammarLimits``."""

    max_grammar_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-grammar-bytes",
            help="Longest grammar text, bytes; 4 MiB if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    max_rules: Annotated[
        int | None,
        typer.Option(
            "--max-rules",
            help="Most rules, once repetitions are written out; 50000 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    max_nesting: Annotated[
        int | None,
        typer.Option(
            "--max-nesting",
            help="Brackets within brackets; 500 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    max_repeat: Annotated[
        int | None,
        typer.Option(
            "--max-repeat",
            help="Largest count of a repetition; 100000 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    max_states: Annotated[
        int | None,
        typer.Option(
            "--max-states",
            help="Most states of scanner or parser; 500000 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    max_tree_nodes: Annotated[
        int | None,
        typer.Option(
            "--max-tree-nodes",
            help="Most nodes of all subterminal trees; 20 million if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    compile_seconds: Annotated[
        float | None,
        typer.Option(
            "--compile-seconds",
            help="CPU seconds for one grammar; 300 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None
    compile_megabytes: Annotated[
        int | None,
        typer.Option(
            "--compile-megabytes",
            help="Memory for one grammar; 4096 if not given.",
            rich_help_panel=shared.LIMITS,
        ),
    ] = None


def grammar_limits(options: GrammarLimitOptions) -> GrammarLimits:
    """Return the compiler's limits with what was given in their place.

    Raises:
        UsageError: One is out of range.
    """
    from cdec.compilers import GrammarLimits

    given = {}
    for name, flag in _FLAGS.items():
        value = getattr(options, name)
        require_at_least(value, 0.1 if name == "compile_seconds" else 1, flag)
        if value is not None:
            given[_FIELDS.get(name, name)] = value
    return dataclasses.replace(GrammarLimits(), **given)
