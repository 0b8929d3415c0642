"""read_grammar: bytes or text in some dialect -> Grammar."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Lexer
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import UNNAMED, Dialect
from cdec.core.errors import CdecError, EncodingError, LimitError, UsageError
from cdec.core.grammars.errors import GrammarSyntaxError


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


def decode_source(text: bytes | str, limits: GrammarLimits) -> str:
    """Return a grammar's text without byte order mark, its line ends as line feeds.

    Args:
        text: The source.
        limits: Limits.

    Returns:
        The text.

    Raises:
        EncodingError: Bytes that are no UTF-8, a lone surrogate in a string.
        GrammarSyntaxError: A NUL byte.
        LimitError: More bytes than ``max_grammar_bytes``.
    """
    if len(text) > limits.max_grammar_bytes:
        raise _too_long(len(text), limits)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > limits.max_grammar_bytes:
        raise _too_long(len(data), limits)
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"line {line}: byte {error.start + 1} of the grammar is not valid UTF-8",
            hint="save the grammar as UTF-8",
            line=line,
            byte_offset=error.start + 1,
        ) from None
    source = source.removeprefix("\ufeff").replace("\r\n", "\n")
    zero = source.find("\0")
    if zero >= 0:
        line = source.count("\n", 0, zero) + 1
        column = zero - source.rfind("\n", 0, zero)
        raise GrammarSyntaxError(
            f"line {line}, column {column}: a NUL byte",
            hint="write it as \\x00 inside a literal",
            line=line,
            column=column,
        )
    return source


def _too_long(size: int, limits: GrammarLimits) -> LimitError:
    return LimitError(
        f"the grammar has {size:,} bytes, the limit is {limits.max_grammar_bytes:,}",
        hint="raise `max_grammar_bytes`",
        limit="max_grammar_bytes",
    )
