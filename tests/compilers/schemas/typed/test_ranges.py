"""Expressions of numbers and texts on one side of a bound, against fractions and comparison."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest

from cdec.compilers.schemas.typed.numbers import (
    at_least,
    at_most,
    from_text,
    one_of,
    up_to_text,
    whole,
)


def _number(rng: random.Random) -> str:
    digits = str(rng.choice([0, rng.randrange(3), rng.randrange(30), rng.randrange(2000)]))
    if rng.random() < 0.6:
        digits += "." + "".join(rng.choice("0159") for _ in range(rng.randrange(1, 4)))
    return rng.choice(["", "-"]) + digits


@pytest.mark.parametrize("excluded", [False, True])
def test_numbers_on_one_side_of_a_bound_are_those_that_compare_so(excluded: bool) -> None:
    rng = random.Random(5)
    for _ in range(300):
        bound = _number(rng)
        low = re.compile(whole(at_least(Fraction(bound), excluded=excluded)))
        high = re.compile(whole(at_most(Fraction(bound), excluded=excluded)))
        for text in [bound, *(_number(rng) for _ in range(20))]:
            value, limit = Fraction(text), Fraction(bound)
            is_in = not excluded or value != limit
            assert bool(low.search(text)) == (value >= limit and is_in), (bound, text)
            assert bool(high.search(text)) == (value <= limit and is_in), (bound, text)


def test_what_stands_around_the_digits_stands_behind_the_sign() -> None:
    pattern = re.compile(whole(at_least(Fraction(-5), around=("PT", "S"))))
    assert [bool(pattern.search(text)) for text in ("PT7.5S", "-PT5S", "-PT5.5S", "7S")] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize("excluded", [False, True])
def test_texts_of_one_form_are_compared_as_texts(excluded: bool) -> None:
    rng = random.Random(6)
    for _ in range(200):
        texts = [f"{rng.randrange(3000):04}-{rng.randrange(13):02}" for _ in range(20)]
        bound = texts[0]
        low = re.compile(whole(from_text(bound, excluded=excluded)))
        high = re.compile(whole(up_to_text(bound, excluded=excluded)))
        for text in texts:
            is_in = not excluded or text != bound
            assert bool(low.search(text)) == (text >= bound and is_in)
            assert bool(high.search(text)) == (text <= bound and is_in)


def test_nothing_matches_none_of_no_expressions() -> None:
    assert not re.search(one_of([]), "a\n")
