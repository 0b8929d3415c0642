"""The texts that JSON spells the numbers of a set with, as an automaton.

Digits are compared with the bounds of the set as they are read, and counted modulo what its
patterns repeat after; a state is what was learnt so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import gcd as _gcd
from typing import NamedTuple

import numpy as np

from cdec.compilers.regular.automaton import MAX_STATES, Automaton, smallest, too_large
from cdec.compilers.regular.number_sets import ALL_NUMBERS, NumberSet, Pattern, common_grid

_SYMBOLS = "\0+-.0123456789E"
_MANTISSA = 16
"""Digits behind the point of a number with an exponent, where multiples are told apart."""


class _Bound(NamedTuple):
    """The size of a cut, by its digits.

    whole, fraction: Digits before and behind the point, none at the ends that are 0 but one before.
    digits, exponent: The same with one digit before the point, not 0.
    """

    whole: tuple[int, ...]
    fraction: tuple[int, ...]
    digits: tuple[int, ...]
    exponent: int


class _Read(NamedTuple):
    """What was learnt of a number before its exponent.

    Attributes:
        phase: START to FRACTION.
        sign: 1 or -1.
        is_zero: Only zeros were read.
        digits: Digits of this side of the point.
        order: Of each bound, -1: smaller than it, 0: as yet the same digits, 1: larger.
        residue: Digits modulo what the patterns repeat after.
        is_off: A digit, not 0, stands where no multiple has one.
        scientific: ``order`` of the digits after the first, None: no exponent may follow.
        is_long: More digits than are told apart before an exponent.
    """

    phase: int
    sign: int = 1
    is_zero: bool = True
    digits: int = 0
    order: tuple[int, ...] = ()
    residue: int = 0
    is_off: bool = False
    scientific: tuple[int, ...] | None = None
    is_long: bool = False


class _Exponent(NamedTuple):
    """What was learnt of a number with an exponent; ``sign`` 0: any number is in."""

    phase: int
    sign: int = 0
    order: tuple[int, ...] = ()
    is_long: bool = False
    direction: int = 1
    size: int = 0


_START, _MINUS, _ZERO, _WHOLE, _POINT, _FRACTION = range(6)
_LETTER, _SIGN, _DIGITS = range(3)
_State = _Read | _Exponent


@lru_cache(maxsize=1024)
def numbers_automaton(whole: NumberSet, others: NumberSet) -> Automaton:
    """Return the automaton of the texts of a set.

    Args:
        whole: Integers that are in where they are spelled without point and exponent.
        others: Numbers that are in where they are spelled with one.

    Raises:
        LimitError: It has too many states.
    """
    reader = _Reader(whole, others)
    first: _State = _Read(_START)
    states, todo, rows = {first: 0}, [first], []
    for state in todo:  # grows
        row = [-1] * len(_SYMBOLS)
        for symbol, following in reader.steps(state):
            row[symbol] = states.setdefault(following, len(states))
            if row[symbol] == len(todo):
                todo.append(following)
        rows.append(row)
        if len(todo) > MAX_STATES:
            raise too_large()
    labels = np.array([reader.accepts(state) for state in todo], np.int32)
    byte_class = np.zeros(256, np.int32)
    byte_class[[ord(symbol) for symbol in _SYMBOLS]] = np.arange(len(_SYMBOLS))
    byte_class[ord("e")] = byte_class[ord("E")]
    return smallest(byte_class, np.array(rows, np.int32), labels)


class _Reader:
    """Reads the spelling of a number symbol by symbol."""

    def __init__(self, whole: NumberSet, others: NumberSet) -> None:
        self._whole, self._others = whole, others
        cuts = sorted({*whole.cuts, *others.cuts})
        self._sizes = {
            1: [cut for cut in cuts if cut > 0],
            -1: [-cut for cut in reversed(cuts) if cut < 0],
        }
        self._bounds = {sign: [_bound(size) for size in self._sizes[sign]] for sign in (1, -1)}
        self._pieces: dict[tuple[int, tuple[int, ...]], Fraction] = {}
        grid = common_grid([*whole.patterns, *others.patterns])
        self._places, self._modulus = 0, 1
        self._has_grid = grid is not None
        if grid is not None:
            while (grid[0] * 10**self._places).denominator > 1:
                self._places += 1
            self._modulus = int(grid[1] * 10**self._places)
        self._margin = _zeros(self._modulus)
        bounds = [*self._bounds[1], *self._bounds[-1]]
        self._longest = max((len(bound.whole) for bound in bounds), default=0)
        self._deepest = max(self._places, *(len(bound.fraction) for bound in bounds), 0)
        far = max((abs(bound.exponent) for bound in bounds), default=0)
        self._far = max(far, _MANTISSA + self._margin, self._places) + 1
        self._is_any = others == ALL_NUMBERS
        self._exponents = {sign: not self._is_any and self._may_have(sign) for sign in (1, -1)}
        digits = max((len(bound.digits) for bound in bounds), default=0)
        self._deep = max(self._deepest, digits, _MANTISSA if self._has_grid else 0)

    def steps(self, state: _State) -> Iterator[tuple[int, _State]]:
        """Yield (number of the symbol, state after it)."""
        if isinstance(state, _Exponent):
            yield from self._exponent_steps(state)
            return
        if state.phase == _START:
            yield _SYMBOLS.index("-"), _Read(_MINUS, -1)
        if state.phase in (_START, _MINUS):
            for digit in range(10):
                yield _digit(digit), self._first(state.sign, digit)
            return
        if state.phase != _ZERO:
            for digit in range(10):
                yield _digit(digit), self._after(state, digit)
        if state.phase in (_ZERO, _WHOLE):
            yield _SYMBOLS.index("."), self._point(state)
        if state.phase != _POINT and self._is_any:
            yield _SYMBOLS.index("E"), _Exponent(_LETTER)
        elif state.phase != _POINT and state.scientific is not None:
            yield _SYMBOLS.index("E"), self._letter(state)

    def accepts(self, state: _State) -> bool:
        """Say whether a number of the set may end here."""
        if isinstance(state, _Exponent):
            return state.phase == _DIGITS and (not state.sign or self._holds_power(state))
        if state.phase in (_ZERO, _WHOLE):
            ended = self._point(state)
            return self._holds(self._whole, ended)
        return state.phase == _FRACTION and self._holds(self._others, state)

    def _first(self, sign: int, digit: int) -> _Read:
        bounds = self._bounds[sign]
        order = tuple(_compared(digit, bound.whole[0]) for bound in bounds)
        scientific = None
        if digit and self._exponents[sign]:
            scientific = tuple(_compared(digit, bound.digits[0]) for bound in bounds)
        phase = _WHOLE if digit else _ZERO
        return _Read(
            phase, sign, not digit, 1, order, digit % self._whole_modulus(), False, scientific
        )

    def _whole_modulus(self) -> int:
        return self._modulus // _gcd(self._modulus, 10**self._places)

    def _after(self, state: _Read, digit: int) -> _Read:
        if state.phase == _WHOLE:
            count = min(state.digits + 1, self._longest + 1)
            order = tuple(
                1 if count > len(bound.whole) else old or _compared(digit, bound.whole[count - 1])
                for old, bound in zip(state.order, self._bounds[state.sign], strict=True)
            )
            residue = (10 * state.residue + digit) % self._whole_modulus()
            return state._replace(digits=count, order=order, residue=residue, scientific=None)
        return self._deeper(state, digit)

    def _deeper(self, state: _Read, digit: int) -> _Read:
        """Read a digit behind the point."""
        at, bounds = state.digits, self._bounds[state.sign]
        order = tuple(
            old or _compared(digit, _place(bound.fraction, at))
            for old, bound in zip(state.order, bounds, strict=True)
        )
        residue, is_off = state.residue, state.is_off
        if at < self._places:
            left = 10 ** (self._places - at - 1)
            residue = (10 * residue + digit) % (self._modulus // _gcd(self._modulus, left))
        else:
            is_off = is_off or (self._has_grid and digit > 0)
        scientific, is_long = state.scientific, state.is_long
        if scientific is not None:
            scientific = tuple(
                old or _compared(digit, _place(bound.digits, at + 1))
                for old, bound in zip(scientific, bounds, strict=True)
            )
            is_long = is_long or (self._has_grid and digit > 0 and at >= _MANTISSA)
        count = min(at + 1, self._deepest if scientific is None else self._deep)
        is_told = scientific is None or (
            all(scientific) and (is_long or not self._has_grid or count >= _MANTISSA)
        )
        if count >= self._places and all(order) and is_told:
            count = self._deep
        is_zero = state.is_zero and not digit
        return _Read(
            _FRACTION, state.sign, is_zero, count, order, residue, is_off, scientific, is_long
        )

    def _point(self, state: _Read) -> _Read:
        """Close the digits before the point: fewer of them are a smaller number."""
        order = tuple(
            -1 if state.digits < len(bound.whole) else old
            for old, bound in zip(state.order, self._bounds[state.sign], strict=True)
        )
        return state._replace(phase=_POINT, digits=0, order=order)

    def _letter(self, state: _Read) -> _Exponent:
        digits = 1 if state.phase == _WHOLE else state.digits + 1
        order = tuple(
            -1 if not old and digits < len(bound.digits) else old
            for old, bound in zip(state.scientific or (), self._bounds[state.sign], strict=True)
        )
        return _Exponent(_LETTER, state.sign, order, state.is_long)

    def _exponent_steps(self, state: _Exponent) -> Iterator[tuple[int, _State]]:
        if state.phase == _LETTER:
            yield _SYMBOLS.index("+"), state._replace(phase=_SIGN)
            yield (
                _SYMBOLS.index("-"),
                state._replace(phase=_SIGN, direction=-1 if state.sign else 1),
            )
        for digit in range(10):
            size = min(10 * state.size + digit, self._far) if state.sign else 0
            yield _digit(digit), state._replace(phase=_DIGITS, size=size)

    def _holds(self, numbers: NumberSet, state: _Read) -> bool:
        if state.is_zero:
            return numbers.holds(Fraction(0))
        order = tuple(
            -1 if not old and state.digits < len(bound.fraction) else old
            for old, bound in zip(state.order, self._bounds[state.sign], strict=True)
        )
        pattern = self._pattern(numbers, state.sign, order)
        if not pattern.grid or state.is_off:
            return pattern.off
        digits = state.residue * 10 ** max(self._places - state.digits, 0)
        return pattern.holds(Fraction(state.sign * digits, 10**self._places))

    def _holds_power(self, state: _Exponent) -> bool:
        exponent = state.direction * state.size
        order = tuple(
            _compared(exponent, bound.exponent) or old
            for old, bound in zip(state.order, self._bounds[state.sign], strict=True)
        )
        pattern = self._pattern(self._others, state.sign, order)
        return self._decided(pattern, exponent, state.is_long)

    def _decided(self, pattern: Pattern, exponent: int, is_long: bool) -> bool:
        """Say whether every number with an exponent is in that is told apart as little as this."""
        if not pattern.grid:
            return pattern.off
        if is_long:
            return False
        if exponent < -self._places:
            return pattern.off
        return self._margin >= 0 and exponent >= _MANTISSA + self._margin and 0 in pattern.residues

    def _pattern(self, numbers: NumberSet, sign: int, order: tuple[int, ...]) -> Pattern:
        """Return the pattern that decides about numbers that compare so with the bounds."""
        if (sign, order) not in self._pieces:
            sizes = self._sizes[sign]
            above = sum(o > 0 for o in order)
            if above < len(sizes) and order[above] == 0:
                size = sizes[above]
            elif above == len(sizes):
                size = sizes[-1] + 1 if sizes else Fraction(1)
            else:
                size = (sizes[above] + (sizes[above - 1] if above else 0)) / 2
            self._pieces[sign, order] = sign * size
        return numbers.patterns[numbers.piece(self._pieces[sign, order])]

    def _may_have(self, sign: int) -> bool:
        """Say whether any number with an exponent is in."""
        for exponent in range(-self._far, self._far + 1):
            for order in self._orders(sign, exponent):
                if self._decided(self._pattern(self._others, sign, order), exponent, False):
                    return True
        return False

    def _orders(self, sign: int, exponent: int) -> Iterator[tuple[int, ...]]:
        """Yield how numbers with an exponent may compare with the bounds."""
        bounds = self._bounds[sign]
        below = sum(bound.exponent < exponent for bound in bounds)
        near = sum(bound.exponent == exponent for bound in bounds)
        for i in range(near + 1):
            rest = len(bounds) - below - i
            yield (1,) * (below + i) + (-1,) * rest
            if i < near:
                yield (1,) * (below + i) + (0,) + (-1,) * (rest - 1)


def _bound(size: Fraction) -> _Bound:
    places = 0
    while (size * 10**places).denominator > 1:
        places += 1
    figures = str(int(size * 10**places)).rjust(places + 1, "0")
    whole, fraction = figures[: len(figures) - places], figures[len(figures) - places :]
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) - 1 - (len(whole + fraction) - len(digits))
    return _Bound(
        tuple(map(int, whole)),
        tuple(map(int, fraction)),
        tuple(map(int, digits.rstrip("0"))),
        exponent,
    )


def _zeros(modulus: int) -> int:
    """Return the least t such that 10^t is a multiple, -1 where none is."""
    for zeros in range(modulus.bit_length() + 1):
        if 10**zeros % modulus == 0:
            return zeros
    return -1


def _compared(digit: int, other: int) -> int:
    return (digit > other) - (digit < other)


def _place(digits: tuple[int, ...], at: int) -> int:
    return digits[at] if at < len(digits) else 0


def _digit(digit: int) -> int:
    return _SYMBOLS.index("0") + digit
