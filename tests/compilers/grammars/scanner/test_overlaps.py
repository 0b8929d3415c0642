"""Overlapping terminals are divided into parts; the language stays, and tokens split less often."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.parser_choice import choose_parser
from cdec.compilers.grammars.source import read_grammar
from tests.compilers.grammars.parser.char_earley import accepts as reference_accepts
from tests.core.grammars.walks import accepts
from tests.laws.grammar_cases import compiled, texts_over

EQUAL = 'start: f+\nf: A ("!" f)? | B ("?" f)?\nA: /[ab]+/\nB: /[ab]+/\n'
CROSSING = 'start: (A "!" | B "?" | C)+\nA: /a+b*/\nB: /a*b+/\nC: /(ab)+/\n'
WITH_EMPTY = 'start: A "!" B\nA: /a*/\nB: /[ab]*/\n'
NESTED = 'start: (A | "!" B | "?" C)+\nA: /[ab]+/\nB: /a+/\nC: /a+b/\n'
SOURCES = {"equal": EQUAL, "crossing": CROSSING, "empty": WITH_EMPTY, "nested": NESTED}


@pytest.mark.parametrize("name", SOURCES)
def test_divided_terminals_mean_the_same(name: str, tmp_path: Path) -> None:
    grammar = read_grammar(SOURCES[name], GrammarOptions(lexer="dynamic"))
    constraint = compiled(SOURCES[name], tmp_path, lexer="dynamic")
    session, verdicts = constraint.session("cpu"), set()
    for text in texts_over("ab!?", 5):
        expected = reference_accepts(grammar, text)
        verdicts.add(expected)
        assert accepts(session, text.encode()) == constraint.accepts(text.encode()) == expected
    assert verdicts == {True, False}


@pytest.mark.parametrize("name", SOURCES)
def test_no_two_terminals_in_use_share_infinitely_many_texts(name: str) -> None:
    grammar = read_grammar(SOURCES[name], GrammarOptions(lexer="dynamic"))
    chosen = choose_parser(grammar, "dynamic", GrammarLimits())
    used = {symbol for rule in chosen.tables.rules for symbol in rule.rhs if symbol >= 0}
    assert used.isdisjoint(chosen.grammar.refused)
    for text in texts_over("ab", 6):
        matching = [t for t in used if text and _matches(chosen.automata[t], text.encode())]
        assert len(matching) <= 1, (text, matching)


def test_names_of_parts_say_which_terminals_match(tmp_path: Path) -> None:
    constraint = compiled(EQUAL, tmp_path, lexer="dynamic")
    assert "A|B" in constraint.names.terminals


def _matches(automaton: object, text: bytes) -> bool:
    state = 0
    for byte in text:
        state = int(automaton.delta[state, byte])  # type: ignore[attr-defined]
        if state < 0:
            return False
    return bool(automaton.accepting[state])  # type: ignore[attr-defined]
