"""Compiled loop that reads the spelling of a number symbol by symbol, up to its exponent.

A state is a row of numbers, what was learnt so far: ``PHASE`` where the reader is, ``_SIDE`` 1
after a minus, ``_ZERO`` only zeros were read, ``_COUNT`` digits on this side of the point,
``_CLASS`` of the digits where multiples are told apart, ``_OFF`` a digit, not 0, stands where no
multiple has one, ``_POWER`` one digit, not 0, stands before the point. Then the digits behind it up
to the last that is not 0 are ``_DEPTH``, and the class of all up to that one is ``_MANTISSA``;
behind the letter, ``_KIND`` says what stood before it. Then follows, for every bound of the side,
-1: smaller than it, 0: as yet the same digits, 1: larger; and, with ``_POWER``, the same of the
digits from the first one on that is not 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.compilers.grammars.states.row_store import Rows, intern_row
from cdec.compilers.regular.spelling.tables import Answers, Bounds, Sizes, piece_at
from cdec.core.kernels import inner, kernel

DONE = 0
FULL = 1
SYMBOLS = 15
"""Other bytes, plus, minus, point, ten digits, the letter of exponents."""
HEAD = 10
"""Numbers of a row before those of the bounds."""
PLUS, MINUS, DOT, DIGIT, LETTER_E = 1, 2, 3, 4, 14
PHASE = 0
_SIDE, _ZERO, _COUNT, _CLASS, _OFF, _POWER, _DEPTH, _MANTISSA, _KIND = range(1, HEAD)
_START, _MINUS, _NAUGHT, _WHOLE, _POINT, _FRACTION, LETTER = range(7)
_NORMALISED, _OTHERWISE, _NOTHING = range(3)


@inner
def _compared(digit: int, spans: Any, bound: int, at: int, digits: Any) -> int:
    """Compare a digit with a bound's digit at a place; behind its last one stand zeros."""
    other = np.int64(digits[spans[bound, 0] + at]) if at < spans[bound, 1] else 0
    return 1 if digit > other else -1 if digit < other else 0


@inner
def _begin(row: Any, digit: int, bounds: Bounds, answers: Answers, sizes: Sizes) -> None:
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    row[PHASE] = _WHOLE if digit else _NAUGHT
    row[_ZERO], row[_COUNT], row[_CLASS] = digit == 0, 1, answers.following[0, digit]
    row[_POWER] = digit > 0 and sizes.has_powers
    row[_MANTISSA] = row[_CLASS] if row[_POWER] else 0
    for b in range(count):
        if bounds.whole[first + b, 1] > sizes.most:
            row[HEAD + b] = -1
        else:
            row[HEAD + b] = _compared(digit, bounds.whole, first + b, 0, bounds.digits)
        if row[_POWER]:
            order = _compared(digit, bounds.scientific, first + b, 0, bounds.digits)
            row[HEAD + count + b] = order


@inner
def _end_power(row: Any, count: int) -> None:
    """Forget what is known of a number with an exponent: none can follow."""
    row[_POWER], row[_DEPTH], row[_MANTISSA] = 0, 0, 0
    row[HEAD + count :] = 0


@inner
def _grow(row: Any, digit: int, bounds: Bounds, answers: Answers, sizes: Sizes) -> None:
    """Read a further digit before the point."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    row[_COUNT] = min(row[_COUNT] + 1, sizes.longest + 1)
    row[_CLASS] = answers.following[row[_CLASS], digit]
    for b in range(count):
        if row[_COUNT] > bounds.whole[first + b, 1]:
            row[HEAD + b] = 1
        elif row[HEAD + b] == 0:
            at = row[_COUNT] - 1
            row[HEAD + b] = _compared(digit, bounds.whole, first + b, at, bounds.digits)
    _end_power(row, count)


@inner
def _deepen(row: Any, digit: int, bounds: Bounds, answers: Answers, sizes: Sizes) -> None:
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
        row[_CLASS] = answers.following[row[_CLASS], digit]
    elif sizes.has_grid and digit:
        row[_OFF], row[_CLASS] = 1, 0
    if row[_POWER] and sizes.has_grid:
        if at >= sizes.mantissa or (digit and at >= sizes.depth):
            _end_power(row, count)
        elif digit:
            for _ in range(row[_DEPTH], at):
                row[_MANTISSA] = answers.following[row[_MANTISSA], 0]
            row[_MANTISSA], row[_DEPTH] = answers.following[row[_MANTISSA], digit], at + 1
    row[_COUNT] = min(at + 1, sizes.deep if row[_POWER] else sizes.deepest)
    if told and at + 1 >= sizes.places and not (row[_POWER] and sizes.has_grid):
        row[_COUNT] = sizes.deep
    row[PHASE], row[_ZERO] = _FRACTION, row[_ZERO] and digit == 0


@inner
def _close(row: Any, bounds: Bounds) -> None:
    """Read the point, or the end of a number without one: fewer digits are a smaller number."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    for b in range(count):
        if row[_COUNT] < bounds.whole[first + b, 1]:
            row[HEAD + b] = -1
    row[PHASE], row[_COUNT] = _POINT, 0


@inner
def _raise(row: Any, bounds: Bounds, sizes: Sizes) -> bool:
    """Read the letter of an exponent, keep what matters of the digits; say whether it may stand."""
    side = row[_SIDE]
    first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
    is_normal, is_zero = row[_POWER], row[_ZERO]
    digits = 1 if row[PHASE] == _WHOLE else row[_COUNT] + 1
    depth, mantissa = row[_DEPTH], row[_MANTISSA]
    ordered = row[HEAD + count : HEAD + 2 * count].copy()
    row[:] = 0
    row[PHASE], row[_KIND] = LETTER, _NOTHING if is_zero else _OTHERWISE
    if is_normal:
        row[_SIDE], row[_KIND] = side, _NORMALISED
        row[_DEPTH], row[_MANTISSA] = depth, mantissa
        for b in range(count):
            is_less = ordered[b] == 0 and digits < bounds.scientific[first + b, 1]
            row[HEAD + b] = -1 if is_less else ordered[b]
    return bool(sizes.has_powers and (is_normal or is_zero or sizes.is_any))


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
    last = row[_CLASS]
    for _ in range(row[_COUNT], sizes.places):
        last = answers.following[last, 0]
    return bool(answers.on[pattern, side, last])


@inner
def _is_accepted(row: Any, bounds: Bounds, answers: Answers, sizes: Sizes) -> bool:
    """Say whether a number of the set may end here, without an exponent; ``row`` is spoilt."""
    phase = row[PHASE]
    if phase in (_NAUGHT, _WHOLE):
        _close(row, bounds)
        return _is_in(row, 0, bounds, answers, sizes)
    return phase == _FRACTION and _is_in(row, 1, bounds, answers, sizes)


@inner
def _read(row: Any, symbol: int, bounds: Bounds, answers: Answers, sizes: Sizes) -> bool:
    """Read a symbol; say whether a number may go on so."""
    phase, digit = row[PHASE], symbol - DIGIT
    if DIGIT <= symbol < LETTER_E:
        if phase in (_START, _MINUS):
            _begin(row, digit, bounds, answers, sizes)
        elif phase == _WHOLE:
            _grow(row, digit, bounds, answers, sizes)
        elif phase in (_POINT, _FRACTION):
            _deepen(row, digit, bounds, answers, sizes)
        else:
            return False
        return True
    if symbol == MINUS and phase == _START:
        row[PHASE], row[_SIDE] = _MINUS, 1
    elif symbol == DOT and (phase in (_NAUGHT, _WHOLE)):
        _close(row, bounds)
    elif symbol == LETTER_E and (phase in (_NAUGHT, _WHOLE, _FRACTION)):
        return _raise(row, bounds, sizes)
    else:
        return False
    return True


@kernel
def spell(
    bounds: Bounds, answers: Answers, sizes: Sizes, rows: Rows, delta: Any, labels: Any,
    progress: Any,
) -> int:  # fmt: skip
    """Compute what follows every state from ``progress[0]`` on, but for exponents.

    Args:
        bounds, answers, sizes: The set.
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
            if _read(row, symbol, bounds, answers, sizes):
                delta[state, symbol] = intern_row(row, width, rows)
        row[:] = pool[begin : begin + width]
        labels[state] = _is_accepted(row, bounds, answers, sizes)
        progress[0] += 1
    return DONE


@kernel
def exponents(bounds: Bounds, answers: Answers, sizes: Sizes, letters: Any, found: Any) -> None:
    """Say which exponents may follow a letter.

    Args:
        bounds, answers, sizes: The set.
        letters: int32[n, width] the states behind a letter.
        found: bool[n, 2 far + 1] from -far to far, written.
    """
    for i in range(len(letters)):
        row, side = letters[i], letters[i, _SIDE]
        first, count = bounds.sides[side], bounds.sides[side + 1] - bounds.sides[side]
        order, last = np.empty(count, np.int32), row[_MANTISSA]
        for at in range(2 * sizes.far + 1):
            exponent = at - sizes.far
            if row[_KIND] != _NORMALISED:
                within = -sizes.down <= exponent <= sizes.up
                found[i, at] = answers.zero[1] if row[_KIND] == _NOTHING else within
                continue
            for b in range(count):
                other = bounds.exponent[first + b]
                order[b] = row[HEAD + b] if exponent == other else 1 if exponent > other else -1
            pattern, behind = piece_at(answers, 1, side, order, count), row[_DEPTH] - sizes.places
            if exponent > behind:
                last = answers.following[last, 0]
            is_off = not answers.gridded[pattern] or exponent < behind
            found[i, at] = answers.off[pattern] if is_off else answers.on[pattern, side, last]
