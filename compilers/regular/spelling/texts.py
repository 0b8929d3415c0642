"""The texts that JSON spells the numbers of a set with, as an automaton.

Digits are compared with the bounds of the set as they are read, and counted modulo what its
patterns repeat after (``steps``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import gcd

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.row_store import RowStore, grown_rows
from cdec.compilers.regular.automaton import MAX_STATES, Automaton, smallest, too_large
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.compilers.regular.spelling.sets import (
    ALL_NUMBERS,
    INTEGERS,
    Exact,
    NumberSet,
    Pattern,
    common_grid,
)
from cdec.compilers.regular.spelling.steps import FULL, HEAD, SYMBOLS, spell
from cdec.compilers.regular.spelling.tables import (
    LEAST_DOWN,
    MANTISSA,
    Answers,
    Bounds,
    Sizes,
    has_powers,
)
from cdec.compilers.regular.words import words_automaton

_SYMBOLS = "\0+-.0123456789E"
_WHOLE, _FRACTION, _EXPONENT = 64, 25, 5
"""Digits that numbers may have before and behind the point, where no bound of a set has as many,
and in an exponent."""
_COUNTED = 64
"""Digits are counted where multiples repeat after so few numbers: each takes as many states."""
_SEVERAL, _MOST = 8, 100_000
"""Integers that are listed instead of compared."""


@lru_cache(maxsize=1024)
def numbers_automaton(whole: NumberSet, others: NumberSet) -> Automaton:
    """Return the automaton of the texts of a set.

    Args:
        whole: Integers that are in where they are spelled without point and exponent.
        others: Numbers that are in where they are spelled with one.

    Raises:
        LimitError: It has too many states.
    """
    listed = _listed(whole, others)
    found, sizes = (listed, None) if listed is not None else _compared(whole, others)
    if sizes is None:
        return found & _bounded(_WHOLE, _FRACTION)
    if sizes.modulus > _COUNTED:
        return found
    most = max(_WHOLE, sizes.longest + 1), max(_FRACTION, sizes.deepest + 1)
    return found & _bounded(*most)


@lru_cache(maxsize=64)
def _bounded(whole: int, fraction: int) -> Automaton:
    """Return the texts of numbers with so many digits before and behind the point at most."""
    digits = "[0-9]{1,%d}"
    return pattern_automaton(
        f"-?{digits % whole}(?:\\.{digits % fraction})?(?:[eE][+-]?{digits % _EXPONENT})?",
        search=False,
    )


def _compared(whole: NumberSet, others: NumberSet) -> tuple[Automaton, Sizes]:
    """Return the automaton of texts with any number of digits, and how far they are counted."""
    # What is no integer is not spelled as one.
    whole = whole.combined(INTEGERS, (True, False, True, True))
    cuts = sorted({*whole.cuts, *others.cuts})
    sides = [cut for cut in cuts if cut > 0], [-cut for cut in reversed(cuts) if cut < 0]
    bounds = _bounds(sides)
    patterns = list(dict.fromkeys((*whole.patterns, *others.patterns)))
    sizes = _sizes(bounds, patterns, others)
    answers = _answers((whole, others), patterns, sides, sizes)
    powers = np.array(
        [not sizes.is_any and has_powers(bounds, answers, sizes, side) for side in (0, 1)]
    )
    width = HEAD + (1 + int(powers.any())) * max(map(len, sides))
    store = RowStore()
    store.add(np.zeros(width, np.int32))
    delta, labels = np.full((128, SYMBOLS), -1, np.int32), np.zeros((128, 1), np.int32)
    progress, status = np.zeros(1, np.int64), FULL
    while status == FULL:
        store.reserve(SYMBOLS + 1, SYMBOLS * width)
        delta = grown_rows(delta, len(store) + SYMBOLS + 1)
        labels = grown_rows(labels, len(store) + SYMBOLS + 1)
        status = spell(
            bounds, answers, sizes, powers, store.rows, delta, labels.reshape(-1), progress
        )
        if len(store) > MAX_STATES:
            raise too_large()
    n = len(store)
    return smallest(_BYTE_CLASS, delta[:n], labels[:n, 0]), sizes


def _listed(whole: NumberSet, others: NumberSet) -> Automaton | None:
    """Return the automaton of some integers, None where there are others, few or large ones."""
    members = whole.members()
    if members is None or others.members() is None or len(whole.cuts) < _SEVERAL:
        return None
    in_whole = list(islice(members, _MOST + 1))
    in_others = list(islice(others.members() or (), _MOST + 1))
    both = [*in_whole, *in_others]
    if len(both) > _MOST or any(v.denominator > 1 or abs(v) >= 10**MANTISSA for v in both):
        return None
    found = words_automaton(_spelled(in_whole))
    if not in_others:
        return found
    pointed = words_automaton(f"{text}.0" for text in _spelled(in_others))
    rows, end = pointed.rows.copy(), int(np.flatnonzero(pointed.accepts)[0])
    rows[end, pointed.byte_class[ord("0")]] = end
    labels = pointed.accepts.astype(np.int32)
    return found | smallest(pointed.byte_class, rows, labels)


def _spelled(values: Sequence[Exact]) -> list[str]:
    return [str(value.numerator) for value in values] + ["-0"] * (0 in values)


def _byte_class() -> NDArray[np.int32]:
    found = np.zeros(256, np.int32)
    found[[ord(symbol) for symbol in _SYMBOLS]] = np.arange(SYMBOLS)
    found[ord("e")] = found[ord("E")]
    return found


_BYTE_CLASS = _byte_class()


def _bounds(sides: Sequence[Sequence[Exact]]) -> Bounds:
    """Write the sizes of cuts as digits."""
    digits: list[int] = []
    whole, fraction, scientific, exponents = [], [], [], []
    for size in (*sides[0], *sides[1]):
        places = _places(size)
        figures = str(int(size * 10**places)).rjust(places + 1, "0")
        before = len(figures) - places
        stripped = figures.lstrip("0")
        at, skipped = len(digits), len(figures) - len(stripped)
        digits += map(int, figures)
        whole.append((at, before))
        fraction.append((at + before, places))
        exponents.append(before - 1 - skipped)
        # No number is written with the exponent of the others, so their digits are not compared.
        written = 0 if LEAST_DOWN < exponents[-1] < MANTISSA else len(stripped.rstrip("0"))
        scientific.append((at + skipped, written))
    return Bounds(
        np.cumsum([0, len(sides[0]), len(sides[1])]).astype(np.int64),
        np.array(whole, np.int64).reshape(-1, 2),
        np.array(fraction, np.int64).reshape(-1, 2),
        np.array(scientific, np.int64).reshape(-1, 2),
        np.array(exponents, np.int64),
        np.array(digits, np.uint8),
    )


def _sizes(bounds: Bounds, patterns: Sequence[Pattern], others: NumberSet) -> Sizes:
    """Say how far digits are counted."""
    places, modulus, grid = 0, 1, common_grid(patterns)
    if grid is not None:
        places = _places(grid[0])
        modulus = int(grid[1] * 10**places)
    if modulus > MAX_STATES:
        raise too_large()
    margin = next((t for t in range(modulus.bit_length() + 1) if 10**t % modulus == 0), -1)
    deepest = max(places, int(bounds.fraction[:, 1].max(initial=0)))
    deep = max(deepest, int(bounds.scientific[:, 1].max(initial=0)), MANTISSA)
    far = max(int(np.abs(bounds.exponent).max(initial=0)), MANTISSA + margin, places) + 1
    longest = int(bounds.whole[:, 1].max(initial=0))
    whole_modulus = modulus // gcd(modulus, 10**places)
    has_grid = grid is not None
    return Sizes(
        places, modulus, whole_modulus, margin, longest, deepest, deep, far,
        others == ALL_NUMBERS, has_grid,
    )  # fmt: skip


def _answers(
    sets: tuple[NumberSet, NumberSet],
    patterns: Sequence[Pattern],
    sides: Sequence[Sequence[Exact]],
    sizes: Sizes,
) -> Answers:
    number_of = {pattern: i for i, pattern in enumerate(patterns)}
    pieces = np.zeros((2, 2, 2 * max(map(len, sides)) + 1), np.int32)
    for which, numbers in enumerate(sets):
        for side, bounds in enumerate(sides):
            for at, value in enumerate(_between_bounds(bounds)):
                piece = numbers.piece(-value if side else value)
                pieces[which, side, at] = number_of[numbers.patterns[piece]]
    on = np.zeros((len(patterns), sizes.modulus), np.bool_)
    scale = 10**sizes.places
    for i, pattern in enumerate(patterns):
        if pattern.grid:
            step, span = pattern.grid * scale, pattern.grid * pattern.period * scale
            for residue in pattern.residues:
                # Of grid numbers those with no more places than are counted stand in a number.
                first = residue * step
                values = [first + k * span for k in range(int(sizes.modulus / span))]
                on[i, [int(v) for v in values if v.denominator == 1]] = True
            if pattern.off:
                on[i] |= ~_grid_places(pattern.grid * scale, sizes.modulus)
    return Answers(
        pieces,
        np.array([numbers.holds(0) for numbers in sets]),
        np.array([pattern.off for pattern in patterns]),
        np.array([pattern.grid > 0 for pattern in patterns]),
        on,
    )


def _grid_places(step: Fraction, modulus: int) -> NDArray[np.bool_]:
    """Say of each residue whether it is a multiple of ``step``."""
    places = np.arange(modulus) * step.denominator
    found: NDArray[np.bool_] = places % step.numerator == 0
    return found


def _between_bounds(bounds: Sequence[Exact]) -> list[Exact]:
    """Return a number below the first bound, that bound, one between it and the next, ..."""
    found: list[Exact] = []
    last: Exact = 0
    for bound in bounds:
        found += [Fraction(last + bound) / 2, bound]
        last = bound
    return [*found, last + 1]


def _places(size: Exact) -> int:
    """Return the digits behind the point of a decimal number."""
    rest, twos, fives = size.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives)
