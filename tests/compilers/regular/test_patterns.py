"""Patterns as automata: the texts in which ``re.search`` finds them."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cdec.compilers.regular.automaton import everything, nothing
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.strings import Strings
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import RegexSyntaxError, RegexUnsupportedError
from tests.laws.sizes import heavy_or

ATOMS = ["a", "b", ".", "[ab]", "[^a]", "", "é", r"\w", r"\d", r"\s", "^", "$", r"\b", "(?i:B)"]
LOOKS = ["(?=a)", "(?!b)", "(?<=a)", "(?<!b)", "(?=.b)", "(?!.*a)"]
TEXTS = st.lists(st.text("aabBé1 \n", max_size=6), min_size=20, max_size=20)


def _patterns(atoms: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(inner, st.sampled_from("*+?")).map(lambda p: f"(?:{p[0]}){p[1]}"),
        ),
        max_leaves=6,
    )


def _by_re(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # ``$`` of JSON Schema is the end alone.
        return re.compile(pattern.replace("$", r"\Z"))


@settings(max_examples=heavy_or(20, 2000), deadline=None)
@given(_patterns(ATOMS), TEXTS)
def test_a_pattern_holds_the_texts_in_which_re_finds_it(pattern: str, texts: list[str]) -> None:
    expected = [bool(_by_re(pattern).search(text)) for text in texts]
    assert pattern_automaton(pattern).accepted(texts).tolist() == expected


@settings(max_examples=heavy_or(20, 1000), deadline=None)
@given(_patterns([*ATOMS[:6], *LOOKS]), TEXTS)
def test_look_around_is_followed_as_re_does(pattern: str, texts: list[str]) -> None:
    try:
        found = pattern_automaton(pattern)
    except RegexUnsupportedError:
        assume(False)
    expected = [bool(_by_re(pattern).search(text)) for text in texts]
    assert found.accepted(texts).tolist() == expected


@settings(max_examples=heavy_or(20, 1000), deadline=None)
@given(_patterns(ATOMS), TEXTS)
def test_whole_texts_are_those_of_fullmatch(pattern: str, texts: list[str]) -> None:
    expected = [bool(_by_re(pattern).fullmatch(text)) for text in texts]
    found = pattern_automaton(pattern, search=False)
    assert found.accepted(texts).tolist() == expected


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"^\u{1F600}$", "😀", "😁"),
        (r"^\uD83D\uDE00$", "😀", "\U0001f601"),
        (r"^\cA$", "\x01", "A"),
        (r"^\/\-$", "/-", "/"),
        (r"^\p{Lu}\P{L}$", "É1", "é1"),
        (r"^\p{Letter}$", "ж", "1"),
        (r"^[\p{Nd}_]+$", "٣_", "a"),
        (r"^(?<year>\d+)$", "1999", "a"),
        (r"^(?i:straße)$", "STRAßE", "strasse"),
        ("^a$", "a", "a\n"),
        (r"^\w+$", "ñandú", "a b"),
    ],
)
def test_what_ecma_writes_is_understood(pattern: str, inside: str, outside: str) -> None:
    assert inside in Strings.pattern(pattern)
    assert outside not in Strings.pattern(pattern)


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?P<x>a)(?P=x)", "(?>a)b", "a++", r"\p{Greek}"])
def test_what_is_not_regular_is_refused(pattern: str) -> None:
    with pytest.raises(RegexUnsupportedError):
        Strings.pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{3,2}", "*", r"\8", "a)|(b"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(RegexSyntaxError):
        Strings.pattern(pattern)


def test_a_message_says_where_a_pattern_goes_wrong() -> None:
    with pytest.raises(
        RegexSyntaxError, match=r"^pattern 'ab\[c' is no .* at position 2$"
    ) as raised:
        Strings.pattern("ab[c")
    assert raised.value.details["position"] == 2


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){30}", "a{99999999}"])
def test_patterns_that_would_grow_without_bound_end_in_a_limit(pattern: str) -> None:
    with pytest.raises(LimitError):
        Strings.pattern(pattern)


def test_equal_sets_of_texts_are_one_value() -> None:
    assert pattern_automaton("^(a|b)+$") == pattern_automaton("^[ab][ab]*$")
    assert pattern_automaton(".*") is everything()
    assert pattern_automaton(r"^a\bb$") is nothing()
    assert (pattern_automaton("a") | ~pattern_automaton("a")) is everything()
    assert (pattern_automaton("^a*$") - pattern_automaton("b")) == pattern_automaton("^a*$")
