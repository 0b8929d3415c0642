"""What a set's spelling is decided by: digits of bounds, patterns between them, sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SYMBOLS = 15
"""Other bytes, plus, minus, point, ten digits, the letter of exponents."""
PLUS, MINUS, DOT, DIGIT, LETTER_E = 1, 2, 3, 4, 14


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
    """Which numbers are in: the first set's where spelled as an integer, else the second's.

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
    """What bounds the counting.

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
