"""The texts that JSON spells the numbers of a set with, as an automaton.

Digits are compared with the bounds of the set as they are read, and told apart as far as its
patterns tell them; the exponents that may follow stand behind (``powers``).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cdec.compilers.grammars.states.construction import Most, constructed
from cdec.compilers.regular.automaton import MAX_STATES, Automaton, smallest, too_large
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.spelling.layout import FRACTION, WHOLE, laid_out
from cdec.compilers.regular.spelling.lists import listed
from cdec.compilers.regular.spelling.powers import BYTE_CLASS, power_states
from cdec.compilers.regular.spelling.sets import NumberSet
from cdec.compilers.regular.spelling.tables import Sizes
from cdec.core.native import library

_END, _LETTER = 1, 2
"""What a state says: a number may end, the letter of an exponent was read."""
_EXPONENT = 5
"""Digits that an exponent may have."""
_COUNTED = 64
"""Digits are counted where so few kinds of them are told apart: each takes as many states."""


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
