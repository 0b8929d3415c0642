"""Regular expressions against ``re.fullmatch``: given ones, a public suite's, and random ones."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import shared_folder
from tests.laws.sizes import heavy_or

from .languages import language_of

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
