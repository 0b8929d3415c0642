"""Grammars read in the dialect that their options name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from cdec.compilers.grammars.decoding import decode_source, decode_text
from cdec.compilers.grammars.definition import Grammar
from cdec.compilers.grammars.options import UNNAMED, GrammarOptions
from cdec.compilers.grammars.regex import read_regex
from cdec.core.errors import CdecError
from cdec.core.grammars.indenter import Indenter


def read_grammar(
    text: bytes | str,
    options: GrammarOptions = GrammarOptions(),
    apart: Collection[str] = (),
) -> Grammar:
    """Read a grammar in the dialect that the options name.

    Args:
        text: UTF-8, perhaps with a byte order mark; line ends of either kind.
        options: All are used; of ``limits`` those of the text and its rules.
        apart: Names of ``::=`` rules that stay rules, though they are regular.

    Returns:
        The grammar as written: ``analyse`` comes next.

    Raises:
        GrammarError: What is wrong, with line and column where they are known.
        EncodingError: Bytes that are no UTF-8.
        LimitError: A limit is passed.
    """
    with naming_source(options):
        grammar = _read(text, options, apart)
    return grammar if options.lexer is None else replace(grammar, lexer=options.lexer)


@contextmanager
def naming_source(options: GrammarOptions) -> Iterator[None]:
    """Let errors say which source they are about, if the options name it."""
    try:
        yield
    except CdecError as error:
        if options.name != UNNAMED:
            error.details.setdefault("path", options.name)
        raise


def _read(text: bytes | str, options: GrammarOptions, apart: Collection[str]) -> Grammar:
    start, limits = options.start, options.limits
    if options.format == "regex":
        return read_regex(
            decode_text(text, limits),
            limits,
            conjoined=[decode_text(other, limits) for other in options.conjoined],
            denied=[decode_text(other, limits) for other in options.deny_regex],
        )
    source = decode_source(text, limits)
    if options.format in ("ebnf", "gbnf"):
        from cdec.compilers.grammars.ebnf.read import read_ebnf  # lark texts need none of it

        return read_ebnf(source, start=start, limits=limits, apart=apart)
    from cdec.compilers.grammars.lark.source import read_lark  # lark is for its texts alone

    folder = options.allow_imports
    indenter = None if options.indenter is None else Indenter.parse(options.indenter)
    return read_lark(source, start=start, limits=limits, allow_imports=folder, indenter=indenter)
