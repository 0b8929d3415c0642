"""Regular expressions of terminals: what they contain."""

from __future__ import annotations

import re

import pytest

from cdec.compilers.grammars.automata.pattern_checks import (
    bracket_depth,
    examine,
)
from cdec.compilers.grammars.lark.source import read_lark


def test_the_strings_of_larks_common_grammar_are_read() -> None:
    (terminal,) = read_lark("%import common.ESCAPED_STRING\nstart: ESCAPED_STRING\n").terminals
    for text in ('"a"', '""', '"\\""', '"\\\\"', '"a\\', '"\\"', '"a\n"'):
        match = re.match(terminal.pattern, text)
        assert (match is not None) == (text in ('"a"', '""', '"\\""', '"\\\\"')), text


@pytest.mark.parametrize(
    ("pattern", "features"),
    [
        ("a(b|c)*?[d-f]{2,3}", ()),
        (r"^(?=a)(?<!b)a\b", ()),
        (r"(a)\1", ("back-reference",)),
        (r"(?P<x>a)(?P=x)", ("back-reference",)),
        (r"(a)?(?(1)b|c)", ("conditional group",)),
        ("(?>a+)b", ("atomic group",)),
        ("a*+b", ("possessive quantifier",)),
        (r"((a|(?:b(?=(c)\3))+)*)", ("back-reference",)),
    ],
)
def test_constructs_that_are_not_regular_are_found(pattern: str, features: tuple[str]) -> None:
    assert examine(pattern).features == features


def test_counts_are_found_wherever_they_stand() -> None:
    assert examine("(a|b{7,}(c{3,9})*){2}").largest_count == 9
    assert examine("a*b+?").largest_count == 1


def test_brackets_are_counted_outside_of_classes_and_escapes() -> None:
    assert bracket_depth(r"((a)[((]\(b(c(d)))") == 3
