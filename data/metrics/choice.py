"""Choice among settings by cost and merit: of the cheapest, the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

CHEAPEST = 10
"""Of how many of the cheapest settings the best is chosen."""
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Choice(Generic[_Row]):
    """Settings, and the one that is chosen.

    Attributes:
        ranked: All of them, the cheapest first; of equal cost the better one.
        frontier: Those that none beats at their cost or below, the cheapest first.
        chosen: The best of the cheapest; of equal merit the first of them.
    """

    ranked: Sequence[_Row]
    frontier: Sequence[_Row]
    chosen: _Row


def choose(
    rows: Iterable[_Row],
    cost: Callable[[_Row], Any],
    merit: Callable[[_Row], Any],
    cheapest: int = CHEAPEST,
) -> Choice[_Row]:
    """Choose a setting as Nakshatri et al. 2025 do (CDSL, appendix C): the fastest, then the best.

    Args:
        rows: One at least.
        cost: Of which less is better. merit: Of which more is. Neither is ever NaN.
        cheapest: How many are looked at.
    """
    ranked = sorted(sorted(rows, key=merit, reverse=True), key=cost)
    frontier: list[_Row] = []
    for row in ranked:
        if not frontier or merit(row) > merit(frontier[-1]):
            frontier.append(row)
    return Choice(ranked, frontier, max(ranked[:cheapest], key=merit))
