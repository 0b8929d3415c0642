"""Small grammars and vocabularies for tests of the engine, compiled in memory."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import PRECOMPUTE, GrammarOptions
from cdec.core.grammars.columns import arrays_from
from cdec.core.grammars.engine import Engine
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.grammars.session import GrammarSession
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.engine.plain_engine import PlainEngine

JSON = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "null"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"[^"]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
WS: / +/
%ignore WS
"""
RANGE = 'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/\n'
COMMENTS = (
    'start: (ID "/" ID ";")+\nID: /[a-z]+/\nC: "/*" /(.|\\n)*?/ "*/"\n%ignore C\n%ignore " "\n'
)
KEYWORDS = 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore " "\n'

LEXED = {
    "json": (JSON, ['{"', '"}', "],", '": ', '","', "[[", "]]", "12", ".5", "true", '": "', "  "]),
    "range": (RANGE, ["1..2", "..", "1.", ".2", "2.."]),
    "leftmost": ('start: A "b"* "c"\nA: /a|ab/\n', ["ab", "bb", "bc", "abb"]),
    "right": ('start: "a" start | "b"\n', ["aa", "ab", "aab"]),
    "comments": (COMMENTS, ["/*", "*/", "a/", "/b", "; ", "a/b;", "/* a */"]),
    "keywords": (KEYWORDS, ["if ", "ifa", "then", "if a then", "a t"]),
    "nested": ("start: X+\nX: /x(.*y)?/\n", ["xx", "xy", "xxy"]),
    "empty": ('start: ("a" | "b" "b")*\n', ["ab", "bb", "abb"]),
}
"""Name -> grammar and tokens of several bytes, for the lexing modes."""

GENERAL = {
    "json": LEXED["json"],
    "overlap": ("start: A B\nA: /ab*/\nB: /bc?/\n", ["ab", "bb", "bc"]),
    "comments": LEXED["comments"],
    "keywords": LEXED["keywords"],
    "ambiguous": ('start: start start | "a"\n', ["aa", "aaa"]),
    "palindromes": (
        'start: "a" start "a" | "b" start "b" | "a" | "b"\n',
        ["aa", "ab", "ba", "aba"],
    ),
    "cycle": ('start: a\na: b | "x" | a a\nb: a\n', ["xx"]),
    "nullable": ('start: a b c\na: "x"?\nb: a a\nc: b "y"?\n', ["xx", "xy"]),
    "hidden": ('start: a start "x" | "y"\na: "z"?\n', ["yx", "zy", "zz", "xx"]),
    "expression": (
        'start: e\ne: e "+" e | e "*" e | "(" e ")" | N\nN: /[0-9]+/\n',
        ["1+", "((", "))", "+(", "12"],
    ),
}
"""The same for ``dynamic``."""


@lru_cache(maxsize=8)
def byte_vocabulary(extra: tuple[str, ...] = (), width: int | None = None) -> Vocabulary:
    """Return all single bytes, some longer tokens, one of them twice, and two end ids."""
    tokens = [bytes([value]) for value in range(256)] + [text.encode() for text in extra]
    tokens += [tokens[-1], b"", b""]
    ends = [len(tokens) - 2, len(tokens) - 1]
    return Vocabulary(tokens, ends, ends, width=width)


def constraint_of(
    grammar: str,
    vocabulary: Vocabulary,
    lexer: str | None = None,
    *,
    precompute: int = PRECOMPUTE,
    limits: GrammarLimits | None = None,
    **options: Any,
) -> GrammarConstraint:
    """Compile a grammar in memory."""
    arrays, metadata, _ = build_grammar(
        grammar,
        vocabulary,
        GrammarOptions(
            lexer=lexer,  # type: ignore[arg-type]
            precompute=precompute,
            limits=limits or GrammarLimits(),
        ),
        Path("unwritten.arrow"),
    )
    return GrammarConstraint(arrays_from(arrays), vocabulary, metadata, **options)


def case(name: str, lexer: str) -> GrammarConstraint:
    """Return a named grammar's constraint."""
    grammar, extra = (GENERAL if lexer == "dynamic" else LEXED)[name]
    return constraint_of(grammar, byte_vocabulary(tuple(extra), 300), lexer)


def plain_engine(constraint: GrammarConstraint) -> PlainEngine:
    """Return the plain reference of a constraint."""
    return PlainEngine(
        constraint.arrays,
        constraint.lexer == "dynamic",
        constraint.vocabulary.eos_token_ids,
        constraint.lookahead,
    )


def walk(session: Any, text: bytes) -> int:
    """Return the state after a text, byte by byte; every byte must be allowed."""
    state = session.start(1)
    for i, byte in enumerate(text):
        state = session.advance(state, np.array([byte]))
        assert state[0] >= 0, f"byte {i} of {text[:80]!r} is refused"
    return int(state[0])


def session_with(constraint: GrammarConstraint, **engine_options: Any) -> GrammarSession:
    """Return a session over an engine of its own, made with other numbers than usual."""
    engine = Engine(
        constraint.arrays,
        general=constraint.lexer == "dynamic",
        end_ids=constraint.vocabulary.eos_token_ids,
        lookahead=constraint.lookahead,
        **engine_options,
    )
    return GrammarSession(engine, constraint.vocabulary.width)
