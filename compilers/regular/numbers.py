"""Numbers: a set of rational numbers as JSON spells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from cdec.compilers.regular.automaton import MAX_STATES, Automaton, too_large
from cdec.compilers.regular.edges import Edges, automaton_edges, ranges_of, with_words
from cdec.compilers.regular.number_sets import (
    ALL_NUMBERS,
    EVERY,
    FINITE,
    INTEGERS,
    NEITHER,
    NO_NUMBERS,
    Exact,
    NumberSet,
    exact,
    multiples_pattern,
    normal,
)
from cdec.compilers.regular.number_texts import numbers_automaton

Number = Decimal | int | float

_AND, _OR, _WITHOUT = (
    (False, False, False, True),
    (False, True, True, True),
    (False, False, True, False),
)


class Numbers:
    """An immutable set of numbers, exact; whether one is spelled as an integer may matter.

    Which texts stand for a number: decimal ones; and with an exponent all of JSON's where every
    number, or every finite double, is in, else those with one digit before the point, not 0, and
    0 itself. Of a set and its complement never both take a text. So that texts end, a number has
    at most 64 digits before the point and 25 behind it, or one more than a bound of the set has,
    and 5 in an exponent; where more than 64 kinds of digits are told apart for multiples, plain
    digits are not counted. Multiples have at most 17 digits behind the point and before an
    exponent, fewer where they would take thousands of states. Of the finite doubles those that are
    not normalised have exponents from -298 to 244, which lead none of them out of range.

    Raises:
        LimitError: Multiples are too many to be told apart.
    """

    __slots__ = ("_others", "_whole")

    ANY: ClassVar[Numbers]
    NONE: ClassVar[Numbers]
    INTEGERS: ClassVar[Numbers]
    SPELLED_INTEGERS: ClassVar[Numbers]
    """Plain integers: digits without point and exponent."""
    FINITE: ClassVar[Numbers]
    """Finite doubles: what readers of doubles take neither for infinity nor wrongly for 0."""

    def __init__(self, whole: NumberSet, others: NumberSet) -> None:
        """Do not call it: ``between``, ``values`` and ``multiples`` make them.

        Args:
            whole: Integers, those spelled without point and exponent. others: All with one.
        """
        self._whole = whole
        self._others = others

    @staticmethod
    def between(
        low: Number | None = None,
        high: Number | None = None,
        exclude_low: bool = False,
        exclude_high: bool = False,
    ) -> Numbers:
        """Return the numbers from ``low`` to ``high``; None: no bound."""
        found = ALL_NUMBERS
        if low is not None:
            at = NEITHER if exclude_low else EVERY
            above = normal([_exact(low)], [NEITHER, at, EVERY])
            found = found.combined(above, _AND)
        if high is not None:
            at = NEITHER if exclude_high else EVERY
            below = normal([_exact(high)], [EVERY, at, NEITHER])
            found = found.combined(below, _AND)
        return _both(found)

    @staticmethod
    def values(values: Iterable[Number]) -> Numbers:
        """Return the set of some numbers, however they are spelled."""
        cuts = sorted(set(map(_exact, values)))
        found = normal(cuts, [NEITHER, *((EVERY, NEITHER) * len(cuts))])
        return _both(found)

    @staticmethod
    def multiples(of: Number) -> Numbers:
        """Return the multiples of a positive number."""
        found = NumberSet((), (multiples_pattern(_exact(of)),))
        return _both(found)

    def _merged(self, other: Numbers, table: tuple[bool, ...]) -> Numbers:
        return Numbers(
            self._whole.combined(other._whole, table), self._others.combined(other._others, table)
        )

    def __and__(self, other: Numbers) -> Numbers:
        return self._merged(other, _AND)

    def __or__(self, other: Numbers) -> Numbers:
        return self._merged(other, _OR)

    def __sub__(self, other: Numbers) -> Numbers:
        return self._merged(other, _WITHOUT)

    def __xor__(self, other: Numbers) -> Numbers:
        return (self - other) | (other - self)

    def __invert__(self) -> Numbers:
        return Numbers.ANY - self

    def __hash__(self) -> int:
        return hash((self._whole, self._others))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Numbers)
            and self._whole == other._whole
            and self._others == other._others
        )

    def __contains__(self, value: Number) -> bool:
        """Say whether a number is in; a ``Decimal`` with exponent 0 is spelled as an integer."""
        if isinstance(value, float):
            value = Decimal(repr(value))
        is_whole = isinstance(value, int) or value.as_tuple().exponent == 0
        return (self._whole if is_whole else self._others).holds(_exact(value))

    @property
    def is_empty(self) -> bool:
        """True where the set holds no number."""
        return self._whole == NO_NUMBERS and self._others == NO_NUMBERS

    @property
    def is_everything(self) -> bool:
        """True where the set holds all numbers, however spelled."""
        return (~self).is_empty

    def finite(self, limit: int) -> tuple[Decimal | int, ...] | None:
        """Return the numbers in ascending order, None if there are more than ``limit``."""
        found: set[Exact] = set()
        for part in (self._whole, self._others):
            members = part.members()
            if members is None:
                return None
            for value in members:
                found.add(value)
                if len(found) > limit:
                    return None
        return tuple(map(_number, sorted(found)))

    def automaton(self) -> Automaton:
        """Return the automaton of the texts."""
        return numbers_automaton(self._whole, self._others)

    def edges(self) -> Edges:
        """Return the automaton of the texts as edges, label 0 where a number may end."""
        return _edges(self, ())


def union_raw(numbers: Numbers, words: Sequence[str] = ()) -> Edges:
    """Return the automaton of numbers and of ``null``, ``true`` and ``false``.

    Args:
        numbers: May be none. words: Those of the three that are in.
    """
    return _edges(numbers, tuple(sorted(set(words))))


@lru_cache(maxsize=1024)
def _edges(numbers: Numbers, words: tuple[str, ...]) -> Edges:
    automaton = numbers.automaton()
    if not words:
        return automaton_edges(automaton)
    spelled = [word.encode() for word in words]
    return with_words(spelled, np.zeros(len(spelled), np.int32), *ranges_of(automaton))


def _both(found: NumberSet) -> Numbers:
    """Return some numbers however they are spelled."""
    return Numbers(found.combined(INTEGERS, _AND), found)


def _exact(value: Number) -> Exact:
    """Return a number as it is written: of a float the shortest text that reads as it.

    Raises:
        LimitError: It would have more than MAX_STATES digits.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal) and value and abs(value.adjusted()) > MAX_STATES:
        raise too_large()
    return exact(Fraction(repr(value)) if isinstance(value, float) else Fraction(value))


def _number(value: Exact) -> Decimal | int:
    """Return an integer, or the decimal number with as few digits as there are."""
    if value.denominator == 1:
        return value.numerator
    digits, scaled = 0, value
    while scaled.denominator > 1:
        digits, scaled = digits + 1, scaled * 10
    sign, figures = int(scaled < 0), tuple(map(int, str(abs(scaled.numerator))))
    return Decimal((sign, figures, -digits))


Numbers.ANY = _both(ALL_NUMBERS)
Numbers.NONE = Numbers(NO_NUMBERS, NO_NUMBERS)
Numbers.INTEGERS = Numbers(INTEGERS, INTEGERS)
Numbers.SPELLED_INTEGERS = Numbers(INTEGERS, NO_NUMBERS)
Numbers.FINITE = _both(FINITE)
