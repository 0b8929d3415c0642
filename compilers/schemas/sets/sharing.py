"""Ways of sharing: which items of an array are what must be contained, and what one of them may be.

An item can meet several demands at once. Where the number of items is bounded, whether those to
come are enough depends on which demands will share one, so each way of sharing is a case of its
own: some items of the prefix meet demands, and behind it *groups* of so many items have a goal
each. Every item of a group counts for that group alone, so that adding up what is lacking is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

from cdec.compilers.schemas.sets.goals import Goal, conjunction
from cdec.compilers.schemas.sets.shapes import Contains

Groups = tuple[tuple[Goal, int], ...]


class Plan(NamedTuple):
    """One way of sharing.

    Attributes:
        prefix: Goals of the first items.
        last: So many items there must be.
        groups: Goals of items behind the prefix, with how many have it.
        counted: Maxima, with what is left of them for items that no group speaks of.
        high: Most items; None for any number.
    """

    prefix: tuple[Goal, ...]
    last: int
    groups: Groups
    counted: tuple[Contains, ...]
    high: int | None

    @property
    def grouped(self) -> int:
        """Items behind the prefix that belong to groups."""
        return sum(number for _, number in self.groups)

    @property
    def least(self) -> int:
        """Items that there must be, in the prefix and behind it."""
        return max(self.last, len(self.prefix) + self.grouped if self.groups else 0)


class Sharing:
    """Yields the ways in which items meet demands.

    Args:
        has_value: Whether a goal has a value.
        rest: The goal of the items behind the prefix.
    """

    def __init__(self, has_value: Callable[[Goal], bool], rest: Goal) -> None:
        self._has_value = has_value
        self._rest = rest

    def placed(self, plans: Iterator[Plan], demand: Contains) -> Iterator[Plan]:
        """Yield each plan with each choice of the items that meet one more demand."""
        return (found for plan in plans for found in self._placed(plan, demand))

    def _placed(self, plan: Plan, demand: Contains) -> Iterator[Plan]:
        goal, low = demand.goal, demand.low
        places = [
            i
            for i in range(demand.first, len(plan.prefix))
            if self._has_value(conjunction((plan.prefix[i], goal)))
        ]
        is_open = self._has_value(conjunction((self._rest, goal)))
        least = 0 if is_open else max(low - plan.grouped, 0)
        for number in range(least, min(low, len(places)) + 1):
            for chosen in combinations(places, number):
                prefix = tuple(
                    conjunction((item, goal)) if i in chosen else item
                    for i, item in enumerate(plan.prefix)
                )
                last = max(plan.last, chosen[-1] + 1) if chosen else plan.last
                for groups in self._joined(plan.groups, goal, low - number, is_open):
                    found = plan._replace(prefix=prefix, last=last, groups=groups)
                    if plan.high is None or found.least <= plan.high:
                        yield found

    def _joined(self, groups: Groups, goal: Goal, left: int, is_open: bool) -> Iterator[Groups]:
        """Yield groups of which ``left`` items more have a goal, some of them new."""
        if not groups:
            if not left or is_open:
                yield ((conjunction((self._rest, goal)), left),) if left else ()
            return
        (first, number), others = groups[0], groups[1:]
        both = conjunction((first, goal))
        most = min(number, left) if self._has_value(both) else 0
        for joined in range(most if both == first else 0, most + 1):
            split = ((both, joined), (first, number - joined))
            for found in self._joined(others, goal, left - joined, is_open):
                yield _merged((*split, *found))

    def limited(self, plans: Iterator[Plan], most: Contains) -> Iterator[Plan]:
        """Yield each plan with each choice of the items that count towards a maximum.

        Items behind the prefix that no group speaks of are counted as they come.
        """
        return (found for plan in plans for found in self._limited(plan, most))

    def _limited(self, plan: Plan, most: Contains) -> Iterator[Plan]:
        for prefix, high, left in self._prefixes(plan, most):
            if high is not None:
                short = plan._replace(prefix=prefix, high=high)
                if plan.last <= high and not plan.groups:
                    yield short
                continue
            for groups, kept in self._divided(plan.groups, most.goal, left):
                counted = most._replace(low=0, high=kept, first=len(prefix))
                yield plan._replace(prefix=prefix, groups=groups, counted=(*plan.counted, counted))

    def _prefixes(
        self, plan: Plan, most: Contains
    ) -> Iterator[tuple[tuple[Goal, ...], int | None, int]]:
        """Yield prefixes whose items count or do not, where they end before, and what is left."""
        assert most.high is not None
        waiting: list[tuple[tuple[Goal, ...], int]] = [((), most.high)]
        while waiting:
            prefix, left = waiting.pop()
            i = len(prefix)
            if i == len(plan.prefix):
                yield prefix, None, left
                continue
            held = [(plan.prefix[i], left)]
            if i >= most.first:
                held = self._either(plan.prefix[i], most.goal, left)
            if not held:
                yield prefix, i, left
            waiting += [((*prefix, goal), kept) for goal, kept in held]

    def _either(self, item: Goal, counted: Goal, left: int) -> list[tuple[Goal, int]]:
        """Return an item that counts and one that does not, as far as there are such."""
        inside, outside = conjunction((item, counted)), conjunction((item, contrary(counted)))
        found = [(outside, left)] if self._has_value(outside) else []
        if left and self._has_value(inside):
            found.append((inside, left - 1))
        return found

    def _divided(self, groups: Groups, counted: Goal, left: int) -> Iterator[tuple[Groups, int]]:
        """Yield groups divided into items that count and items that do not, and what is left."""
        if not groups:
            yield (), left
            return
        (goal, number), others = groups[0], groups[1:]
        inside, outside = conjunction((goal, counted)), conjunction((goal, contrary(counted)))
        least = 0 if self._has_value(outside) else number
        most = min(number, left) if self._has_value(inside) else 0
        for within in range(least, most + 1):
            split = ((inside, within), (outside, number - within))
            for found, kept in self._divided(others, counted, left - within):
                yield _merged((*split, *found)), kept


def contrary(literal: Goal) -> Goal:
    """Return the values that a goal of one literal does not have."""
    return (literal[0] ^ 1,)


def _merged(groups: Groups) -> Groups:
    """Return groups, those of one goal together, without those of no item."""
    found: dict[Goal, int] = {}
    for goal, number in groups:
        if number:
            found[goal] = found.get(goal, 0) + number
    return tuple(sorted(found.items()))
