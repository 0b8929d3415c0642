"""How the limited child compiles grammars."""

from __future__ import annotations

from pathlib import Path

from cdec.compilers.child.source import SourceKind
from cdec.compilers.grammars.compile import build_grammar, compile_with
from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.report import GrammarReport
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

_FIRST_GRAMMAR = r"""
start: A (B | "=" C | start)
A: "ab"
B: /\w+/i
C: /[^\n]{1,30}/
%import common.WS
%ignore WS
"""
"""Touches what is made at its first use: lark's own grammar, case tables, tables that grow."""


def _compile_first() -> None:
    """Compile a small grammar, so that every kernel is loaded."""
    tokens = [bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary([*tokens, b"ab", b""], [257])
    lexers: tuple[Lexer, ...] = ("contextual", "dynamic")
    for lexer in lexers:
        build_grammar(_FIRST_GRAMMAR, vocabulary, GrammarOptions(lexer=lexer), Path("first"))


GRAMMARS = SourceKind(
    options=GrammarOptions,
    report=GrammarReport,
    compile=compile_with,
    warm_up=_compile_first,
    prepare=TokenTrie.of,
)
