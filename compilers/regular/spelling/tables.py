"""What a set's spelling is decided by: digits of bounds, patterns between them, sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel

MANTISSA = 16
"""Digits behind the point of a number with an exponent, where multiples are told apart; numbers
are written with exponents from this one on."""
LEAST_DOWN = -5
"""Numbers are written with exponents up to this one."""


class Bounds(NamedTuple):
    """The sizes of a set's cuts, by their digits.

    sides: int64[3], bounds of positive and of negative numbers, ascending in size.
    whole, fraction, scientific: int64[B, 2], first digit and number of digits before the point,
    behind it, and of both from the first that is not 0. exponent: int64[B]. digits: uint8.
    """

    sides: NDArray[np.int64]
    whole: NDArray[np.int64]
    fraction: NDArray[np.int64]
    scientific: NDArray[np.int64]
    exponent: NDArray[np.int64]
    digits: NDArray[np.uint8]


class Answers(NamedTuple):
    """Which numbers are in: the first set's where spelled as an integer, else the second's.

    pieces: int32[2 sets, 2 sides, 2 B + 1] pattern between and at the bounds. zero: bool[2].
    off: bool[P] of numbers on no grid; of all, where ``gridded`` bool[P] is false.
    on: bool[P, M] of grid numbers, by residue.
    """

    pieces: NDArray[np.int32]
    zero: NDArray[np.bool_]
    off: NDArray[np.bool_]
    gridded: NDArray[np.bool_]
    on: NDArray[np.bool_]


class Sizes(NamedTuple):
    """What bounds the counting.

    places: Digits behind the point of multiples. modulus: What patterns repeat after, with so many
    digits; whole_modulus: for digits before the point alone. margin: 10^margin is a multiple of it;
    -1: none is. longest, deepest: Most digits of a bound before and behind the point; deep: before
    an exponent. far: Beyond all exponents that matter. is_any: All numbers with a point or exponent
    are in. has_grid: Multiples are told apart.
    """

    places: int
    modulus: int
    whole_modulus: int
    margin: int
    longest: int
    deepest: int
    deep: int
    far: int
    is_any: bool
    has_grid: bool


@inner
def piece_at(answers: Answers, which: int, side: int, order: Any, count: int) -> int:
    """Return the pattern of numbers that compare so with the bounds of a side."""
    above = 0
    while above < count and order[above] > 0:
        above += 1
    at = 2 * above + (1 if above < count and order[above] == 0 else 0)
    found: int = answers.pieces[which, side, at]
    return found


@inner
def is_power_in(answers: Answers, sizes: Sizes, pattern: int, exponent: int, long: int) -> bool:
    """Say whether all numbers are in of which no more is known."""
    if LEAST_DOWN < exponent < MANTISSA:
        return False
    if not answers.gridded[pattern]:
        return bool(answers.off[pattern])
    if long:
        return False
    if exponent < -sizes.places:
        return bool(answers.off[pattern])
    return bool(
        sizes.margin >= 0 and exponent >= MANTISSA + sizes.margin and answers.on[pattern, 0]
    )


@kernel
def has_powers(bounds: Bounds, answers: Answers, sizes: Sizes, side: int) -> bool:
    """Say whether any number with an exponent is in, in the second set, on a side."""
    first, last = bounds.sides[side], bounds.sides[side + 1]
    for exponent in range(-sizes.far, sizes.far + 1):
        below = 0
        while first + below < last and bounds.exponent[first + below] < exponent:
            below += 1
        at = 2 * below
        while True:
            pattern = answers.pieces[1, side, at]
            if is_power_in(answers, sizes, pattern, exponent, 0):
                return True
            bound = first + at // 2
            if bound >= last or (at % 2 == 0 and bounds.exponent[bound] != exponent):
                break
            at += 1
    return False
