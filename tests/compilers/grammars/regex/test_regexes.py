"""Regular expressions as constraints, and the languages they stand for."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers import GrammarLimits, GrammarOptions, compile_regex, regex_constraint
from cdec.core.artifacts.opened import open_artifact
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.constraint import text_verdicts
from cdec.core.errors import (
    EmptySetError,
    EncodingError,
    LimitError,
    UntokenizableError,
    UsageError,
)
from cdec.core.grammars.errors import EmptyLanguageError, RegexSyntaxError, RegexUnsupportedError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.grammars.regex.languages import language_of
from tests.laws.sessions import assert_session_laws
from tests.laws.sizes import heavy_or
from tests.shared import shared_folder

# --- Regular expressions against ``re.fullmatch``: given ones, a public suite's, and random ones.

TEXTS = ["".join(text) for n in range(5) for text in itertools.product("ab \n", repeat=n)]
"""All short texts of some letters, a blank and a line break."""

PATTERNS = [
    *("a|ab", "(a|ab)(|b)", "(a*)*", "(a+)+b", "a+?b", "(|a)+b", "(a?){2,3}b", "(?:a|b)*?a"),
    *("", "()", "^$", "^a", "a$", "^a|b$", "(^a)|(b$)", "(^|b)a", "a$|a$b", r"\Aa\Z", "(?:^)+a"),
    *("a$\n", "a$\n?", "(?m)a$\nb", "(?m)a\n^b", "(?m)^$", "(?m)(^a$\n?)+", "a\n$", r"a\n\Z"),
    *(r"\ba\b b", r"\b|a", r"a\Ba", r"\Ba", r"(a\b )+", r"(\ba\B|b)*", r"a\b\Bb", r"(a|\b )*"),
    *("a|ab|", "a||b|a", "ab| b|b a", "|", "a b\nb"),
    *(".", "(?s).", "(?s).*b", "[^a]", "[^\n]+", r"\s+", r"\S+", r"\w\W", r"\d*a", "(?i)AB"),
    *("(?x) a  # a comment\n b", "(?i:A)b", "(?a)\\w+", "a{0}b", "a{2}", "a{,2}", "a{1,2}?b"),
    *("a|b|ab|ba", "[ab]{2,3}", "(?P<x>a)b", "((a)|(b))*", "(a|b)*a(a|b)", "(?-i:a)b"),
]


@pytest.mark.share(40)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_are_those_of_fullmatch(pattern: str) -> None:
    accepts = language_of(pattern)
    wrong = [text for text in TEXTS if accepts(text) != bool(re.fullmatch(pattern, text))]
    assert wrong == []


def test_classes_are_those_of_unicode() -> None:
    characters = "aZ09_ \u00e9\u00df\u0130\u017f\u0660\u2003\u4e2d\U0001f600\u0301\u00b2\x1f"
    for pattern in (
        r"\w",
        r"\W",
        r"\d",
        r"\D",
        r"\s",
        r"\S",
        r"(?a)\w",
        r"(?i)[k-s\u00e9]",
        "(?i)ss",
    ):
        accepts = language_of(pattern)
        got = [c for c in characters if accepts(c)]
        assert got == [c for c in characters if re.fullmatch(pattern, c)], pattern


def test_no_text_has_a_lone_surrogate() -> None:
    accepts = language_of("[\\ud700-\\ue000]")
    assert accepts("\ue000") and accepts("\ud700")
    state = [0xED, 0xA0, 0x80]
    assert not accepts(bytes(state).decode("latin-1"))


def _parts(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "+?", "??"])
    return st.one_of(
        st.lists(children, min_size=1, max_size=3).map("".join),
        st.lists(children, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(children, counts).map(lambda part: f"(?:{part[0]}){part[1]}"),
        children.map(lambda part: f"({part})"),
        children.map(lambda part: f"(?i:{part})"),
        children.map(lambda part: f"(?m:{part})"),
    )


LEAVES = [
    *("a", "b", " ", r"\n", "ab", ".", "[ab]", "[^a]", r"\w", r"\W", r"\s", "A"),
    *("", "^", "$", r"\b", r"\B", r"\A", r"\Z", "(?s:.)"),
]
REGEXES = st.recursive(st.sampled_from(LEAVES), _parts, max_leaves=7)


@settings(max_examples=heavy_or(60, 3000), deadline=None)
@given(REGEXES)
def test_random_regexes_are_read_as_re_reads_them(pattern: str) -> None:
    accepts, compiled = language_of(pattern), re.compile(pattern)
    wrong = [text for text in TEXTS if accepts(text) != bool(compiled.fullmatch(text))]
    assert wrong == [], pattern


LISTED = Path(__file__).with_name("rust_cases.txt").read_text(encoding="ascii").split()
"""The cases of the public suite whose pattern ``re`` reads and whose haystack is a text."""


@cache
def _suite() -> dict[str, dict[str, Any]]:
    path = shared_folder() / "data" / "regex_tests" / "rust_regex_testdata.jsonl.xz"
    if not path.is_file():
        return {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {f"{row['file'].removesuffix('.toml')}:{row['idx']}": row for row in rows}


def _texts(row: dict[str, Any]) -> list[str]:
    """Return the haystack of a case, and what the suite's engine finds in it."""
    data = row["haystack"].encode()
    if row.get("unescape"):
        data = re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), data)
        for letter, character in ((b"n", b"\n"), (b"r", b"\r"), (b"t", b"\t"), (b"0", b"\0")):
            data = data.replace(b"\\" + letter, character)
    found = [data] + [data[a:b] for a, b in map(_span, row["matches"])]
    return [text.decode() for text in found if not _is_cut(text)]


def _span(match: Any) -> tuple[int, int]:
    """Return where a match begins and ends, of the three forms in which the suite says it."""
    if isinstance(match, dict):
        return _span(match["span"] if "span" in match else match["spans"])
    first, last = match[0] if isinstance(match[0], list) else match
    return first, last


def _is_cut(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.skipif(not _suite(), reason="no shared data: set CDEC_SHARED")
def test_the_listed_cases_of_a_public_suite_are_decided_as_re_decides_them() -> None:
    assert len(LISTED) > 350
    for case in LISTED[:: heavy_or(4, 1)]:
        row = _suite()[case]
        pattern = ("(?i)" if row.get("case-insensitive") else "") + row["regex"]
        accepts = language_of(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
        for text in _texts(row):
            assert accepts(text) == bool(compiled.fullmatch(text)), (case, pattern, text)


# --- compile_regex: what the artifact says, laws of its sessions, narrowing, refusals, the judge.

TOKENS = [bytes([byte]) for byte in range(256)] + [b"ab", b"ba", b"aa", b" a", b"\xc3\xa9a", b"a\n"]
SHORT_TEXTS = ["".join(text) for n in range(4) for text in itertools.product("ab \n", repeat=n)]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary([*TOKENS, b""], [len(TOKENS)], name="toy")


def _members(constraint: Any, texts: list[str]) -> list[str]:
    said = text_verdicts(constraint, [text.encode() for text in texts])
    return [text for text, verdict in zip(texts, said, strict=True) if verdict["valid"]]


def test_an_artifact_says_what_it_was_made_from(vocabulary: Vocabulary, tmp_path: Path) -> None:
    report = compile_regex("a+b", vocabulary, tmp_path / "x.arrow", deny_regex=["a{3}b"])
    constraint: Any = open_artifact(tmp_path / "x.arrow")
    summary = constraint.summary()
    assert (summary["kind"], summary["grammar"], summary["sound"]) == ("grammar", "a+b", True)
    assert summary["options"]["dialect"] == "regex" and report.is_sound
    assert summary["options"]["deny_regex"] == ["a{3}b"]
    assert _members(constraint, ["ab", "aaab", "aaaab", "b"]) == ["ab", "aaaab"]
    assert [constraint.accepts(text) for text in (b"ab", b"aaab", b"b")] == [True, False, False]


@pytest.mark.parametrize(
    "pattern",
    ["", "a*", "a|ab|b a", r"(?s).*\bab\b.*", "[^b]{2,3}", "\u00e9+|a\n", "(?i)AB{20,300}"],
)
def test_sessions_keep_their_laws(vocabulary: Vocabulary, pattern: str) -> None:
    constraint: Any = regex_constraint(pattern, vocabulary)
    members = [[*text.encode()] for text in SHORT_TEXTS if re.fullmatch(pattern, text)]
    rng = np.random.default_rng(1)
    assert_session_laws(constraint, members[:4], rng, max_steps=12, max_states=60)


@settings(max_examples=heavy_or(15, 400), deadline=None)
@given(REGEXES)
def test_random_regexes_compile_to_what_they_match(pattern: str) -> None:
    vocabulary = Vocabulary([*TOKENS, b""], [len(TOKENS)], name="toy")
    wanted = [text for text in SHORT_TEXTS if re.fullmatch(pattern, text)]
    try:
        constraint: Any = regex_constraint(pattern, vocabulary)
    except EmptyLanguageError:
        assert wanted == []
        return
    assert _members(constraint, SHORT_TEXTS) == wanted
    assert constraint.facts.is_sound
    members, rng = [[*text.encode()] for text in wanted[:3]], np.random.default_rng(1)
    assert_session_laws(
        constraint, members, rng, devices=["cpu"], walks=2, max_steps=6, max_states=10
    )


@settings(max_examples=heavy_or(10, 400), deadline=None)
@given(st.lists(REGEXES, min_size=1, max_size=2), st.lists(REGEXES, max_size=2))
def test_other_patterns_narrow_a_pattern(conjoined: list[str], denied: list[str]) -> None:
    vocabulary = Vocabulary([*TOKENS, b""], [len(TOKENS)], name="toy")
    wanted = [
        text
        for text in SHORT_TEXTS
        if all(re.fullmatch(p, text) for p in conjoined)
        and not any(re.fullmatch(p, text) for p in denied)
    ]
    try:
        constraint: Any = regex_constraint(
            conjoined[0], vocabulary, conjoined=conjoined[1:], deny_regex=denied
        )
    except EmptyLanguageError:
        assert wanted == []
        return
    assert _members(constraint, SHORT_TEXTS) == wanted


@settings(max_examples=heavy_or(8, 300), deadline=None)
@given(REGEXES, REGEXES)
def test_constraints_of_regexes_combine_like_any(one: str, other: str) -> None:
    vocabulary = Vocabulary([*TOKENS, b""], [len(TOKENS)], name="toy")
    wanted = [text for text in SHORT_TEXTS if re.fullmatch(one, text) and re.fullmatch(other, text)]
    try:
        sides = [regex_constraint(pattern, vocabulary) for pattern in (one, other)]
        both: Any = conjoin(*sides)
    except (EmptyLanguageError, EmptySetError):
        assert wanted == []
        return
    assert _members(both, SHORT_TEXTS) == wanted
    if len(wanted) > 1:
        left = deny(both, [wanted[0].encode()])
        assert _members(left, SHORT_TEXTS) == wanted[1:]


def test_a_compiled_pattern_keeps_its_flags(vocabulary: Vocabulary) -> None:
    pattern = re.compile("(?m)a .  # a comment", re.I | re.S | re.X)
    constraint = regex_constraint(pattern, vocabulary)
    assert _members(constraint, ["A\n", "ab", "a .", "a"]) == ["A\n", "ab"]


@pytest.mark.parametrize("denied", [[], [".*ba"]])
def test_large_counts_are_counted(vocabulary: Vocabulary, denied: list[str]) -> None:
    constraint = regex_constraint(r"^[ab]{2,90000}$", vocabulary, deny_regex=denied)
    assert constraint.statistics()["scanner_states"] < 1000
    texts = ["a", "ab", "ba", "a" * 90_000, "a" * 90_001, "b" * 89_999 + "a"]
    wanted = [re.fullmatch("[ab]{2,90000}", t) and not (denied and t[-2:] == "ba") for t in texts]
    assert _members(constraint, texts) == [
        t for t, is_one in zip(texts, wanted, strict=True) if is_one
    ]


def test_general_categories_are_classes(vocabulary: Vocabulary) -> None:
    constraint: Any = regex_constraint(
        r"[\p{Lu}_]\p{Ll}+", vocabulary, conjoined=[r"\P{Cased_Letter}*|\p{L}+"]
    )
    texts = ["\u00c9t\u00e9", "Ab", "_a", "ab", "A1"]
    assert _members(constraint, texts) == texts[:2]
    assert [constraint.accepts(text.encode()) for text in texts] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert constraint.summary()["grammar"] == r"[\p{Lu}_]\p{Ll}+"


def test_what_is_too_large_for_one_automaton_is_read_in_two_parts(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    path, limits = tmp_path / "x.arrow", GrammarLimits(max_states=2000)
    report = compile_regex("^(a|b)*a(a|b){17}c$", vocabulary, path, limits=limits)
    assert [notice.code for notice in report.notices] == ["W_LARGE_AUTOMATON"]
    constraint: Any = open_artifact(path)
    texts = ["ba" + "b" * 17 + "c", "a" + "b" * 16 + "c", "a" * 40 + "c"]
    assert _members(constraint, texts) == [texts[0], texts[2]]
    assert [constraint.accepts(text.encode()) for text in texts] == [True, False, True]


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        (r"(a)\1", "back-reference"),
        ("(?=a)a", "look-around"),
        ("a(?!b)", "look-around"),
        ("(?<=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        ("a++", "possessive"),
        ("(?>a)", "atomic group"),
        ("(a)?(?(1)b|c)", "conditional"),
        (r"\p{Greek}+", "property"),
    ],
)
def test_what_is_not_regular_is_named(vocabulary: Vocabulary, pattern: str, feature: str) -> None:
    with pytest.raises(RegexUnsupportedError) as refused:
        regex_constraint(pattern, vocabulary)
    assert refused.value.details["feature"] == feature
    with pytest.raises(RegexUnsupportedError):
        regex_constraint("a", vocabulary, conjoined=[pattern])


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?P<x>a)(?P=x)"])
def test_a_back_reference_is_told_how_to_write_it_out(vocabulary: Vocabulary, pattern: str) -> None:
    with pytest.raises(RegexUnsupportedError, match="a back-reference is not regular") as refused:
        regex_constraint(pattern, vocabulary)
    assert refused.value.hint == r"write out what may be repeated: aa|bb for (a|b)\1"
    with pytest.raises(RegexUnsupportedError) as other:
        regex_constraint("a++", vocabulary)
    assert other.value.hint is not None and "terminals" not in other.value.hint


def test_refusals_say_what_and_where(vocabulary: Vocabulary) -> None:
    with pytest.raises(RegexSyntaxError, match="at position 3") as syntax:
        regex_constraint("ab(*)", vocabulary)
    assert syntax.value.details["position"] == 3
    with pytest.raises(EmptyLanguageError, match="conjoined"):
        regex_constraint("a", vocabulary, conjoined=["b"])
    with pytest.raises(EncodingError):
        regex_constraint("\ud800", vocabulary)
    with pytest.raises(LimitError) as states:
        regex_constraint("[ab]{9}", vocabulary, limits=GrammarLimits(max_states=5))
    assert states.value.details["limit"] == "max_states"
    with pytest.raises(UntokenizableError):
        regex_constraint("[ab]+", Vocabulary([b"x", b""], [1]))
    with pytest.raises(UsageError, match="narrow"):
        GrammarOptions(deny_regex=("a",))


def test_lazy_quantifiers_and_empty_languages_are_told(
    vocabulary: Vocabulary, tmp_path: Path
) -> None:
    def codes(pattern: str, **others: Any) -> list[str]:
        report = compile_regex(pattern, vocabulary, tmp_path / "x.arrow", force=True, **others)
        return [notice.code for notice in report.notices]

    assert codes("a+?b") == ["W_LAZY_IGNORED"]
    assert codes("$") == ["W_EMPTY_STRING_ONLY"]
    assert codes("a?", deny_regex=["a"]) == ["W_EMPTY_STRING_ONLY"]
    assert codes("a?b") == []
