"""Compiled loop that reads the spelling of a number symbol by symbol.

A state is a row of numbers, what was learnt so far: ``_PHASE`` where the reader is, ``_SIDE`` 1
after a minus, ``_ZERO`` only zeros were read, ``_COUNT`` digits on this side of the point,
``_RESIDUE`` digits modulo what the patterns repeat after, ``_OFF`` a digit, not 0, stands where no
multiple has one, ``_POWER`` an exponent may follow, ``_LONG`` more digits than are told apart
before one, ``_DOWN`` its minus, ``_SIZE`` its digits. Then follows, for every bound of the side,
-1: smaller than it, 0: as yet the same digits, 1: larger; and the same of the digits from the first
one on that is not 0, as they stand before an exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.compilers.grammars.states.row_store import Rows, intern_row
from cdec.compilers.regular.spelling.tables import (
    MANTISSA,
    Answers,
    Bounds,
    Sizes,
    is_power_in,
    piece_at,
)
from cdec.core.kernels import inner, kernel

DONE = 0
FULL = 1
SYMBOLS = 15
"""Other bytes, plus, minus, point, ten digits, the letter of exponents."""
HEAD = 10
"""Numbers of a row before those of the bounds."""
_PLUS, _MINUS_SIGN, _DOT, _DIGIT, _LETTER_E = 1, 2, 3, 4, 14
_PHASE, _SIDE, _ZERO, _COUNT, _RESIDUE, _OFF, _POWER, _LONG, _DOWN, _SIZE = range(HEAD)
_START, _MINUS, _NAUGHT, _WHOLE, _POINT, _FRACTION, _LETTER, _SIGN, _DIGITS = range(9)
_ANY_SIDE = 2


@inner
def _compared(digit: int, spans: Any, bound: int, at: int, digits: Any) -> int:
    """Compare a digit with a bound's digit at a place; behind its last one stand zeros."""
    other = np.int64(digits[spans[bound, 0] + at]) if at < spans[bound, 1] else 0
    return 1 if digit > other else -1 if digit < other else 0


@inner
def _begin(row: Any, digit: int, bounds: Bounds, sizes: Sizes, powers: Any) -> None:
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    row[_PHASE] = _WHOLE if digit else _NAUGHT
    row[_ZERO], row[_COUNT], row[_RESIDUE] = digit == 0, 1, digit % sizes.whole_modulus
    row[_POWER] = digit > 0 and powers[side]
    for b in range(count):
        row[HEAD + b] = _compared(digit, bounds.whole, first + b, 0, bounds.digits)
        if row[_POWER]:
            order = _compared(digit, bounds.scientific, first + b, 0, bounds.digits)
            row[HEAD + count + b] = order


@inner
def _grow(row: Any, digit: int, bounds: Bounds, sizes: Sizes) -> None:
    """Read a further digit before the point."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    row[_COUNT] = min(row[_COUNT] + 1, sizes.longest + 1)
    row[_RESIDUE] = (10 * np.int64(row[_RESIDUE]) + digit) % sizes.whole_modulus
    row[_POWER] = 0
    for b in range(count):
        if row[_COUNT] > bounds.whole[first + b, 1]:
            row[HEAD + b] = 1
        elif row[HEAD + b] == 0:
            at = row[_COUNT] - 1
            row[HEAD + b] = _compared(digit, bounds.whole, first + b, at, bounds.digits)
    row[HEAD + count :] = 0


@inner
def _deepen(row: Any, digit: int, bounds: Bounds, sizes: Sizes) -> None:
    """Read a digit behind the point."""
    side, at = row[_SIDE], row[_COUNT]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    told = True
    for b in range(count):
        if row[HEAD + b] == 0:
            row[HEAD + b] = _compared(digit, bounds.fraction, first + b, at, bounds.digits)
        if row[_POWER] and row[HEAD + count + b] == 0:
            order = _compared(digit, bounds.scientific, first + b, at + 1, bounds.digits)
            row[HEAD + count + b] = order
        told = told and row[HEAD + b] != 0 and (not row[_POWER] or row[HEAD + count + b] != 0)
    if at < sizes.places:
        left, rest = sizes.modulus, sizes.places - at - 1
        while rest > 0 and left > 1:
            shared = 10 if left % 10 == 0 else 5 if left % 5 == 0 else 2 if left % 2 == 0 else 1
            left, rest = left // shared, rest - 1
        row[_RESIDUE] = (10 * np.int64(row[_RESIDUE]) + digit) % left
    elif sizes.has_grid and digit:
        row[_OFF], row[_RESIDUE] = 1, 0
    if row[_POWER] and sizes.has_grid and digit and at >= MANTISSA:
        row[_LONG] = 1
    count_all = row[_POWER] and sizes.has_grid and not row[_LONG] and at + 1 < MANTISSA
    row[_COUNT] = min(at + 1, sizes.deep if row[_POWER] else sizes.deepest)
    if told and at + 1 >= sizes.places and not count_all:
        row[_COUNT] = sizes.deep
    row[_PHASE], row[_ZERO] = _FRACTION, row[_ZERO] and digit == 0


@inner
def _close(row: Any, bounds: Bounds) -> None:
    """Read the point, or the end of a number without one: fewer digits are a smaller number."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    for b in range(count):
        if row[_COUNT] < bounds.whole[first + b, 1]:
            row[HEAD + b] = -1
    row[_PHASE], row[_COUNT] = _POINT, 0


@inner
def _raise(row: Any, bounds: Bounds, sizes: Sizes) -> None:
    """Read the letter of an exponent: only how the digits compare is kept."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    digits = 1 if row[_PHASE] == _WHOLE else row[_COUNT] + 1
    if sizes.is_any:
        row[:] = 0
        row[_PHASE], row[_SIDE] = _LETTER, _ANY_SIDE
        return
    long, ordered = row[_LONG], row[HEAD + count : HEAD + 2 * count].copy()
    row[:] = 0
    row[_PHASE], row[_SIDE], row[_LONG] = _LETTER, side, long
    for b in range(count):
        is_less = ordered[b] == 0 and digits < bounds.scientific[first + b, 1]
        row[HEAD + b] = -1 if is_less else ordered[b]


@inner
def _is_in(row: Any, which: int, bounds: Bounds, answers: Answers, sizes: Sizes) -> bool:
    """Say whether a number without exponent is in, with its last digit read."""
    if row[_ZERO]:
        return bool(answers.zero[which])
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    for b in range(count):
        if row[HEAD + b] == 0 and row[_COUNT] < bounds.fraction[first + b, 1]:
            row[HEAD + b] = -1
    pattern = piece_at(answers, which, side, row[HEAD:], count)
    if not answers.gridded[pattern] or row[_OFF]:
        return bool(answers.off[pattern])
    residue = np.int64(row[_RESIDUE])
    for _ in range(row[_COUNT], sizes.places):
        residue = residue * 10 % sizes.modulus
    if side == 1:
        residue = (sizes.modulus - residue) % sizes.modulus
    return bool(answers.on[pattern, residue])


@inner
def _is_accepted(row: Any, bounds: Bounds, answers: Answers, sizes: Sizes) -> bool:
    """Say whether a number of the set may end here; ``row`` is spoilt."""
    phase = row[_PHASE]
    if phase in (_NAUGHT, _WHOLE):
        _close(row, bounds)
        return _is_in(row, 0, bounds, answers, sizes)
    if phase == _FRACTION:
        return _is_in(row, 1, bounds, answers, sizes)
    if phase != _DIGITS:
        return False
    side = row[_SIDE]
    if side == _ANY_SIDE:
        return True
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    exponent = -row[_SIZE] if row[_DOWN] else row[_SIZE]
    for b in range(count):
        other = bounds.exponent[first + b]
        if exponent != other:
            row[HEAD + b] = 1 if exponent > other else -1
    pattern = piece_at(answers, 1, side, row[HEAD:], count)
    return is_power_in(answers, sizes, pattern, exponent, row[_LONG])


@inner
def _read(row: Any, symbol: int, bounds: Bounds, sizes: Sizes, powers: Any) -> bool:
    """Read a symbol; say whether a number may go on so."""
    phase, digit = row[_PHASE], symbol - _DIGIT
    if _DIGIT <= symbol < _LETTER_E:
        if phase in (_START, _MINUS):
            _begin(row, digit, bounds, sizes, powers)
        elif phase == _WHOLE:
            _grow(row, digit, bounds, sizes)
        elif phase in (_POINT, _FRACTION):
            _deepen(row, digit, bounds, sizes)
        elif phase == _NAUGHT:
            return False
        else:
            size = min(10 * row[_SIZE] + digit, sizes.far)
            row[_SIZE], row[_PHASE] = 0 if row[_SIDE] == _ANY_SIDE else size, _DIGITS
        return True
    if symbol == _MINUS_SIGN and phase == _START:
        row[_PHASE], row[_SIDE] = _MINUS, 1
    elif symbol == _DOT and (phase in (_NAUGHT, _WHOLE)):
        _close(row, bounds)
    elif symbol == _LETTER_E and (phase in (_NAUGHT, _WHOLE, _FRACTION)):
        if not sizes.is_any and not row[_POWER]:
            return False
        _raise(row, bounds, sizes)
    elif (symbol in (_PLUS, _MINUS_SIGN)) and phase == _LETTER:
        row[_PHASE] = _SIGN
        row[_DOWN] = symbol == _MINUS_SIGN and row[_SIDE] != _ANY_SIDE
    else:
        return False
    return True


@kernel
def spell(
    bounds: Bounds, answers: Answers, sizes: Sizes, powers: Any, rows: Rows, delta: Any,
    labels: Any, progress: Any,
) -> int:  # fmt: skip
    """Compute what follows every state from ``progress[0]`` on.

    Args:
        bounds, answers, sizes: The set.
        powers: bool[2], for each side: numbers with an exponent are in.
        rows: The states, the start among them.
        delta: int32[capacity, SYMBOLS], -1 before. labels: int32[capacity], 1 where a number may
            end.
        progress: int64[1], next state.

    Returns:
        DONE, or FULL where the arrays must grow; call again then.
    """
    pool, offsets, _, used = rows
    width = offsets[1]
    row = np.empty(width, np.int32)
    while progress[0] < used[0]:
        state = progress[0]
        if used[0] + SYMBOLS + 1 > min(len(delta), len(offsets) - 1):
            return FULL
        if offsets[used[0]] + SYMBOLS * width > len(pool):
            return FULL
        begin = offsets[state]
        for symbol in range(1, SYMBOLS):
            row[:] = pool[begin : begin + width]
            if _read(row, symbol, bounds, sizes, powers):
                delta[state, symbol] = intern_row(row, width, rows)
        row[:] = pool[begin : begin + width]
        labels[state] = _is_accepted(row, bounds, answers, sizes)
        progress[0] += 1
    return DONE
