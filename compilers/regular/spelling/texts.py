"""The texts that JSON spells the numbers of a set with, as an automaton.

Digits are compared with the bounds of the set as they are read, and told apart as far as its
patterns tell them (``steps``); the exponents that may follow stand behind (``powers``).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.row_store import RowStore, grown_rows
from cdec.compilers.regular.automaton import MAX_STATES, Automaton, smallest, too_large
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.spelling.layout import FRACTION, WHOLE, laid_out
from cdec.compilers.regular.spelling.lists import listed
from cdec.compilers.regular.spelling.powers import BYTE_CLASS, power_states
from cdec.compilers.regular.spelling.sets import NumberSet
from cdec.compilers.regular.spelling.steps import (
    FULL,
    HEAD,
    LETTER,
    PHASE,
    SYMBOLS,
    exponents,
    spell,
)
from cdec.compilers.regular.spelling.tables import Answers, Bounds, Sizes

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
    tables = laid_out(whole, others)
    bounds, answers, sizes = tables
    width = HEAD + (1 + int(sizes.has_powers)) * int(np.diff(bounds.sides).max())
    store = RowStore()
    store.add(np.zeros(width, np.int32))
    delta, labels = np.full((128, SYMBOLS), -1, np.int32), np.zeros((128, 1), np.int32)
    progress, status = np.zeros(1, np.int64), FULL
    while status == FULL:
        store.reserve(SYMBOLS + 1, SYMBOLS * width)
        delta = grown_rows(delta, len(store) + SYMBOLS + 1)
        labels = grown_rows(labels, len(store) + SYMBOLS + 1)
        status = spell(*tables, store.rows, delta, labels.reshape(-1), progress)
        if len(store) > MAX_STATES:
            raise too_large()
    n = len(store)
    rows = store.content()[1].reshape(n, width)
    found = _with_exponents(rows, delta[:n], labels[:n, 0], tables)
    return found, sizes, len(answers.following)


def _with_exponents(
    rows: NDArray[np.int32],
    delta: NDArray[np.int32],
    labels: NDArray[np.int32],
    tables: tuple[Bounds, Answers, Sizes],
) -> Automaton:
    """Return the automaton of states that end with letters, and of the exponents behind these."""
    letters = np.flatnonzero(rows[:, PHASE] == LETTER)
    if len(letters):
        allowed = np.empty((len(letters), 2 * tables[2].far + 1), np.bool_)
        exponents(*tables, rows[letters], allowed)
        powers = power_states(allowed, len(rows))
        delta[letters] = powers.delta[powers.behind - len(rows)]
        delta, labels = np.vstack((delta, powers.delta)), np.concatenate((labels, powers.labels))
    return smallest(BYTE_CLASS, delta, labels)
