"""The language of ``dynamic`` is the character-level language of the rules: every segmentation."""

from __future__ import annotations

from pathlib import Path

import lark
import numpy as np
import pytest

from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.errors import CdecError
from tests.compilers.grammars.parser.char_earley import accepts as reference_accepts
from tests.core.grammars.walks import accepts, alive_bytes
from tests.laws.grammar_cases import AWKWARD, compiled, random_grammar, texts_over


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_grammars_accept_every_segmentation(name: str, tmp_path: Path) -> None:
    source, texts = AWKWARD[name]
    grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
    constraint = compiled(source, tmp_path, lexer="dynamic")
    session = constraint.session("cpu")
    rng = np.random.default_rng(1)
    complete = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    for text in texts + [text[:-1] for text in texts] + [text + "a" for text in texts]:
        expected = reference_accepts(grammar, text)
        for _ in range(4):
            assert accepts(session, text.encode(), constraint.vocabulary, rng) == expected, text
        try:
            complete.parse(text)
        except lark.exceptions.LarkError:
            continue
        assert expected, f"lark's dynamic_complete accepts {text!r}"


READ_BOTH_WAYS = {
    "one": ('start: T0 "a" | "c" T0* T1?\nT0: /b(c|a)/\nT1: /a+/\n%ignore "c"\n', "abc", 5),
    "between": ('start: WORD (COMMENT WORD)*\nWORD: "a"\nCOMMENT: "#"\n%ignore COMMENT\n', "a#", 6),
    "only": ('start: S S?\nS: /b+/\nR: "a"\n%ignore S\n%ignore R\n', "ab", 5),
    "empty": ('start: "a" S\nS: /c*/\n%ignore S\n', "ac", 5),
}


@pytest.mark.parametrize("name", READ_BOTH_WAYS)
def test_an_ignored_terminal_of_a_rule_is_read_and_dropped(name: str, tmp_path: Path) -> None:
    source, letters, longest = READ_BOTH_WAYS[name]
    grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
    constraint = compiled(source, tmp_path, lexer="dynamic")
    session = constraint.session("cpu")
    verdicts = set()
    for text in texts_over(letters, longest):
        expected = reference_accepts(grammar, text)
        verdicts.add(expected)
        assert accepts(session, text.encode()) == constraint.accepts(text.encode()) == expected, (
            text
        )
    assert verdicts == {True, False}


@pytest.mark.parametrize("part", range(4))
def test_random_grammars_accept_every_segmentation(part: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([part, 9])
    compared = 0
    for _ in range(30):
        source = random_grammar(rng, nullable=True)
        try:
            grammar = read_grammar(source, GrammarOptions(lexer="dynamic"))
            constraint = compiled(source, tmp_path, lexer="dynamic")
        except CdecError as error:
            assert error.code in ("E_EMPTY_LANGUAGE", "E_GRAMMAR_EMPTY_TERMINAL"), error.message
            continue
        compared += 1
        session = constraint.session("cpu")
        assert constraint.is_sound
        expected = {text for text in texts_over("abc", 4) if reference_accepts(grammar, text)}
        for text in texts_over("abc", 4):
            assert accepts(session, text.encode()) == (text in expected), (text, source)
        for text in expected:
            for end in range(len(text) + 1):
                assert alive_bytes(session, text[:end].encode()), (text, end, source)
    assert compared >= 5
