"""Layout of a set of numbers for what reads its texts: digits of bounds, classes, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states import merged_states
from cdec.compilers.regular.automaton import MAX_STATES, too_large
from cdec.compilers.regular.number_sets import (
    ALL_NUMBERS,
    FINITE,
    INTEGERS,
    NEITHER,
    NO_NUMBERS,
    Exact,
    NumberSet,
    Pattern,
    common_grid,
)

SYMBOLS = 15
"""Other bytes, plus, minus, point, ten digits, the letter of exponents."""
PLUS, MINUS, DOT, DIGIT, LETTER_E = 1, 2, 3, 4, 14
WHOLE, FRACTION = 64, 25
"""Digits that numbers may have before and behind the point, where no bound of a set has as many."""
_MANTISSA, _ROOM = 17, 4000
"""Most digits behind the point and before an exponent where multiples are told apart, and states
that may be spent on that."""
_DOWN, _UP = 298, 244
"""With exponents from -_DOWN to _UP no number of so many digits leaves the range of doubles."""
_AND, _XOR = (False, False, False, True), (False, True, True, False)


class Bounds(NamedTuple):
    """The sizes of a set's cuts, by their digits.

    sides: int64[3], bounds of positive and of negative numbers, ascending in size.
    whole, fraction, scientific: int64[B, 2], first digit and number of digits before the point,
    behind it, and of both from the first to the last that is not 0. exponent: int64[B], of the
    first of these. digits: uint8.
    """

    sides: NDArray[np.int64]
    whole: NDArray[np.int64]
    fraction: NDArray[np.int64]
    scientific: NDArray[np.int64]
    exponent: NDArray[np.int64]
    digits: NDArray[np.uint8]


class Answers(NamedTuple):
    """Members of a set: the first set's where spelled as an integer, else the second's.

    pieces: int32[2 sets * 2 sides, 2 B + 1] pattern between and at the bounds. zero: bool[2].
    off: bool[P] of numbers on no grid; of all, where ``gridded`` bool[P] is false.
    following: int32[C, 10] class of digits that are followed by one more; those of class 0 are none
    or zeros. on: bool[P * 2 sides, C] of numbers on the grid, by the class of their digits up to
    the last place that multiples have.
    """

    pieces: NDArray[np.int32]
    zero: NDArray[np.bool_]
    off: NDArray[np.bool_]
    gridded: NDArray[np.bool_]
    following: NDArray[np.int32]
    on: NDArray[np.bool_]


class Sizes(NamedTuple):
    """Bounds of the counting.

    places: Digits behind the point of multiples. most: Digits before the point of any number;
    bounds with more are larger than all. longest, deepest: Most digits of other bounds before and
    behind the point; deep: before an exponent. mantissa: Digits behind the point and before an
    exponent, where multiples are told apart; depth: those up to the last that is not 0. far: Beyond
    all exponents that matter. has_powers: Numbers may have an exponent. is_any: All numbers with a
    point or exponent are in; down, up: such that are not normalised have exponents from -down to
    up. has_grid: Multiples are told apart.
    """

    places: int
    most: int
    longest: int
    deepest: int
    deep: int
    mantissa: int
    depth: int
    far: int
    has_powers: bool
    is_any: bool
    down: int
    up: int
    has_grid: bool


def laid_out(whole: NumberSet, others: NumberSet) -> tuple[Bounds, Answers, Sizes]:
    """Lay a set out.

    Args:
        whole, others: As for ``numbers_automaton``.

    Raises:
        LimitError: Multiples repeat too late.
    """
    is_bounded = all(
        numbers.patterns[end] == NEITHER for numbers in (whole, others) for end in (0, -1)
    )
    # What is no integer is not spelled as one, so one set will do where integers are in both.
    if whole.combined(others.combined(INTEGERS, _AND), _XOR) == NO_NUMBERS:
        whole = others
    else:
        whole = whole.combined(INTEGERS, (True, False, True, True))
    cuts = sorted({*whole.cuts, *others.cuts})
    sides = [cut for cut in cuts if cut > 0], [-cut for cut in reversed(cuts) if cut < 0]
    bounds = _bounds(sides)
    patterns = list(dict.fromkeys((*whole.patterns, *others.patterns)))
    answers, places = _answers((whole, others), patterns, sides)
    # The range of doubles takes no digits of its own: exponents alone lead out of it.
    ends = FINITE.cuts if is_bounded else ()
    own = np.array([cut not in ends for side in sides for cut in side], np.bool_)
    return bounds, answers, _sizes(own, bounds, answers, places, others)


def _bounds(sides: Sequence[Sequence[Exact]]) -> Bounds:
    """Write the sizes of cuts as digits."""
    digits: list[int] = []
    whole, fraction, scientific, exponents = [], [], [], []
    for size in (*sides[0], *sides[1]):
        places = _places(size)
        # subtle: ``str`` of an integer refuses more than 4,300 digits.
        figures = f"{Decimal(int(size * 10**places)):f}".rjust(places + 1, "0")
        before = len(figures) - places
        stripped = figures.lstrip("0")
        at, skipped = len(digits), len(figures) - len(stripped)
        digits += map(int, figures)
        whole.append((at, before))
        fraction.append((at + before, places))
        exponents.append(before - 1 - skipped)
        scientific.append((at + skipped, len(stripped.rstrip("0"))))
    return Bounds(
        np.cumsum([0, len(sides[0]), len(sides[1])]).astype(np.int64),
        np.array(whole, np.int64).reshape(-1, 2),
        np.array(fraction, np.int64).reshape(-1, 2),
        np.array(scientific, np.int64).reshape(-1, 2),
        np.array(exponents, np.int64),
        np.array(digits, np.uint8),
    )


def _sizes(
    own: NDArray[np.bool_], bounds: Bounds, answers: Answers, places: int, others: NumberSet
) -> Sizes:
    """Say how far digits are counted; before and behind the point by ``own`` bounds."""
    longest = int(bounds.whole[own, 1].max(initial=0))
    deepest = max(places, int(bounds.fraction[own, 1].max(initial=0)))
    most = max(WHOLE, longest + 1)
    tracked = bounds.whole[:, 1] <= most
    kinds = len(answers.following)
    depth = _depth(answers, bounds, places, others)
    mantissa = _mantissa(kinds, depth)
    deep = max(deepest, int(bounds.scientific[:, 1].max(initial=0)), mantissa + 1)
    # Behind so many zeros the class of digits changes no more.
    settled = min(kinds, MAX_STATES.bit_length())
    far = int(np.abs(bounds.exponent).max(initial=0)) + _MANTISSA + places + settled + 1
    is_any = others in (ALL_NUMBERS, FINITE)
    down, up = (_DOWN, _UP) if others == FINITE else (far, far)
    return Sizes(
        places, most, int(bounds.whole[tracked, 1].max(initial=0)), deepest, deep, mantissa, depth,
        far, others != NO_NUMBERS, is_any, down, up, bool(answers.gridded.any()),
    )  # fmt: skip


def _depth(answers: Answers, bounds: Bounds, places: int, others: NumberSet) -> int:
    """Return how many digits up to the last that is not 0 multiples have before an exponent."""
    is_open = others.patterns[0] != NEITHER or others.patterns[-1] != NEITHER
    if is_open or bool((answers.gridded & answers.off).any()):
        return _MANTISSA
    largest = max(0, int(bounds.exponent.max(initial=0)))
    return min(_MANTISSA, largest + places)


def _mantissa(kinds: int, depth: int) -> int:
    """Return how many digits behind the point are told apart before an exponent.

    Args:
        kinds: Of digits. depth: Most of them that end with another digit than 0.
    """
    room, digits = _ROOM, 0
    while digits < _MANTISSA:
        room -= sum(min(kinds, 10 ** (k + 1)) for k in range(min(digits + 1, depth) + 1))
        if room < 0:
            break
        digits += 1
    return digits


def _answers(
    sets: tuple[NumberSet, NumberSet],
    patterns: Sequence[Pattern],
    sides: Sequence[Sequence[Exact]],
) -> tuple[Answers, int]:
    """Say which numbers are in; return also the digits behind the point of multiples."""
    number_of = {pattern: i for i, pattern in enumerate(patterns)}
    pieces = np.zeros((4, 2 * max(map(len, sides)) + 1), np.int32)
    for which, numbers in enumerate(sets):
        for side, bounds in enumerate(sides):
            for at, value in enumerate(_between_bounds(bounds)):
                piece = numbers.piece(-value if side else value)
                pieces[2 * which + side, at] = number_of[numbers.patterns[piece]]
    on, places = _residues(patterns)
    following, on = _told_apart(on)
    return Answers(
        pieces,
        np.array([numbers.holds(0) for numbers in sets]),
        np.array([pattern.off for pattern in patterns]),
        np.array([pattern.grid > 0 for pattern in patterns]),
        following,
        on,
    ), places


def _residues(patterns: Sequence[Pattern]) -> tuple[NDArray[np.bool_], int]:
    """Say of numbers with ``places`` digits behind the point, as integers, which are in.

    Returns:
        (bool[P, 2 sides, modulus], ``places``).

    Raises:
        LimitError: They repeat too late.
    """
    places, modulus, grid = 0, 1, common_grid(patterns)
    if grid is not None:
        places = _places(grid[0])
        modulus = int(grid[1] * 10**places)
    if modulus > MAX_STATES:
        raise too_large()
    on = np.zeros((len(patterns), modulus), np.bool_)
    scale = 10**places
    for i, pattern in enumerate(patterns):
        if pattern.grid:
            step, span = pattern.grid * scale, pattern.grid * pattern.period * scale
            for residue in pattern.residues:
                # Of grid numbers those with no more places than are counted stand in a number.
                first = residue * step
                values = [first + k * span for k in range(int(modulus / span))]
                on[i, [int(v) for v in values if v.denominator == 1]] = True
            if pattern.off:
                on[i] |= ~_grid_places(pattern.grid * scale, modulus)
    negative = on[:, -np.arange(modulus) % modulus]
    return np.stack((on, negative), axis=1), places


def _told_apart(on: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the classes of digits that no further digits tell apart.

    Args:
        on: bool[P, 2 sides, modulus].

    Returns:
        ``following`` and ``on`` of ``Answers``.
    """
    modulus = on.shape[2]
    delta = ((np.arange(modulus)[:, None] * 10 + np.arange(10)) % modulus).astype(np.int32)
    _, labels = np.unique(on.reshape(-1, modulus), axis=1, return_inverse=True)
    start = np.zeros(1, np.int32)
    following, old, _ = merged_states(delta, labels.ravel().astype(np.int32) + 1, start)
    return following, np.ascontiguousarray(on[:, :, old]).reshape(-1, len(old))


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
