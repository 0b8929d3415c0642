"""Integers that are listed: their texts as words, where comparing with each would be slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.regular.automaton import Automaton, smallest
from cdec.compilers.regular.spelling.powers import BYTE_CLASS, TEXT_SYMBOLS, power_states
from cdec.compilers.regular.spelling.sets import Exact, NumberSet
from cdec.compilers.regular.spelling.tables import DIGIT, DOT, LETTER_E, SYMBOLS
from cdec.compilers.regular.words import words_automaton

_SEVERAL, _MOST = 8, 100_000
_DIGITS = 16
_ZERO = chr(ord("A") + _DIGITS)
"""Stands where letters from A on stand for exponents: behind 0 any may follow."""


def listed(whole: NumberSet, others: NumberSet) -> Automaton | None:
    """Return the automaton of some integers, None where there are others, few or large ones."""
    members = whole.members()
    if members is None or others.members() is None or len(whole.cuts) < _SEVERAL:
        return None
    in_whole = list(islice(members, _MOST + 1))
    in_others = list(islice(others.members() or (), _MOST + 1))
    both = [*in_whole, *in_others]
    if len(both) > _MOST or any(v.denominator > 1 or abs(v) >= 10**_DIGITS for v in both):
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
    letters = [chr(ord("A") + i) for i in range(_DIGITS + 1)]
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
    allowed = np.zeros((count, 2 * _DIGITS + 1), np.bool_)
    allowed[:, _DIGITS : 2 * _DIGITS] = marks[ends, :_DIGITS]
    allowed |= marks[ends, _DIGITS:]
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
