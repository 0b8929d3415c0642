"""Grammars and regular expressions as kinds of source: in the limited child, and verified."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.grammars.compile import build_grammar, compile_with
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.parser_choice import ASKED_FOR
from cdec.compilers.kinds import SourceKind
from cdec.core.grammars.budgets import with_attributes
from cdec.core.grammars.special import SpecialTokens
from cdec.core.progress import Progress, silent
from cdec.core.sets.within import pinned_digests
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from cdec.compilers.report import Comparison
    from cdec.core.artifacts.read import ArtifactFile

_SMALLEST = "start: A\nA: /a+/\n"
_FIRST_GRAMMAR = r"""
start: A (B | "=" C | start)
A: "ab"
B: /\w+/i
C: /[^\n]{1,30}/
%import common.WS
%ignore WS
"""
"""Touches what is made at its first use: categories and cases of characters, imported grammars."""


def _compile_first() -> None:
    """Compile the smallest of grammars, so that modules and lark's own grammar are loaded."""
    _compile(_SMALLEST, GrammarOptions())


def _make_tables() -> None:
    """Compile a small grammar that uses what many do."""
    lexers: tuple[Lexer, ...] = ("contextual", "dynamic")
    for lexer in lexers:
        _compile(_FIRST_GRAMMAR, GrammarOptions(lexer=lexer))
    _compile("start: A\nA: /a(?!b)/\n", GrammarOptions())
    _compile('root ::= "a"', GrammarOptions(format="ebnf"))


def _compile_first_regex() -> None:
    """Compile a small regular expression."""
    _compile("[a-z]b+", GrammarOptions(format="regex"))


def _make_tables_of_regexes() -> None:
    """Compile a regular expression with categories and cases of characters."""
    _compile(r"\w+(?i:b)", GrammarOptions(format="regex"))


def _compile(text: str, options: GrammarOptions) -> None:
    tokens = [bytes([byte]) for byte in range(256)]
    build_grammar(text, Vocabulary([*tokens, b"ab", b""], [257]), options, Path("first"))


def verify_grammar(file: ArtifactFile, progress: Progress = silent) -> Comparison:
    """Compile the stored source again, with the recorded options, in a limited process.

    Args:
        file: A grammar artifact.
        progress: As for ``ChildCompiler.compile``.

    Returns:
        As ``compiled_again``.

    Raises:
        CdecError: The source does not compile.
    """
    from cdec.compilers.verify import compiled_again

    options = json.loads(file.metadata["cdec.options"])
    asked = options["lexer"] if options["lexer_reason"] == ASKED_FOR else None
    again = GrammarOptions(
        start=options["start"],
        lexer=asked,
        format=options["dialect"],
        max_whitespace=options["max_whitespace"],
        precompute=options.get("precompute", 0),
        indenter=options.get("indenter"),
        conjoined=tuple(options.get("conjoined", ())),
        deny_regex=tuple(options.get("deny_regex", ())),
        set_digests=tuple(pinned_digests(file.metadata).items()),
        name=file.metadata.get("cdec.source", ""),
    )
    stored = SpecialTokens.recorded(file.metadata).as_written(file.metadata["cdec.grammar"])
    source = with_attributes(stored, file.metadata)
    return compiled_again(file, source, again, progress)


GRAMMARS = SourceKind(
    verify=verify_grammar,
    options=GrammarOptions,
    compile=compile_with,
    warm_up=_compile_first,
    settle=_make_tables,
    prepare=TokenTrie.of,
)
REGEXES = replace(GRAMMARS, warm_up=_compile_first_regex, settle=_make_tables_of_regexes)
