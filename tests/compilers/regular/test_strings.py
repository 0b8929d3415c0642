"""Sets of strings: operations, lengths, lists of words, and the parts they are made of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers.regular.strings import Strings
from cdec.core.errors import LimitError
from tests.compilers.regular.reading import in_parts, texts
from tests.laws.sizes import heavy_or

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
