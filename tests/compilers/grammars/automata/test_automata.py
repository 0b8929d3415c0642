"""Terminals as byte automata: exactly what Python's ``re`` matches."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cdec.compilers.grammars.automata.terminal import compile_terminal, without_empty
from cdec.compilers.grammars.definition import ByteAutomaton, GrammarLimits
from cdec.core.errors import LimitError
from tests.compilers.grammars.scanner.lexing import LIMITS, automaton, expression, last_end, literal

ATOMS = [
    "a",
    "b",
    "c",
    ".",
    "[ab]",
    "[^a]",
    "",
    "é",
    r"\w",
    "(?i:a)",
    "(?s:.)",
    "𝒳",
    r"\s",
    r"[^\W\d]",
]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}", "{2,}?", "{,3}?"]
TEXTS = st.text("aaabbcAé𝒳\n1 ", max_size=7)


def _patterns() -> st.SearchStrategy[str]:
    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(inner, st.sampled_from(QUANTIFIERS)).map(lambda p: f"(?:{p[0]}){p[1]}"),
        )

    return st.recursive(st.sampled_from(ATOMS), larger, max_leaves=6)


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Give up on a text for which the backtracking matcher takes exponential time."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except TimeoutError:
        assume(False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _match_end(pattern: str, text: str) -> int | None:
    match = re.match(pattern, text)
    return None if match is None else len(match.group().encode())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_patterns(), st.lists(TEXTS, min_size=6, max_size=6))
def test_prioritised_automaton_ends_where_python_does(pattern: str, texts: list[str]) -> None:
    compiled = automaton(pattern)
    for text in texts:
        with _patience(0.3):
            expected = _match_end(pattern, text)
        assert last_end(compiled, text.encode()) == expected, text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_patterns(), st.lists(TEXTS, min_size=6, max_size=6))
def test_plain_automaton_accepts_what_python_matches_in_full(
    pattern: str, texts: list[str]
) -> None:
    compiled = automaton(pattern, prioritised=False)
    for text in texts:
        with _patience(0.3):
            expected = re.fullmatch(pattern, text) is not None
        assert (last_end(compiled, text.encode()) == len(text.encode())) == expected, text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:|a)*", "aa"),
        ("(?:|a)+", "aa"),
        ("(?:|a){2,}?b", "ab"),
        ("(a*)*b", "aab"),
        ("(?:a|b*)*?c", "abc"),
        ("(?:a*?b?)*", "aab"),
        ("(?:(?:a?)*?b?)*c", "abbc"),
        ("a|ab", "ab"),
        ("(?:a|ab)(?:c|bcd)", "abcd"),
        ("a{0}b", "b"),
        ("(?:a{0,2}?){2}b", "aab"),
        ('"(?:[^"\\\\\n]|\\\\.)*?"', '"a\\"b"'),
        ("/\\*(?:.|\n)*?\\*/", "/* a */ b */"),
    ],
)
def test_awkward_pattern_ends_where_python_does(pattern: str, text: str) -> None:
    compiled = automaton(pattern)
    for stop in range(len(text) + 1):
        assert last_end(compiled, text[:stop].encode()) == _match_end(pattern, text[:stop])


FOLDED = ["(?i:k)", "(?i:[a-z])", "(?i:[^k])", "(?i:ſ)", "(?i:ß)", "(?i:[µÅ-é])", "(?ia:[a-k])",
          "(?i:İ|ı)", "(?i:[\\d_x])", "(?i:𐐀)", "(?i:[^a-z])", "(?i:(?-i:k))"]  # fmt: skip
CLASSES = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"(?a:\w)", r"[^\W\d_]", r"(?a:[\Dé])", "."]


@pytest.mark.parametrize("pattern", FOLDED + CLASSES)
def test_class_holds_the_characters_it_holds_in_python(pattern: str) -> None:
    compiled = automaton(f"(?:{pattern})")
    expected = re.compile(pattern)
    sample = {*range(0x3000), *range(0xFF00, 0x10600), *range(0x0, 0x110000, 977)}
    for code_point in sample - set(range(0xD800, 0xE000)):
        text = chr(code_point)
        end = last_end_of_character(compiled, text)
        assert end == (expected.fullmatch(text) is not None), hex(code_point)


def last_end_of_character(compiled: ByteAutomaton, text: str) -> bool:
    """Say whether the automaton accepts ``text``; faster than ``last_end`` for many texts."""
    delta, state = compiled.delta, 0
    for byte in text.encode():
        state = delta[state, byte]  # type: ignore[index]
        if state < 0:
            return False
    return compiled.accepting[state]


def test_no_automaton_accepts_surrogates_or_beyond_unicode() -> None:
    compiled = automaton(r"[\s\S]")
    for data in (b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x80"):
        assert last_end(compiled, data) is None
    for text in ("\x00", "\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\U0010ffff"):
        assert last_end(compiled, text.encode()) == len(text.encode())


def test_lone_surrogate_matches_nothing() -> None:
    compiled = automaton("\ud800")
    assert len(compiled.accepting) == 1
    assert not compiled.accepting[0]
    value = literal("a\ud800", "A")
    assert not any(compile_terminal(value, prioritised=True, limits=LIMITS).accepting)


def test_every_state_reaches_an_accepting_one() -> None:
    for pattern in ("(?:a\ud800|b)c", "ab|ac\udfff", r"\w+x"):
        compiled = automaton(pattern)
        delta = np.asarray(compiled.delta)
        reaching = np.array(compiled.accepting)
        for _ in range(len(delta)):
            reaching = reaching | (reaching[delta] & (delta >= 0)).any(axis=1)
        assert reaching.all(), pattern


def test_equal_states_are_stored_once() -> None:
    assert len(automaton("abx|cdx|ex").accepting) == len(automaton("(?:ab|cd|e)x").accepting)
    assert len(automaton("a|a|a").accepting) == 2


def test_literal_and_its_pattern_give_one_automaton() -> None:
    value = "+é𝒳 #"
    short = compile_terminal(literal(value, "A"), prioritised=True, limits=LIMITS)
    long = automaton(re.escape(value))
    assert np.array_equal(np.asarray(short.delta), np.asarray(long.delta))
    assert list(short.accepting) == list(long.accepting)


def test_counted_repetition_costs_its_count_once() -> None:
    compiled = automaton(r"[^\n]{1,200}")
    assert len(compiled.accepting) == 1 + 200 * 8
    assert last_end(compiled, "é".encode() * 250) == 400


def test_states_beyond_the_limit_are_refused_by_name() -> None:
    limits = GrammarLimits(max_states=100)
    for pattern in ("a{1,300}", "(?:a|b)*a(?:a|b){12}", r"[^\n]{1,60}", "(?:a?){150}"):
        with pytest.raises(LimitError) as caught:
            compile_terminal(expression(pattern), prioritised=False, limits=limits)
        assert caught.value.details["limit"] == "max_states"
        assert caught.value.details["name"] == "A"


def test_removing_the_empty_text_leaves_the_others() -> None:
    for pattern in ("a*", "(?:ab)*", "a?", ""):
        whole = automaton(pattern, prioritised=False)
        rest = without_empty(whole)
        assert not rest.accepting[0]
        for text in ("a", "aa", "ab", "abab"):
            assert last_end(rest, text.encode()) == (last_end(whole, text.encode()) or None)
    unchanged = automaton("a+", prioritised=False)
    assert without_empty(unchanged) is unchanged
