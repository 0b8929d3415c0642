"""Texts that JSON spells the numbers of a set with, as an automaton.

Digits are compared with the bounds of the set as they are read, and told apart as far as its
patterns tell them; exponents stand behind, laid out as states. Integers that are listed are words,
where comparing with each would be slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states import Most, constructed
from cdec.compilers.regular.automaton import (
    MAX_STATES,
    Automaton,
    smallest,
    too_large,
    words_automaton,
)
from cdec.compilers.regular.number_layout import (
    DIGIT,
    DOT,
    FRACTION,
    LETTER_E,
    MINUS,
    PLUS,
    SYMBOLS,
    WHOLE,
    Sizes,
    laid_out,
)
from cdec.compilers.regular.number_sets import Exact, NumberSet
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.core.native import library

TEXT_SYMBOLS = "\0+-.0123456789E"
"""The symbols that are told apart, in order; the first stands for all others."""
_DIGITS = slice(DIGIT, DIGIT + 10)
_SHARED = 3
_SEVERAL, _MOST = 8, 100_000
_MOST_DIGITS = 16
_ZERO = chr(ord("A") + _MOST_DIGITS)
"""Stands where letters from A on stand for exponents: behind 0 any may follow."""
_END, _LETTER = 1, 2
"""Marks of states: a number may end, the letter of an exponent was read."""
_EXPONENT = 5
"""Digits that an exponent may have."""
_COUNTED = 64
"""Digits are counted where so few kinds of them are told apart: each takes as many states."""


def _byte_class() -> NDArray[np.int32]:
    found = np.zeros(256, np.int32)
    found[[ord(symbol) for symbol in TEXT_SYMBOLS]] = np.arange(SYMBOLS)
    found[ord("e")] = found[ord("E")]
    return found


BYTE_CLASS = _byte_class()


class Powers(NamedTuple):
    """States that read exponents.

    delta: int32[n, SYMBOLS] to states of a larger automaton. labels: int32[n], 1 where a number may
    end. behind: int32[m] the one of these that follows each letter.
    """

    delta: NDArray[np.int32]
    labels: NDArray[np.int32]
    behind: NDArray[np.int32]


def power_states(allowed: NDArray[np.bool_], first: int) -> Powers:
    """Return the states behind letters; a sign and zeros may stand before any exponent.

    Args:
        allowed: bool[m, 2 far + 1] which exponents may follow each of m letters, from -far to far;
            those beyond are as the outermost one of their sign.
        first: Number of the first state in the larger automaton.
    """
    _, rows, kinds = np.unique(
        np.packbits(allowed, axis=1), axis=0, return_index=True, return_inverse=True
    )
    far = allowed.shape[1] // 2
    # Behind a letter stands one state of its kind, and for each sign one behind it and one for
    # every exponent that can have a further digit.
    short = far // 10 + 1
    width = 1 + 2 * (1 + short)
    delta = np.full((len(rows) * width + _SHARED, SYMBOLS), -1, np.int32)
    labels = np.zeros(len(delta), np.int32)
    shared = first + len(rows) * width
    ended, any_more, one_more = range(shared, shared + _SHARED)
    labels[[ended - first, any_more - first]] = 1
    delta[[any_more - first, one_more - first], _DIGITS] = any_more
    sizes = np.arange(short)[:, None] * 10 + np.arange(10)
    for kind, row in enumerate(rows):
        at = kind * width
        for sign, signed in ((PLUS, allowed[row, far:]), (MINUS, allowed[row, far::-1])):
            own = at + 1 + (1 + short) * (sign == MINUS)
            goes_on = bool(signed[far])
            last = np.where(
                signed[np.minimum(sizes, far)], any_more if goes_on else ended,
                one_more if goes_on else -1,
            )  # fmt: skip
            targets = np.where(sizes < short, first + own + 1 + sizes, last)
            delta[own, _DIGITS] = targets[0]
            delta[own + 1 : own + 1 + short, _DIGITS] = targets
            labels[own + 1 : own + 1 + short] = signed[:short]
            delta[at, sign] = first + own
        delta[at, _DIGITS] = delta[at + 1, _DIGITS]
    return Powers(delta, labels, (first + kinds.ravel() * width).astype(np.int32))


def listed(whole: NumberSet, others: NumberSet) -> Automaton | None:
    """Return the automaton of some integers, None where there are others, few or large ones."""
    members = whole.members()
    if members is None or others.members() is None or len(whole.cuts) < _SEVERAL:
        return None
    in_whole = list(islice(members, _MOST + 1))
    in_others = list(islice(others.members() or (), _MOST + 1))
    both = [*in_whole, *in_others]
    if len(both) > _MOST or any(v.denominator > 1 or abs(v) >= 10**_MOST_DIGITS for v in both):
        return None
    found = words_automaton(_spelled(in_whole))
    if not in_others:
        return found
    pointed = words_automaton(f"{text}.0" for text in _spelled(in_others))
    rows, end = pointed.rows.copy(), int(np.flatnonzero(pointed.accepts)[0])
    rows[end, pointed.byte_class[ord("0")]] = end
    labels = pointed.accepts.astype(np.int32)
    return found | smallest(pointed.byte_class, rows, labels) | _scientific(in_others)


def _spelled(values: Sequence[Exact]) -> list[str]:
    return [str(value.numerator) for value in values] + ["-0"] * (0 in values)


def _scientific(values: Sequence[Exact]) -> Automaton:
    """Return the automaton of some integers with exponents."""
    marked = words_automaton(_marked(values))
    delta = _delta(marked)
    letters = [chr(ord("A") + i) for i in range(_MOST_DIGITS + 1)]
    marks = marked.rows[:, marked.byte_class[[ord(letter) for letter in letters]]] >= 0
    marks &= np.array([letter in "".join(_marks(values)) for letter in letters])
    ends = np.flatnonzero(marks.any(axis=1))
    n, count = len(delta), len(ends)
    behind, zeros = n + np.arange(count), n + count + np.arange(count)
    delta = np.vstack((delta, np.full((2 * count, SYMBOLS), -1, np.int32)))
    delta[ends, LETTER_E] = delta[zeros, LETTER_E] = behind
    # Behind the digits of the longest of the numbers only zeros may stand.
    is_last = (delta[ends, DIGIT] < 0) & (delta[ends, DOT] < 0)
    delta[ends[is_last], DIGIT] = zeros[is_last]
    delta[zeros, DIGIT] = zeros
    allowed = np.zeros((count, 2 * _MOST_DIGITS + 1), np.bool_)
    allowed[:, _MOST_DIGITS : 2 * _MOST_DIGITS] = marks[ends, :_MOST_DIGITS]
    allowed |= marks[ends, _MOST_DIGITS:]
    powers = power_states(allowed, len(delta))
    delta[behind] = powers.delta[powers.behind - len(delta)]
    labels = np.concatenate((np.zeros(len(delta), np.int32), powers.labels))
    return smallest(BYTE_CLASS, np.vstack((delta, powers.delta)), labels)


def _marks(values: Sequence[Exact]) -> set[str]:
    return {_mark(value) for value in values}


def _mark(value: Exact) -> str:
    return chr(ord("A") + len(str(abs(value.numerator))) - 1) if value else _ZERO


def _marked(values: Sequence[Exact]) -> Iterator[str]:
    """Yield the digits before exponents, as long as those of any of the numbers, with marks."""
    longest = max(2, *(len(str(abs(value.numerator)).rstrip("0")) for value in values))
    for value in values:
        digits, mark = str(abs(value.numerator)).rstrip("0") or "0", _mark(value)
        for sign in ("", "-") if value == 0 else ("-",) if value < 0 else ("",):
            if len(digits) == 1:
                yield f"{sign}{digits}{mark}"
            for size in range(max(2, len(digits)), longest + 1):
                yield f"{sign}{digits[0]}.{digits[1:].ljust(size - 1, '0')}{mark}"


def _delta(automaton: Automaton) -> NDArray[np.int32]:
    """Return what follows each state by symbols."""
    classes = automaton.byte_class[np.frombuffer(TEXT_SYMBOLS.encode(), np.uint8)]
    found = automaton.rows[:, classes]
    found[:, [0, LETTER_E]] = -1
    return found


@lru_cache(maxsize=1024)
def numbers_automaton(whole: NumberSet, others: NumberSet) -> Automaton:
    """Return the automaton of the texts of a set.

    Args:
        whole: Integers that are in where they are spelled without point and exponent.
        others: Numbers that are in where they are spelled with one.

    Raises:
        LimitError: It has too many states.
    """
    found = listed(whole, others)
    if found is not None:
        return found & _bounded(WHOLE, FRACTION)
    found, sizes, kinds = _compared(whole, others)
    if kinds > _COUNTED:
        return found & _bounded(None, None)
    return found & _bounded(sizes.most, max(FRACTION, sizes.deepest + 1))


@lru_cache(maxsize=64)
def _bounded(whole: int | None, fraction: int | None) -> Automaton:
    """Return the texts of numbers with so many digits before and behind the point at most."""
    before, behind, power = (f"[0-9]{{1,{n or ''}}}" for n in (whole, fraction, _EXPONENT))
    return pattern_automaton(f"-?{before}(?:\\.{behind})?(?:[eE][+-]?{power})?", search=False)


def _compared(whole: NumberSet, others: NumberSet) -> tuple[Automaton, Sizes, int]:
    """Return the automaton of texts with any number of digits, and how these are counted.

    Returns:
        Also how many kinds of digits are told apart for multiples.
    """
    bounds, answers, sizes = laid_out(whole, others)
    begun = library.spell_numbers(bounds, answers, sizes)
    found = constructed(begun, Most(MAX_STATES))
    if found is None:
        raise too_large()
    ends = np.empty(len(found.delta), np.uint8)
    library.spelling_ends(begun, ends)
    delta, labels = found.delta, (ends == _END).astype(np.int32)
    letters = np.flatnonzero(ends == _LETTER)
    if len(letters):
        allowed = np.empty((len(letters), 2 * sizes.far + 1), np.bool_)
        library.spelling_exponents(begun, letters, allowed)
        powers = power_states(allowed, len(delta))
        delta[letters] = powers.delta[powers.behind - len(delta)]
        delta, labels = np.vstack((delta, powers.delta)), np.concatenate((labels, powers.labels))
    return smallest(BYTE_CLASS, delta, labels), sizes, len(answers.following)
