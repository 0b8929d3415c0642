"""Automata by bands of lengths: large counts of characters need no states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cdec.compilers.regular.automaton import Automaton, nothing
from cdec.compilers.regular.lengths import longest_text, shortest_text

Operation = Callable[[Automaton, Automaton], Automaton]


class Band(NamedTuple):
    """The strings with at least ``low`` characters, up to where the next band begins."""

    low: int
    automaton: Automaton


NO_BANDS = (Band(0, nothing()),)


def pointwise(
    left: tuple[Band, ...], right: tuple[Band, ...], combine: Operation
) -> tuple[Band, ...]:
    if len(left) == len(right) == 1:
        return (Band(0, combine(left[0].automaton, right[0].automaton)),)
    lows = sorted({band.low for band in (*left, *right)})
    return normalised(Band(low, combine(_at(left, low), _at(right, low))) for low in lows)


def _at(bands: tuple[Band, ...], length: int) -> Automaton:
    return next(band.automaton for band in reversed(bands) if band.low <= length)


def normalised(bands: Iterable[Band]) -> tuple[Band, ...]:
    """Leave out empty bands, and cuts between equal automata."""
    found: list[Band] = []
    for band in bands:
        if found and found[-1].low == band.low:
            found.pop()
        if not found or found[-1].automaton != band.automaton:
            found.append(band)
    return tuple(found)


def spans(bands: tuple[Band, ...]) -> Iterator[tuple[int, int, Automaton]]:
    """Yield (low, high or -1, automaton) of bands that may hold strings, bounds if needed."""
    ends = [band.low - 1 for band in bands[1:]]
    for (low, automaton), high in zip(bands, [*ends, -1], strict=True):
        shortest = shortest_text(automaton)
        if shortest < 0 or 0 <= high < shortest:
            continue
        longest = longest_text(automaton)
        if 0 <= longest < low:
            continue
        is_bound = high >= 0 and not 0 <= longest <= high
        yield low if low > shortest else 0, high if is_bound else -1, automaton
