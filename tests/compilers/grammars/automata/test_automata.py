"""Automata of regular expressions: languages, look-around, memory, errors."""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cdec.compilers.grammars.automata.terminal import compile_terminal, without_empty
from cdec.compilers.grammars.compile import grammar_constraint
from cdec.compilers.grammars.definition import ByteAutomaton, GrammarLimits
from cdec.compilers.grammars.patterns import regex_constraint
from cdec.compilers.schemas.opened import schema_constraint
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import RegexSyntaxError, RegexUnsupportedError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.grammars.scanner.plain_scanner import (
    LIMITS,
    automaton,
    expression,
    last_end,
    literal,
)
from tests.laws.sizes import heavy_or

# --- Terminals as byte automata: exactly what Python's ``re`` matches.

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


@settings(max_examples=heavy_or(60, 2000), deadline=None, suppress_health_check=list(HealthCheck))
@given(_patterns(), st.lists(TEXTS, min_size=6, max_size=6))
def test_prioritised_automaton_ends_where_python_does(pattern: str, texts: list[str]) -> None:
    compiled = automaton(pattern)
    for text in texts:
        with _patience(0.3):
            expected = _match_end(pattern, text)
        assert last_end(compiled, text.encode()) == expected, text


@settings(max_examples=heavy_or(60, 2000), deadline=None, suppress_health_check=list(HealthCheck))
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


# --- Patterns that look around: what matches, and what only their surroundings decide.

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


@pytest.mark.share(11)
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


# --- What passes a limit is counted before it is made: a refusal takes no memory to speak of.

BYTES = Vocabulary([*(bytes([b]) for b in range(256)), b""], [256])
_MOST = 150 << 20
"""Bytes that a refusal may take: those of the threads and states that were counted."""

NESTED = [
    r"(\w{1,500}[ -]){1,500}",
    r"(?:\w{1,300}\W){1,300}",
]


def _peak_of_refusal(make: Callable[[], object]) -> int:
    """Return the most bytes that were held at once until a LimitError came."""
    tracemalloc.start()
    try:
        with pytest.raises(LimitError):
            make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("pattern", NESTED)
def test_refusing_nested_counts_takes_little_memory(pattern: str) -> None:
    assert _peak_of_refusal(lambda: regex_constraint(pattern, BYTES)) < _MOST


def test_refusing_nested_counts_in_a_grammar_takes_little_memory() -> None:
    assert _peak_of_refusal(lambda: grammar_constraint(f"start: /{NESTED[1]}/", BYTES)) < _MOST


@pytest.mark.slow
def test_refusing_nested_counts_in_a_schema_takes_little_memory() -> None:
    schema = json.dumps({"type": "string", "pattern": r"(\w{1,130}[ -]){1,130}"})
    assert _peak_of_refusal(lambda: schema_constraint(schema, BYTES)) < _MOST


@pytest.mark.slow
def test_a_table_over_many_characters_is_counted() -> None:
    words = [chr(0x4E00 + i) + chr(0x4E00 + 7 * i % 2000) + "[a-z]?" for i in range(2000)]
    limits = GrammarLimits(max_states=5000)
    peak = _peak_of_refusal(lambda: regex_constraint("|".join(words), BYTES, limits=limits))
    # 5,000 states and 2,000 characters: 40 MB; allowed are 256 numbers a state, here 5 MB.
    assert peak < 30 << 20


# --- Patterns that are no regular expressions, or not regular: the right error at the right line.


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
