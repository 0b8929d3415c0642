"""read_grammar: bytes or text in some dialect -> Grammar."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdec.compilers.grammars.decoding import decode_source
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Lexer
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import UNNAMED, Dialect
from cdec.core.errors import CdecError, UsageError


def read_grammar(
    text: bytes | str,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    dialect: Dialect = "auto",
    limits: GrammarLimits = GrammarLimits(),
    import_folder: Path | None = None,
    name: str = UNNAMED,
) -> Grammar:
    """Read a grammar.

    Args:
        text: UTF-8, perhaps with a byte order mark; line ends of either kind.
        start: The start rule; None for the dialect's usual name.
        lexer: Overrides what the dialect chooses.
        dialect: ``lark``, ``ebnf`` or ``gbnf`` (both ``::=``); ``auto`` is ``lark``, with a hint
            where the text looks like the other.
        limits: Limits.
        import_folder: Where ``%import`` may read files; None: only Lark's own grammars.
        name: Of the source, for messages.

    Returns:
        The grammar as written: ``analyse`` comes next.

    Raises:
        GrammarError: What is wrong, with line and column where they are known.
        EncodingError: Bytes that are no UTF-8.
        LimitError: A limit is passed.
        UsageError: An unknown dialect.
    """
    try:
        source = decode_source(text, limits)
        if dialect in ("ebnf", "gbnf"):
            from cdec.compilers.grammars.ebnf.read import read_ebnf

            grammar = read_ebnf(source, start=start, limits=limits)
        elif dialect in ("auto", "lark"):
            grammar = read_lark(source, start=start, limits=limits, import_folder=import_folder)
        else:
            raise UsageError(
                f"there is no grammar dialect {dialect!r}",
                hint="give `dialect` auto, lark, ebnf or gbnf",
            )
    except CdecError as error:
        if name != UNNAMED:
            error.details.setdefault("path", name)
        raise
    return grammar if lexer is None else replace(grammar, lexer=lexer)
