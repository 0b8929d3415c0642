"""Patterns that look around: what matches, and what only their surroundings decide."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from cdec.core.grammars.errors import RegexUnsupportedError
from tests.compilers.grammars.scanner.lexing import automaton, last_end

CLOSED = [
    r'".*?(?<!\\)(\\\\)*?"',
    r"""(".*?(?<!\\)(\\\\)*?"|'.*?(?<!\\)(\\\\)*?')""",
    r'(?s:b?"".*?(?<!\\)(\\\\)*?"")',
    r'(?:(?!\$\{)(?:[^"\\$]|\\.|\$))+"',
    r"(?!ab)[a-c]{2}",
    r"/\*(?:(?!\*/).)*\*/",
    r"/\*(?:(?!/\*).)*?\*/",
    r"(?:a(?!b)|b(?!a))*c",
    r"(?=a)[ab]c|(?=.c)bc",
    r'(?:(?=(?:a|b(?!c)))[abc])+"',
    r"(?:(?!(?=a)ab).)+?c",
    r"a\b-|b\B.c|\*\ba",
    r"(?m:a$\nb|\n^c)",
    r"(a(?<=a)b?)+c",
    r"c[ab]+(?<!ab)(?:b|(?<=a)c)",
    r"a(?!)|b",
]
"""Nothing before or behind the text decides."""
OPEN = [r'"(?!"").*?(?<!\\)(\\\\)*?"', "a+(?!b)", "a(?=b)", r"\ba", r"a\b", "(?m:^a)", "^a", "a$",
        r"a\Z", r"\Aa", "(?<!a)b", "a(?<=ba)c", "(?:(?!b.*a).)*c", "[^a]+?(?=a)"]  # fmt: skip


@pytest.mark.parametrize("pattern", CLOSED)
def test_a_match_ends_where_python_ends_it(pattern: str) -> None:
    lexed, whole = automaton(pattern), automaton(pattern, prioritised=False)
    assert not lexed.is_open and not whole.is_open
    draw = random.Random(0).sample
    texts = [t for n in range(4) for t in itertools.product("-abc\"'\\$\n{*/", repeat=n)]
    for size in (5, 6, 7):
        texts += itertools.product(draw("-abc\"'\\$\n{*/", 3), repeat=size)
    for letters in texts:
        text = "".join(letters)
        match = re.match(pattern, text)
        assert last_end(lexed, text.encode()) == (match and match.end()), text
        matches = last_end(whole, text.encode()) == len(text)
        assert matches == bool(re.fullmatch(pattern, text)), text


@pytest.mark.parametrize("pattern", OPEN)
def test_a_pattern_that_its_surroundings_decide_is_said_to_be_open(pattern: str) -> None:
    compiled = automaton(pattern)
    assert compiled.is_open
    found = re.search(pattern, "ba", re.M)
    if found and len(found[0]) == 1:
        assert last_end(compiled, found[0].encode()) == 1


def test_look_around_within_a_look_behind_is_refused() -> None:
    with pytest.raises(RegexUnsupportedError) as caught:
        automaton(r"a(?<=\ba)b")
    assert caught.value.details["feature"] == "look-around"
