"""How the limited child compiles grammars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdec.compilers.child.source import SourceKind
from cdec.compilers.grammars.compile import build_grammar, compile_with
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

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


GRAMMARS = SourceKind(
    options=GrammarOptions,
    compile=compile_with,
    warm_up=_compile_first,
    settle=_make_tables,
    prepare=TokenTrie.of,
)
REGEXES = replace(GRAMMARS, warm_up=_compile_first_regex, settle=_make_tables_of_regexes)
