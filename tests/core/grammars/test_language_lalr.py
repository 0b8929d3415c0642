"""The language of ``contextual`` and ``basic`` is that of lark's LALR lexers, text by text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark
import numpy as np
import pytest

from cdec.core.errors import CdecError
from cdec.core.grammars.errors import EmptyLanguageError
from tests.core.grammars.walks import accepts, alive_bytes
from tests.laws.grammar_cases import AWKWARD, byte_vocabulary, compiled, random_grammar, texts_over

EMPTY_UNDER_LEXING = ("ambiguous",)
"""Grammars whose first terminal always swallows what the second one needs."""


def lark_accepts(parser: Any, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_accept_what_lark_accepts(name: str, lexer: str, tmp_path: Path) -> None:
    source, texts = AWKWARD[name]
    parser = lark.Lark(source, parser="lalr", lexer=lexer)
    try:
        constraint = compiled(source, tmp_path, lexer=lexer)
    except EmptyLanguageError:
        assert name in EMPTY_UNDER_LEXING and not any(lark_accepts(parser, t) for t in texts)
        return
    session = constraint.session("cpu")
    rng = np.random.default_rng(0)
    for text in texts + [text[:-1] for text in texts] + [text + "a" for text in texts]:
        expected = lark_accepts(parser, text)
        for _ in range(4):
            assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text


CORNERS = {
    "a rule that never ends competes": ('start: "a" "b" | x | "c"\nx: "ab" x\n', "abc", {"c"}),
    "an ignored keyword of another expression": (
        'start: A "b" " "? | "c"\nA: /a| /\n%ignore " "\n',
        "abc ",
        {"c", "c ", "ab", "ab ", " ab", "a b"},
    ),
    "an ignored keyword that a rule names": (
        'start: T | U+ "b"\nU.2: " " | /[^ab ]/\nT: /b*[a b]/\n%ignore " "\n%ignore "b"\n',
        "ab ",
        {" ", "  b", "bb"},
    ),
    "a terminal that nothing uses can be empty": (
        'start: "a"\nx: Z y\ny: x | "q"\nZ: /z*/\n',
        "az",
        {"a"},
    ),
}


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_of_larks_lexer_are_kept(name: str, lexer: str, tmp_path: Path) -> None:
    source, letters, _ = CORNERS[name]
    try:
        parser = lark.Lark(source, parser="lalr", lexer=lexer)
    except lark.exceptions.LexError:
        with pytest.raises(CdecError):
            compiled(source, tmp_path, lexer=lexer)
        return
    session = compiled(source, tmp_path, lexer=lexer).session("cpu")
    members = {text for text in texts_over(letters, 4) if lark_accepts(parser, text)}
    assert members
    assert members == {t for t in texts_over(letters, 4) if accepts(session, t.encode())}
    for text in members:
        for end in range(len(text) + 1):
            assert alive_bytes(session, text[:end].encode()), (text, end)


def test_shifts_towards_rules_that_never_end_are_not_allowed(tmp_path: Path) -> None:
    source = 'start: "a" "q" | x | "c"\nx: y x\ny: "ab" | "d"\n'
    constraint = compiled(source, tmp_path, lexer="contextual")
    session = constraint.session("cpu")
    assert constraint.is_sound
    assert alive_bytes(session, b"c") and not alive_bytes(session, b"d")


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("part", range(4))
def test_random_grammars_accept_what_lark_accepts(part: int, lexer: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([part, len(lexer)])
    compared = 0
    for _ in range(60):
        source = random_grammar(rng, nullable=True)
        try:
            parser = lark.Lark(source, parser="lalr", lexer=lexer)
        except (lark.exceptions.LarkError, AssertionError):
            continue
        try:
            constraint = compiled(source, tmp_path, lexer=lexer)
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", (error.code, error.message, source)
            assert not any(lark_accepts(parser, text) for text in texts_over("abc", 6)), source
            continue
        compared += 1
        assert_same_language(constraint, parser, source)
    assert compared >= 5


def assert_same_language(constraint: Any, parser: Any, source: str) -> None:
    session = constraint.session("cpu")
    members = set()
    for text in texts_over("abc", 5):
        expected = lark_accepts(parser, text)
        assert accepts(session, text.encode()) == expected, (text, source)
        if expected:
            members.add(text)
    for text in members:
        for end in range(len(text) + 1):
            assert alive_bytes(session, text[:end].encode()), (text, end, source)


def test_vocabulary_of_the_tests_has_every_byte() -> None:
    tokens = byte_vocabulary().token_bytes
    assert all(tokens[byte] == bytes([byte]) for byte in range(256))
