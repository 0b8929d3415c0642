"""Patterns that are no regular expressions, or not regular: the right error at the right line."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from cdec.compilers.grammars.automata.terminal import compile_terminal
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import RegexSyntaxError, RegexUnsupportedError
from tests.compilers.grammars.scanner.lexing import LIMITS, automaton, expression, last_end


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        (r"(a)\1", "back-reference"),
        (r"(?P<q>['\"]).*(?P=q)", "back-reference"),
        ("(a)?(?(1)b|c)", "conditional"),
        ("a*+", "possessive"),
        ("(?>a|ab)c", "atomic group"),
        (r"(?:(?:a(?:b|c(?<=\bc))*)+)", "look-around"),
    ],
)
def test_irregular_pattern_is_refused_by_feature_and_line(pattern: str, feature: str) -> None:
    terminal = replace(expression(pattern, "THING"), line=7, column=3)
    with pytest.raises(RegexUnsupportedError) as caught:
        compile_terminal(terminal, prioritised=True, limits=LIMITS)
    assert caught.value.details == {"feature": feature, "name": "THING", "line": 7, "column": 3}
    assert "THING (line 7)" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "pattern", ["(", "a)", "[", "a{5,0}", "*", "(?P<1>a)", "[z-a]", "a**", "\\"]
)
def test_broken_pattern_is_a_syntax_error(pattern: str) -> None:
    with pytest.raises(RegexSyntaxError) as caught:
        automaton(pattern)
    assert caught.value.details["name"] == "A"


def test_deep_brackets_are_a_limit_not_a_crash() -> None:
    for pattern in ("(" * 30_000 + "a" + ")" * 30_000, "(?#[)" + "(" * 9000 + "a" + ")" * 9000):
        with pytest.raises(LimitError) as caught:
            automaton(pattern)
        assert caught.value.details["limit"] == "max_nesting"


def test_brackets_within_the_limit_compile_and_leave_python_as_it_was() -> None:
    before = sys.getrecursionlimit()
    compiled = automaton("(?:" * 480 + "a" + ")*" * 480)
    assert last_end(compiled, b"aaa") == 3
    assert sys.getrecursionlimit() == before


def test_brackets_in_classes_and_escapes_do_not_nest() -> None:
    assert last_end(automaton(r"[(]\(" * 600), b"((" * 600) == 1200


def test_large_counts_are_refused_by_name() -> None:
    for pattern in ("a{11}", "a{2,11}", "a{11,}"):
        with pytest.raises(LimitError) as caught:
            compile_terminal(
                expression(pattern), prioritised=True, limits=GrammarLimits(max_repeat=10)
            )
        assert caught.value.details["limit"] == "max_repeat"


def test_nested_counts_stop_at_the_limit_of_states() -> None:
    with pytest.raises(LimitError) as caught:
        compile_terminal(
            expression("(?:(?:a{1,1000}){1,1000}){1,1000}"),
            prioritised=True,
            limits=GrammarLimits(max_states=20_000),
        )
    assert caught.value.details["limit"] == "max_states"
