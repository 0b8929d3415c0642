"""Regular expressions of terminals: what they contain; the one look-behind that is rewritten."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from cdec.compilers.grammars.automata.pattern_checks import (
    bracket_depth,
    examine,
    without_look_behind,
)
from cdec.compilers.grammars.lark.source import read_lark

STRINGS = [
    r'".*?(?<!\\)(\\\\)*?"',
    r"'.*?(?<!\\)(\\\\)*?'",
    r"""(".*?(?<!\\)(\\\\)*?"|'.*?(?<!\\)(\\\\)*?')""",
    r'a?""".*?(?<!\\)(\\\\)*?"""',
]


@pytest.mark.parametrize("pattern", STRINGS)
@pytest.mark.parametrize("flag", [re.NOFLAG, re.DOTALL])
def test_the_rewritten_string_matches_what_the_look_behind_matches(
    pattern: str, flag: re.RegexFlag
) -> None:
    rewritten = without_look_behind(pattern, flag is re.DOTALL)
    assert examine(rewritten).features == ()
    texts = ["".join(t) for n in range(6) for t in itertools.product('"\\a\n', repeat=n)]
    generator = random.Random(0)
    texts += ["".join(generator.choices("\"'\\\\a\n", k=14)) for _ in range(2000)]
    for text in texts:
        for quoted in (text, '"' + text, "'" + text):
            expected, found = re.match(pattern, quoted, flag), re.match(rewritten, quoted, flag)
            assert (expected and expected.end()) == (found and found.end()), quoted
            expected = re.fullmatch(pattern, quoted, flag)
            assert bool(expected) == bool(re.fullmatch(rewritten, quoted, flag)), quoted


@pytest.mark.parametrize(
    "pattern",
    [
        r".*?(?<!\\)(\\\\)*?",
        r"[^x].*?(?<!\\)(\\\\)*?x",
        r'"(?!"").*?(?<!\\)(\\\\)*?"',
        r'(?s:a)".*?(?<!\\)(\\\\)*?"',
        r'[".*?(?<!\\)(\\\\)*?]".*?(?<!\\)(\\\\)*?"',
    ],
)
def test_other_look_behinds_are_left_as_they_are(pattern: str) -> None:
    assert without_look_behind(pattern, False) == pattern


def test_the_strings_of_larks_common_grammar_are_read() -> None:
    (terminal,) = read_lark("%import common.ESCAPED_STRING\nstart: ESCAPED_STRING\n").terminals
    for text in ('"a"', '""', '"\\""', '"\\\\"', '"a\\', '"\\"', '"a\n"'):
        match = re.match(terminal.pattern, text)
        assert (match is not None) == (text in ('"a"', '""', '"\\""', '"\\\\"')), text


@pytest.mark.parametrize(
    ("pattern", "features"),
    [
        ("a(b|c)*?[d-f]{2,3}", ()),
        ("(?=a)a", ("look-around",)),
        ("(?<!a)b|(?!c)d", ("look-around", "look-around")),
        (r"(a)\1", ("back-reference",)),
        (r"(?P<x>a)(?P=x)", ("back-reference",)),
        (r"(a)?(?(1)b|c)", ("conditional group",)),
        ("^a", ("anchor",)),
        (r"a\b", ("anchor",)),
        ("(?>a+)b", ("atomic group",)),
        ("a*+b", ("possessive quantifier",)),
        ("((a|(?:b(?=c))+)*)", ("look-around",)),
    ],
)
def test_constructs_that_are_not_regular_are_found(pattern: str, features: tuple[str]) -> None:
    assert examine(pattern).features == features


def test_counts_are_found_wherever_they_stand() -> None:
    assert examine("(a|b{7,}(c{3,9})*){2}").largest_count == 9
    assert examine("a*b+?").largest_count == 1


def test_brackets_are_counted_outside_of_classes_and_escapes() -> None:
    assert bracket_depth(r"((a)[((]\(b(c(d)))") == 3
