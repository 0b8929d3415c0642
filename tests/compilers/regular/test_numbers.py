"""Sets of numbers: exact, and spelled as JSON does."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers.regular.numbers import Numbers, union_raw
from cdec.core.errors import LimitError
from tests.compilers.regular.reading import label
from tests.laws.sizes import heavy_or

VALUES = ["0", "1", "-1", "0.5", "10", "1.25", "-3", "99.99", "1e16", "1e20", "-0.001", "1.5e17"]
STEPS = ["1", "2", "3", "0.5", "0.01", "10", "2.5", "7", "0.3"]
BOUNDS = st.sampled_from(VALUES).map(Decimal)
LEAVES = st.one_of(
    st.tuples(BOUNDS, st.booleans()).map(lambda b: Numbers.between(b[0], None, b[1])),
    st.tuples(BOUNDS, st.booleans()).map(lambda b: Numbers.between(None, b[0], False, b[1])),
    st.sampled_from(STEPS).map(lambda s: Numbers.multiples(Decimal(s))),
    st.sets(BOUNDS, max_size=3).map(Numbers.values),
    st.sets(st.integers(-20, 20), min_size=9).map(Numbers.values),
    st.sampled_from([Numbers.INTEGERS, Numbers.SPELLED_INTEGERS, Numbers.ANY, Numbers.FINITE]),
)
SETS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda s: ~s),
        inner.map(lambda s: s & Numbers.FINITE),
        st.tuples(inner, inner, st.sampled_from("&|-^")).map(lambda t: _combined(*t)),
    ),
    max_leaves=5,
)
_TAIL = st.one_of(st.just(""), st.text("00012345", min_size=1, max_size=4).map(".{}".format))
_SIZES = st.integers(0, 25) | st.sampled_from([300, 307, 308, 309, 323, 324, 325, 400])
_POWER = st.tuples(st.sampled_from(["e", "E+", "e-", "e-0", "E00", "e+0"]), _SIZES).map(
    lambda t: f"{t[0]}{t[1]}"
)
PLAIN = st.tuples(
    st.sampled_from(["", "-"]),
    st.integers(0, 200) | st.integers(0, 2 * 10**20),
    _TAIL,
).map(lambda t: f"{t[0]}{t[1]}{t[2]}")
NORMALISED = st.tuples(st.sampled_from(["", "-"]), st.integers(1, 9), _TAIL, _POWER).map(
    lambda t: f"{t[0]}{t[1]}{t[2]}{t[3]}"
) | st.tuples(st.sampled_from(["", "-"]), st.sampled_from(["0", "0.0", "0.000"]), _POWER).map(
    "".join
)
OTHERWISE = st.tuples(
    st.sampled_from(["", "-"]),
    st.integers(10, 120).map(str) | st.sampled_from(["0.5", "0.025"]),
    _POWER,
).map("".join)


def _combined(left: Numbers, right: Numbers, sign: str) -> Numbers:
    return {"&": left & right, "|": left | right, "-": left - right, "^": left ^ right}[sign]


def _is_in(numbers: Numbers, text: str) -> bool:
    """Say whether a text's number is in the set, with its spelling."""
    if re.fullmatch("-?[0-9]+", text):
        return int(text) in numbers
    value = Fraction(text)
    spelled = numbers - Numbers.SPELLED_INTEGERS if value.denominator == 1 else numbers
    return not (spelled & Numbers.values([Decimal(text)])).is_empty


@settings(max_examples=heavy_or(20, 2000), deadline=None)
@given(SETS, st.lists(PLAIN, min_size=25, max_size=25))
def test_decimal_texts_are_accepted_exactly_where_the_number_is_in(
    numbers: Numbers, texts: list[str]
) -> None:
    expected = [_is_in(numbers, text) for text in texts]
    assert numbers.automaton().accepted(texts).tolist() == expected
    assert [not found for found in expected] == (~numbers).automaton().accepted(texts).tolist()


@settings(max_examples=heavy_or(20, 2000), deadline=None)
@given(SETS, st.lists(NORMALISED, min_size=25, max_size=25))
def test_normalised_texts_are_accepted_exactly_where_the_number_is_in(
    numbers: Numbers, texts: list[str]
) -> None:
    expected = [_is_in(numbers, text) for text in texts]
    assert numbers.automaton().accepted(texts).tolist() == expected
    assert [not found for found in expected] == (~numbers).automaton().accepted(texts).tolist()


@settings(max_examples=heavy_or(20, 2000), deadline=None)
@given(SETS, st.lists(OTHERWISE, min_size=25, max_size=25))
def test_other_texts_with_an_exponent_are_accepted_only_where_the_number_is_in(
    numbers: Numbers, texts: list[str]
) -> None:
    inside = numbers.automaton().accepted(texts).tolist()
    outside = (~numbers).automaton().accepted(texts).tolist()
    for text, is_in, is_out in zip(texts, inside, outside, strict=True):
        assert not (is_in and is_out)
        assert not is_in or _is_in(numbers, text)
        assert not is_out or not _is_in(numbers, text)


@settings(max_examples=heavy_or(25, 2000), deadline=None)
@given(SETS)
def test_a_set_is_empty_where_it_has_no_text(numbers: Numbers) -> None:
    assert numbers.is_empty == numbers.automaton().is_empty
    assert numbers.is_everything == (~numbers).is_empty


@settings(max_examples=heavy_or(20, 1000), deadline=None)
@given(SETS)
def test_sets_that_mean_the_same_differ_in_nothing(numbers: Numbers) -> None:
    assert (~~numbers ^ numbers).is_empty
    assert ((numbers & Numbers.INTEGERS | numbers - Numbers.INTEGERS) ^ numbers).is_empty


@pytest.mark.parametrize("value", [1e16, 1.5e300, -2.5e-7, 5e-324, 1e22, 123456789012345680000.0])
@pytest.mark.parametrize("spell", [repr, lambda value: f"{value:.16e}"])
def test_floats_as_python_writes_them_are_in_the_intervals_around_them(
    value: float, spell: object
) -> None:
    text = repr(value)
    for numbers in (Numbers.ANY, Numbers.between(value, value), Numbers.between(min(value, 0))):
        assert numbers.automaton().accepted([text])[0]
    assert not Numbers.between(value, None, True).automaton().accepted([text])[0]


def test_large_integers_with_an_exponent_are_integers() -> None:
    texts = ["1e16", "1.5e+300", "1e-7", "1.5", "2.0", "-0.0", "1E400", "1e5", "2.50e1", "2.55e1"]
    found = Numbers.INTEGERS.automaton().accepted(texts).tolist()
    assert found == [True, True, False, False, True, True, True, True, True, False]
    assert not any((~Numbers.INTEGERS).automaton().accepted(["1e16", "2.0"]))


def test_any_number_is_spelled_as_json_allows() -> None:
    texts = [
        "0",
        "-0",
        "1e5",
        "1E-05",
        "0.1e+1",
        "10.25e3",
        "00",
        "+1",
        "1.",
        ".5",
        "-",
        "1e",
        "01",
    ]
    expected = [True] * 6 + [False] * 7
    assert Numbers.ANY.automaton().accepted(texts).tolist() == expected


def test_finite_sets_are_listed() -> None:
    assert (Numbers.INTEGERS & Numbers.between(Decimal("-1.5"), 2)).finite(4) == (-1, 0, 1, 2)
    assert Numbers.values([Decimal("0.10"), 3]).finite(2) == (Decimal("0.1"), 3)
    assert Numbers.between(0, 1).finite(1000) is None
    assert (Numbers.INTEGERS & Numbers.between(0, 2**62)).finite(1000) is None
    assert Numbers.NONE.finite(0) == ()


def test_spelling_tells_integers_of_draft_four_apart() -> None:
    assert 1 in Numbers.SPELLED_INTEGERS
    assert Decimal("1.0") not in Numbers.SPELLED_INTEGERS
    assert Numbers.SPELLED_INTEGERS.automaton().accepted(["1", "1.0"]).tolist() == [True, False]


def test_words_of_json_stand_beside_numbers() -> None:
    edges = union_raw(Numbers.values([1]), ["null", "true"])
    found = [label(edges, text) for text in ("1", "null", "true", "false", "nul", "2")]
    assert found == [0, 0, 0, -1, -1, -1]
    assert label(union_raw(Numbers.NONE, ["false"]), "false") == 0


def test_no_spelling_leads_out_of_the_doubles() -> None:
    nines, least = "9" * 64, "0." + "0" * 24 + "1"
    texts = [
        f"{nines}e244", f"{nines}e245", f"{least}e-298", f"{least}e-299", "9.9e307", "1.8e308",
        "1.7976931348623157e+308", "1.7976931348623159e308", "5e-324", "2e-324", "0e-999", nines,
        least,
    ]  # fmt: skip
    found = Numbers.FINITE.automaton().accepted(texts).tolist()
    assert found == [
        True, False, True, False, True, False, True, False, True, False, True, True, True,
    ]  # fmt: skip
    for text, is_in in zip(texts, found, strict=True):
        is_held = not np.isinf(float(text)) and (float(text) != 0 or Fraction(text) == 0)
        assert is_held or not is_in


def test_bounds_may_have_thousands_of_digits_and_no_more() -> None:
    numbers = Numbers.between(Decimal("1e5000"))
    assert numbers.automaton().accepted(["1e5000", "9e4999", "1" + "0" * 5000]).tolist() == [
        True, False, True,
    ]  # fmt: skip
    with pytest.raises(LimitError):
        Numbers.between(Decimal("1e999999999"))


def test_multiples_that_meet_too_rarely_are_a_limit() -> None:
    with pytest.raises(LimitError):
        (Numbers.multiples(Decimal("99.991")) | Numbers.multiples(Decimal("99.989"))).edges()


@pytest.mark.parametrize("of", ["100", "1000", "16", "7", "86400", "0.001", "2.5"])
def test_multiples_with_an_exponent_are_those_that_divide(of: str) -> None:
    texts = [
        "8.64e4",
        "8.64E+6",
        "1.6e1",
        "1e2",
        "1.0e3",
        "2.5e-1",
        "1e-3",
        "1.0001e4",
        "7e0",
        "7e9",
    ]
    numbers = Numbers.multiples(Decimal(of))
    expected = [(Fraction(text) / Fraction(of)).denominator == 1 for text in texts]
    assert numbers.automaton().accepted(texts).tolist() == expected


@pytest.mark.parametrize(
    ("numbers", "states"),
    [
        (Numbers.FINITE, 300),
        (Numbers.INTEGERS & Numbers.FINITE, 700),
        (Numbers.FINITE & Numbers.between(0, 1), 250),
        (Numbers.INTEGERS & Numbers.between(0, 100), 150),
        (Numbers.multiples(Decimal("0.01")) & Numbers.FINITE, 700),
        (Numbers.multiples(65536) & Numbers.FINITE, 4000),
    ],
)
def test_automata_of_numbers_stay_small(numbers: Numbers, states: int) -> None:
    assert len(numbers.automaton()) <= states


def test_many_values_are_one_list_of_words() -> None:
    numbers = Numbers.values(range(5000))
    assert numbers.automaton().accepted(["0", "-0", "4999", "4999.00", "5000", "1.5"]).tolist() == [
        True, True, True, True, False, False,
    ]  # fmt: skip
    assert (numbers & ~numbers).is_empty
    texts = ["4.999e3", "4.99900E+03", "4.99e1", "5e3", "-1e0", "0e7", "-0.0e0", "1.e1", "0.1e1"]
    found = numbers.automaton().accepted(texts).tolist()
    assert found == [True, True, False, False, False, True, True, False, False]
