"""Sets of rational numbers: intervals, and which multiples of something are in each.

A *pattern* says of any number whether it is in: those on a grid by their place on it modulo a
period, all others alike. A set is a list of cuts with a pattern for each piece between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import gcd, lcm
from typing import NamedTuple

from cdec.core.errors import LimitError

MAX_PERIOD = 100_000
"""Multiples that are told apart."""

Exact = Fraction | int
"""Integers are kept as such: they are compared and added much faster."""
LARGEST = 17976931348623158 * 10**292
"""No number up to this one is read as infinity by a reader of doubles; the next of as many digits
is."""
LEAST = Fraction(24703282292062328, 10**340)
"""No number from this one on is read as 0 by a reader of doubles; the one before it of as many
digits is."""


def exact(value: Exact) -> Exact:
    """Return an integer as such."""
    return value.numerator if value.denominator == 1 else value


class Pattern(NamedTuple):
    """Rule of which numbers are in, wherever they lie.

    Attributes:
        grid: Its multiples are told apart; 0: no number is.
        period: The pattern repeats after so many multiples.
        residues: Of the multiples k * grid that are in: k modulo ``period``.
        off: Whether all other numbers are in.
    """

    grid: Exact
    period: int
    residues: frozenset[int]
    off: bool

    def holds(self, value: Exact) -> bool:
        """Say whether a number is in."""
        if not self.grid:
            return self.off
        place, rest = divmod(value, self.grid)
        return self.off if rest else place % self.period in self.residues


NEITHER = Pattern(0, 1, frozenset(), False)
EVERY = Pattern(0, 1, frozenset(), True)


def multiples_pattern(grid: Exact) -> Pattern:
    """Return the pattern of the multiples of a positive number."""
    return Pattern(exact(grid), 1, frozenset((0,)), False)


@lru_cache(maxsize=4096)
def _combined(left: Pattern, right: Pattern, table: tuple[bool, ...]) -> Pattern:
    """Combine two patterns; ``table`` for (in the left one) * 2 + (in the right one)."""
    if not left.grid and not right.grid:
        return EVERY if table[2 * left.off + right.off] else NEITHER
    spans = [p.grid * p.period for p in (left, right) if p.grid]
    # Where all that is in lies on the grid of one side, no finer one is needed.
    on_left = left.grid > 0 and not left.off and not table[1] and not table[0]
    on_right = right.grid > 0 and not right.off and not table[2] and not table[0]
    grid: Exact
    if on_left and on_right:
        grid = _lcm([left.grid, right.grid])
    elif on_left or on_right:
        grid = left.grid if on_left else right.grid
    else:
        grid = _gcd([p.grid for p in (left, right) if p.grid])
    span = _lcm([*spans, grid])
    period = int(span // grid)
    if period > MAX_PERIOD:
        raise LimitError(
            f"multiples of {left.grid} and {right.grid} repeat together only after {period} steps, "
            f"more than {MAX_PERIOD}",
            hint="use simpler factors of multipleOf, or fewer of them together",
            limit="max_states",
        )
    residues = frozenset(
        k for k in range(period) if table[2 * left.holds(k * grid) + right.holds(k * grid)]
    )
    return _reduced(Pattern(grid, period, residues, table[2 * left.off + right.off]))


def _reduced(pattern: Pattern) -> Pattern:
    """Return the same pattern with the coarsest grid and the shortest period."""
    grid, period, residues, off = pattern
    for prime in _primes(period):
        while period % prime == 0:
            shorter = period // prime
            if residues != frozenset((r + shorter) % period for r in residues):
                break
            period, residues = shorter, frozenset(r % shorter for r in residues)
    for prime in _primes(period):
        while period % prime == 0:
            between = [(k in residues) == off for k in range(period) if k % prime]
            if not all(between):
                break
            residues = frozenset(r // prime for r in residues if r % prime == 0)
            grid, period = grid * prime, period // prime
    if period == 1 and bool(residues) == off:
        return EVERY if off else NEITHER
    return Pattern(exact(grid), period, residues, off)


def _primes(number: int) -> list[int]:
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found


def _gcd(values: list[Exact]) -> Fraction:
    below = lcm(*(value.denominator for value in values))
    return Fraction(gcd(*(int(value * below) for value in values)), below)


def _lcm(values: list[Exact]) -> Fraction:
    below = lcm(*(value.denominator for value in values))
    return Fraction(lcm(*(int(value * below) for value in values)), below)


def common_grid(patterns: Iterable[Pattern]) -> tuple[Fraction, Fraction] | None:
    """Return a grid and a span such that numbers on it that differ by the span are alike.

    None where no pattern has a grid.
    """
    gridded = [p for p in patterns if p.grid]
    if not gridded:
        return None
    return _gcd([p.grid for p in gridded]), _lcm([p.grid * p.period for p in gridded])


class NumberSet(NamedTuple):
    """A set of rational numbers.

    Attributes:
        cuts: Ascending.
        patterns: Of (below the first cut, at it, between it and the second, ...): 2 m + 1 for m
            cuts.
    """

    cuts: tuple[Exact, ...]
    patterns: tuple[Pattern, ...]

    def holds(self, value: Exact) -> bool:
        """Say whether a number is in."""
        return self.patterns[self.piece(value)].holds(value)

    def piece(self, value: Exact) -> int:
        """Return the number of the piece that a number lies in."""
        place = bisect_left(self.cuts, value)
        return 2 * place + (place < len(self.cuts) and self.cuts[place] == value)

    def combined(self, other: NumberSet, table: tuple[bool, ...]) -> NumberSet:
        """Combine with another set; ``table`` for (in this one) * 2 + (in the other)."""
        if self == other and table[3] and not table[0]:
            return self
        for one, fixed, step in ((self, other, 2), (other, self, 1)):
            # With all numbers, or none, what the table says of the other set is often the set.
            if not fixed.cuts and fixed.patterns[0] in (EVERY, NEITHER):
                at = (3 - step) * fixed.patterns[0].off
                if not table[at]:
                    return one if table[at + step] else NO_NUMBERS
        return _combined_sets(self, other, table)

    def over(self, cuts: list[Exact]) -> list[Pattern]:
        """Return the patterns of finer pieces."""
        found, at = [self.patterns[0]], 0
        for cut in cuts:
            if at < len(self.cuts) and self.cuts[at] == cut:
                found += self.patterns[2 * at + 1 : 2 * at + 3]
                at += 1
            else:
                found += [self.patterns[2 * at]] * 2
        return found

    def members(self) -> Iterator[Exact] | None:
        """Yield the numbers in ascending order; None where there are infinitely many."""
        inner = self.patterns[1:-1]
        ends = (self.patterns[0], self.patterns[-1])
        if any(p != NEITHER for p in ends) or any(p.off for p in inner[1::2]):
            return None
        return self._members()

    def _members(self) -> Iterator[Exact]:
        for i, cut in enumerate(self.cuts):
            if self.patterns[2 * i + 1].holds(cut):
                yield cut
            if i + 1 < len(self.cuts):
                yield from _between(self.patterns[2 * i + 2], cut, self.cuts[i + 1])


@lru_cache(maxsize=4096)
def _combined_sets(left: NumberSet, right: NumberSet, table: tuple[bool, ...]) -> NumberSet:
    """Combine two sets; ``table`` for (in the left one) * 2 + (in the right one)."""
    cuts = sorted({*left.cuts, *right.cuts}) if right.cuts else list(left.cuts)
    found: dict[tuple[Pattern, Pattern], Pattern] = {}
    patterns = []
    for pair in zip(left.over(cuts), right.over(cuts), strict=True):
        if pair not in found:
            found[pair] = _combined(*pair, table)
        patterns.append(found[pair])
    return normal(cuts, patterns)


ALL_NUMBERS = NumberSet((), (EVERY,))
NO_NUMBERS = NumberSet((), (NEITHER,))
INTEGERS = NumberSet((), (multiples_pattern(1),))
FINITE = NumberSet(
    (-LARGEST, -LEAST, 0, LEAST, LARGEST),
    (NEITHER, EVERY, EVERY, EVERY, NEITHER, EVERY, NEITHER, EVERY, EVERY, EVERY, NEITHER),
)
"""Numbers that readers of doubles take neither for infinity nor, but for 0 itself, for 0."""


def normal(cuts: Iterable[Exact], patterns: list[Pattern]) -> NumberSet:
    """Return the set without cuts that cut nothing.

    A piece that holds nothing takes the pattern on one side of it that holds nothing there either.
    """
    kept_cuts: list[Exact] = []
    cuts = list(cuts)
    for i, (low, high) in enumerate(pairwise(cuts)):
        if _holds_nothing(patterns[2 * i + 2], low, high):
            patterns[2 * i + 2] = NEITHER
    kept = [patterns[0]]
    for i, cut in enumerate(cuts):
        at = EVERY if patterns[2 * i + 1].holds(cut) else NEITHER
        before, behind = kept[-1], patterns[2 * i + 2]
        goes_on = before.holds(cut) == at.off
        if behind == NEITHER and i + 1 < len(cuts):
            after = patterns[2 * i + 4]
            if goes_on and _holds_nothing(before, cut, cuts[i + 1]):
                behind = before
            elif after.grid and _holds_nothing(after, cut, cuts[i + 1]):
                behind = after
        if before == behind and goes_on:
            continue
        kept_cuts.append(cut)
        kept += [at, behind]
    return NumberSet(tuple(kept_cuts), tuple(kept))


def _holds_nothing(pattern: Pattern, low: Exact, high: Exact) -> bool:
    """Say whether no number between two others is in."""
    return not pattern.off and next(_between(pattern, low, high), None) is None


def _between(pattern: Pattern, low: Exact, high: Exact) -> Iterator[Exact]:
    """Yield the numbers on a pattern's grid between two others that are in."""
    grid, period, residues, _ = pattern
    if not grid or not residues:
        return
    first, last = int(low // grid) + 1, -int(-high // grid) - 1
    ordered = sorted(residues)
    block, at = first // period * period, bisect_left(ordered, first % period)
    while True:
        for residue in ordered[at:]:
            if block + residue > last:
                return
            yield (block + residue) * grid
        block, at = block + period, 0
