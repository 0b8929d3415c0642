"""Regular languages of schemas: patterns, strings, formats."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cdec.compilers.regular.automaton import everything, nothing
from cdec.compilers.regular.edges import Edges, automaton_edges, pooled
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.strings import Strings, labelled, partition
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import RegexSyntaxError, RegexUnsupportedError
from tests.compilers.regular.reading import in_parts, label, reached, texts, walk
from tests.laws.sizes import heavy_or

# --- Patterns as automata: the texts in which ``re.search`` finds them.

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


@pytest.mark.share(8)
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


# --- Sets of strings: operations, lengths, lists of words, and the parts they are made of.

ALL = texts("aé1", 4)
LEAVES = st.one_of(
    st.lists(st.sampled_from(ALL), max_size=4).map(Strings.words),
    st.sampled_from(["^a", "1$", "é", "^(aé)*$", "^.$", "a.a", "^[^1]{2,3}$"]).map(Strings.pattern),
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 4)).map(lambda b: Strings.lengths(*b)),
)
SETS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda s: ~s),
        st.tuples(inner, inner, st.sampled_from("&|-^")).map(lambda t: _combined(*t)),
    ),
    max_leaves=6,
)


def _combined(left: Strings, right: Strings, sign: str) -> Strings:
    return {"&": left & right, "|": left | right, "-": left - right, "^": left ^ right}[sign]


@settings(max_examples=heavy_or(15, 1000), deadline=None)
@given(SETS, SETS)
def test_operations_are_those_of_sets(left: Strings, right: Strings) -> None:
    for text in ALL:
        a, b = text in left, text in right
        assert (text in left & right, text in left | right) == (a and b, a or b)
        assert (text in left - right, text in left ^ right, text in ~left) == (
            a and not b,
            a != b,
            not a,
        )


@settings(max_examples=heavy_or(20, 1000), deadline=None)
@given(SETS)
def test_the_parts_of_a_set_hold_its_strings(strings: Strings) -> None:
    parts = strings.parts()
    assert [in_parts(parts, text) for text in ALL] == [text in strings for text in ALL]
    assert strings.is_empty == (not parts)
    assert strings.is_everything == (~strings).is_empty


@settings(max_examples=heavy_or(20, 1000), deadline=None)
@given(SETS)
def test_finite_sets_are_listed_and_infinite_ones_are_not(strings: Strings) -> None:
    listed = (strings & Strings.pattern("^[aé1]{0,4}$")).finite(len(ALL))
    assert listed is not None
    assert sorted(listed) == sorted(text for text in ALL if text in strings)
    assert (strings | Strings.pattern("^b")).finite(10**6) is None


def test_long_counts_of_characters_take_no_states() -> None:
    (edges, low, high), *more = (Strings.pattern("^[a-z]+$") & Strings.lengths(5, 65_535)).parts()
    assert (len(edges.state_label) < 5, low, high, more) == (True, 5, 65_535, [])
    assert not Strings.lengths(10**9).is_empty
    assert (Strings.lengths(3) & Strings.lengths(0, 2)).is_empty


def test_a_least_length_is_written_out_where_not_every_length_is_possible() -> None:
    ((edges, low, high),) = (Strings.pattern("^(ab)*$") & Strings.lengths(3, 9)).parts()
    assert (low, high) == (0, 9)
    assert edges.state_shortest[0] == 4


def test_surrogates_are_in_no_set() -> None:
    assert "\ud800" not in Strings.ANY
    assert Strings.words(["\ud800", "a"]) == Strings.words(["a"])


def test_a_hundred_thousand_words_are_one_part() -> None:
    words = Strings.words(f"w{i:06}" for i in range(100_000))
    ((edges, low, high),) = words.parts()
    assert (low, high) == (0, -1)
    assert int((edges.state_label == 0).sum()) == 100_000
    assert "w099999" in words
    assert words.finite(99_999) is None


def test_more_states_than_allowed_are_a_limit() -> None:
    with pytest.raises(LimitError):
        (Strings.pattern("^(ab)*$") & Strings.lengths(10**7)).parts()


# --- Formats of JSON Schema as sets of strings.

CASES = {
    "date": (
        "2000-02-29 1999-12-31 0001-01-01",
        "1900-02-29 2021-02-30 0000-01-01 2021-1-1 2021-04-31",
    ),
    "time": (
        "23:59:60Z 01:29:60+01:30 15:59:60-08:00 08:30:06.28z",
        "22:59:60Z 23:59:60+00:30 8:3:6Z 12:00:00",
    ),
    "date-time": (
        "1990-12-31T15:59:60.1-08:00 1963-06-19t08:30:06z",
        "1998-12-31T23:58:60Z 2021-02-29T00:00:00Z",
    ),
    "duration": ("P4DT12H30M5S P1Y PT1H P2W P1Y2M3DT4H", "P PT P1YT P2D1Y P1Y2W P1D2H 1D"),
    "email": (
        'a.b@c.d "a@b"@c x@[127.0.0.1] x@[IPv6:::1]',
        ".a@b a..b@c a@ @b a@b_c x@[127.0.0.300]",
    ),
    "idn-email": ("실례@실례.테스트", "a@@b"),
    "hostname": (
        "a www.a-b.c 1h xn--9n2bp8q",
        "-a a- a_b . a. " + "a" * 64 + " " + ".".join("a" * 130),
    ),
    "ipv4": ("127.0.0.1 255.255.255.255 0.0.0.0", "256.1.1.1 1.1.1 01.1.1.1 1.1.1.1.1 ١.1.1.1"),
    "ipv6": (
        "::1 :: 1:: 1:2:3:4:5:6:7:8 ::ffff:1.2.3.4 1::8 1:2:3:4:5:6:7::",
        "1 :2:3 1::2::3 1:2:3:4:5:6:7:8:9 ::1.2.3 12345:: ::1%1",
    ),
    "uri": (
        "http://a.b/c?d#e urn:x:y http://[::1]:80/ mailto:a@b http:",
        "//a /a a\\b http://a/<> http://[a] :// ",
    ),
    "uri-reference": ("/a ?x #f ../a http://a a/b:c", "a\\b #a#b 1:b"),
    "iri": ("http://ƒøø.ßår/?∂éœ=πîx#πîüx", "/a http://ƒ<"),
    "iri-reference": ("/âππ #ƒräg", "#ƒräg\\mênt"),
    "uri-template": ("http://a/{b}/{c:3}{?d,e*} a'b", "{a {a:} a} {}"),
    "uuid": (
        "2EB8AA08-aa98-11ea-b4aa-73b441d16380",
        "2eb8aa08-aa98-11ea-b4aa73b441d16380 2eb8aa08aa9811eab4aa73b441d16380",
    ),
    "json-pointer": ("/a/b~0~1/ /", "a ~ /~ /~2"),
    "relative-json-pointer": ("0 1/a 2#", "01 -1/a 1## /a"),
}


@pytest.mark.parametrize("name", CASES)
def test_texts_of_a_format_are_told_from_others(name: str) -> None:
    strings = Strings.format(name)
    assert strings is not None
    inside, outside = CASES[name]
    assert [text for text in inside.split(" ") if text not in strings] == []
    assert [text for text in outside.split(" ") if text in strings] == []


@pytest.mark.parametrize("name", ["date", "email", "idn-email", "ipv4", "ipv6", "uuid"])
def test_what_a_format_holds_the_jsonschema_package_accepts(name: str) -> None:
    strings = Strings.format(name)
    assert strings is not None
    checker = Draft202012Validator.FORMAT_CHECKER
    for text in CASES[name][0].split(" "):
        checker.check(text, name)


def test_unknown_names_are_no_formats_and_those_not_regular_are_refused() -> None:
    assert Strings.format("color") is None
    for name in ("regex", "idn-hostname"):
        with pytest.raises(RegexUnsupportedError, match=name):
            Strings.format(name)  # `regex` is followed otherwise: core/schemas/test_regex_strings


# --- Edges of automata: what is said of each state is so.

PATTERNS = st.sampled_from(["^a", "1$", "é", "^(aé)*$", "^.$", "a.a", "^[^1]{2,3}$", "", "^x-"])


@settings(max_examples=heavy_or(8, 500), deadline=None)
@given(st.sets(PATTERNS, max_size=3), st.sets(st.sampled_from(ALL), max_size=4))
def test_keys_are_told_apart_by_words_and_cells(patterns: set[str], words: set[str]) -> None:
    languages = [Strings.pattern(pattern) for pattern in sorted(patterns)]
    cells = partition([*languages, Strings.words(words)])
    for text in ALL:
        held = frozenset(i for i, s in enumerate([*languages, Strings.words(words)]) if text in s)
        assert [members for members, strings in cells if text in strings] == [held]
    named = sorted(words, key=str.encode)
    regions = [strings - Strings.words(words) for _, strings in cells]
    edges = labelled(named, regions)
    for text in ALL:
        expected = [j for j, region in enumerate(regions) if text in region]
        place = named.index(text) if text in words else len(named) + expected[0]
        assert label(edges, text) == place
    _check(edges, len(named))


@settings(max_examples=heavy_or(8, 300), deadline=None)
@given(PATTERNS, st.sets(st.sampled_from(ALL), max_size=4))
def test_closed_objects_have_their_words_and_one_region(pattern: str, words: set[str]) -> None:
    named = sorted(words, key=str.encode)
    for regions in ([], [Strings.pattern(pattern) - Strings.words(words)]):
        regions = [region for region in regions if not region.is_empty]
        edges = labelled(named, regions)
        for text in ALL:
            is_region = bool(regions) and text in regions[0]
            expected = named.index(text) if text in words else len(named) if is_region else -1
            assert label(edges, text) == expected
        _check(edges, len(named))


def test_regions_may_take_words_out_of_one_another() -> None:
    out = Strings.words(["ab", "ac"])
    regions = [Strings.pattern("^a") - out, out - Strings.words(["ac"]), Strings.pattern("^b")]
    edges = labelled(["c"], regions)
    assert [label(edges, text) for text in ("c", "a", "ab", "ac", "b", "d")] == [0, 1, 2, -1, 3, -1]


@pytest.mark.parametrize("pattern", ["^a", "a$", "^[^é]*$", "^é{2}", "", "^(?!a)", "^..$"])
def test_states_say_how_far_the_end_is_and_what_is_free(pattern: str) -> None:
    edges = automaton_edges(pattern_automaton(pattern))
    _check(edges, None)
    for text in ALL:
        state = walk(edges, text.encode())
        if state < 0:
            continue
        ends = [len(t) for t in ALL if label(edges, text + t) == 0]
        assert not ends or edges.state_shortest[state] == min(ends)


def test_pooled_automata_lie_side_by_side() -> None:
    parts = [automaton_edges(pattern_automaton(p)) for p in ("^a$", "", "^b+$")]
    joined, starts = pooled(parts)
    assert len(joined.state_edges) == len(joined.state_label) + 1
    for part, start in zip(parts, starts, strict=True):
        for text in texts("ab", 3):
            state, own = walk(joined, text.encode(), start), walk(part, text.encode())
            assert state == (own + start if own >= 0 else -1)
    assert pooled([])[1] == []


def _check(edges: Edges, singles: int | None) -> None:
    """Hold the columns against their definitions."""
    universe = automaton_edges(everything())
    for state in range(len(edges.state_label)):
        at = slice(edges.state_edges[state], edges.state_edges[state + 1])
        lows, highs = edges.edge_low[at].tolist(), edges.edge_high[at].tolist()
        assert all(low <= high for low, high in zip(lows, highs, strict=True))
        assert all(high < low for high, low in zip(highs, lows[1:], strict=False))
        labels = {int(edges.state_label[s]) for s in reached(edges, state)} - {-1}
        assert labels or state == 0
        if singles is not None:
            named = [found for found in labels if found < singles]
            assert edges.state_open[state] == any(found >= singles for found in labels)
            assert edges.state_high[state] == max(named, default=-1) + 1
            assert edges.state_low[state] == min(named, default=0)
        within = bool(lows) and 0x80 <= lows[0] < 0xC0
        assert edges.state_free[state] == (0 if within else _freedom(edges, state, universe))


def _freedom(edges: Edges, state: int, universe: Edges) -> int:
    """Follow any text; say whether there always is a way on, and whether all of them are in."""
    seen, todo, is_absorbing = {(state, 0)}, [(state, 0)], True
    while todo:
        own, other = todo.pop()
        if other == 0:
            is_absorbing = is_absorbing and -1 != edges.state_label[own] == edges.state_label[state]
        for edge in range(universe.state_edges[other], universe.state_edges[other + 1]):
            for byte in range(universe.edge_low[edge], universe.edge_high[edge] + 1):
                following = walk(edges, bytes((byte,)), own), int(universe.edge_target[edge])
                if following[0] < 0:
                    return 0
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
    return 2 if is_absorbing else 1
