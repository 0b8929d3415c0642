"""The scanner against lark's lexer: the same tokens, keywords and priorities."""

from __future__ import annotations

import random

import pytest
from lark import Lark
from lark.exceptions import LarkError, LexError, UnexpectedCharacters

from tests.compilers.grammars.scanner.lexing import (
    EXPRESSIONS,
    LITERALS,
    PIECES,
    from_lark,
    scanner_of,
    tokens,
)


def _random_lark(rng: random.Random) -> str:
    """Write a grammar of a few terminals with priorities, some ignored."""
    patterns = rng.sample(EXPRESSIONS, rng.randint(1, 4)) + rng.sample(LITERALS, rng.randint(0, 4))
    names = rng.sample("ABCDEFGHIJKL", len(patterns))
    lines = [f"start: ({'|'.join(names)})*"]
    for name, pattern in zip(names, patterns, strict=True):
        lines.append(f"{name}{rng.choice(['', '', '', '.1', '.2', '.-1'])}: {pattern}")
    lines.extend(f"%ignore {name}" for name in names if rng.random() < 0.12)
    return "\n".join(lines) + "\n"


def _lark_tokens(lark: Lark, text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    try:
        found.extend((token.type, str(token)) for token in lark.lex(text))
    except (LexError, UnexpectedCharacters):
        found.append(("", ""))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_scanner_gives_the_tokens_of_lark(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    while compared < 500:
        source = _random_lark(rng)
        try:
            lark = Lark(source, parser="lalr", lexer="basic")
        except LarkError:  # a conflict or a terminal that lark refuses
            continue
        grammar = from_lark(lark)
        scanner = scanner_of(grammar)
        for _ in range(25):
            text = "".join(rng.choices(PIECES, k=rng.randint(0, 7)))
            expected = _lark_tokens(lark, text)
            found = [(name, part if name else "") for name, part in tokens(grammar, scanner, text)]
            assert found == expected, (source, text)
            compared += 1


def _lexed(source: str, text: str) -> list[tuple[str, str]]:
    lark = Lark(source, parser="lalr", lexer="basic")
    grammar = from_lark(lark)
    found = tokens(grammar, scanner_of(grammar), text)
    assert [t for t in found if t[0]] == [t for t in _lark_tokens(lark, text) if t[0]]
    return found


def test_keyword_is_the_whole_text_only() -> None:
    source = 'start: (IF | ID)*\nIF: "if"\nID: /[a-z]+/\n%ignore " "\n'
    assert _lexed(source, "if iff fi if") == [
        ("IF", "if"),
        ("ID", "iff"),
        ("ID", "fi"),
        ("IF", "if"),
    ]


def test_keyword_without_case_is_matched_without_case() -> None:
    source = 'start: (IF | ID)*\nIF: "if"i\nID: /[a-z]+/i\n%ignore " "\n'
    assert _lexed(source, "IF iF ifs") == [("IF", "IF"), ("IF", "iF"), ("ID", "ifs")]


def test_keyword_with_flags_of_its_own_also_competes() -> None:
    source = 'start: (IF | ID)*\nIF: "if"i\nID: /[a-z]+/\n%ignore " "\n'
    assert _lexed(source, "if IF") == [("IF", "if"), ("IF", "IF")]


def test_earlier_alternative_wins_over_a_longer_one() -> None:
    source = "start: (A | B)*\nA: /a|ab/\nB: /b/\n"
    assert _lexed(source, "ab") == [("A", "a"), ("B", "b")]


def test_higher_priority_wins_over_a_longer_text() -> None:
    source = "start: (A | B)*\nA.2: /a/\nB: /[a-z]+/\n"
    assert _lexed(source, "ab") == [("A", "a"), ("B", "b")]
