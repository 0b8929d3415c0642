"""Cases of arrays: shapes whose demands an engine can count, item by item.

An item can meet several demands at once. Where the number of items is bounded, whether those to
come are enough depends on which demands will share one, so each way of sharing is a case of its
own: some items of the prefix meet demands, and behind it *groups* of so many items have a goal
each. Every item of a group counts for that group alone, so that adding up what is lacking is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from cdec.compilers.schemas.sets.shapes import TRUE, ArrayShape, Contains, Goal, conjunction

Groups = tuple[tuple[Goal, int], ...]
_MANY = 1 << 16
"""Values of which no text holds as many as items."""
_TOO_MANY = "too many items could be the ones to contain"


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


class UndecidedError(Exception):
    """Demands on items that counting does not decide.

    Attributes:
        path: JSON pointer of the keyword. reason: Why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class Distinct(NamedTuple):
    """Items no two of which may be equal.

    Attributes:
        constants: The goals of values that are told apart one by one.
        others: Beside these, the goal of values that are remembered; None for none.
        most: So many values there are; None where that is not counted.
    """

    constants: tuple[Goal, ...]
    others: Goal | None
    most: int | None


class ArrayCase(NamedTuple):
    """Arrays of a shape, with what must be contained counted.

    Attributes:
        shape: Every item up to ``low`` has a value, and those between up to ``high``; the rest has
            one unless ``high`` ends before it.
        groups: Goals that items behind the prefix must have, so many each; such an item counts for
            its group and for nothing else.
        distinct: Where no two items may be equal: what they can be.
    """

    shape: ArrayShape
    groups: Groups = ()
    distinct: Distinct | None = None


class ArrayCases:
    """Divides shapes into cases.

    Args:
        has_value: Whether a goal has a value.
        values: Returns the values of a goal as items that must all differ; None where they are to
            be remembered whole.
        at_least: Returns how many values a goal has, up to a number, or fewer.
        most: Alternatives, as ``max_alternatives``.
    """

    def __init__(
        self,
        has_value: Callable[[Goal], bool],
        values: Callable[[Goal, str], Distinct | None],
        at_least: Callable[[Goal, int], int],
        most: int,
    ) -> None:
        self._has_value = has_value
        self._values = values
        self._at_least = at_least
        self._most = most

    def of(self, shape: ArrayShape) -> Iterator[ArrayCase]:
        """Yield the cases of a shape that have an array; together they are the shape.

        Raises:
            UndecidedError: Counting does not decide what it demands.
        """
        for number, case in enumerate(self._divided(shape)):
            if number == self._most:
                raise UndecidedError(shape.contains[0].path, _TOO_MANY)
            cut = case.shape
            if cut.repeating:
                if cut.high is not None and cut.high < 2:
                    continue
                raise UndecidedError(cut.repeating[0], "two items would have to be equal")
            if not cut.unique or (cut.high is not None and cut.high <= 1):
                yield case._replace(shape=replace(cut, unique=()))
                continue
            distinct = self._distinct(case)
            if distinct.most is not None:
                high = distinct.most if cut.high is None else min(cut.high, distinct.most)
                cut = replace(cut, high=high)
            if cut.high is None or cut.low <= cut.high:
                yield ArrayCase(cut, (), distinct)

    def _divided(self, shape: ArrayShape) -> Iterator[ArrayCase]:
        """Yield cases whose ``contains`` and groups the items to come can always satisfy."""
        first = max((c.first for c in shape.contains), default=0)
        if first > len(shape.prefix):
            padding = (shape.rest,) * (first - len(shape.prefix))
            shape = replace(shape, prefix=shape.prefix + padding)
        cut = self._cut(replace(shape, contains=_without_implied(shape.contains)))
        if cut is None:
            return
        if self._is_counted(cut):
            yield ArrayCase(cut)
            return
        for plan in self._plans(cut):
            low = max(cut.low, plan.least)
            if plan.high is None or low <= plan.high:
                prefix, counted = plan.prefix, plan.counted
                made = replace(cut, prefix=prefix, low=low, high=plan.high, contains=counted)
                yield ArrayCase(made, plan.groups)

    def _is_counted(self, shape: ArrayShape) -> bool:
        """Say whether counting alone says if the items to come can be what must be contained."""
        if all(c.high is None and self._is_open(shape, c) for c in shape.contains):
            return shape.high is None or len(shape.contains) + bool(shape.prefix) <= 1
        one = shape.contains[0]
        if len(shape.contains) > 1 or (one.low and shape.prefix and shape.high is not None):
            return False
        items = (*shape.prefix[one.first :], shape.rest)
        return (not one.low or self._is_open(shape, one)) and all(
            one.high is None or self._has_value(conjunction((item, contrary(one.goal))))
            for item in items
        )

    def _is_open(self, shape: ArrayShape, contains: Contains) -> bool:
        """Say whether items behind the prefix can be what must be contained."""
        return self._has_value(conjunction((shape.rest, contains.goal)))

    def _plans(self, shape: ArrayShape) -> Iterator[Plan]:
        """Yield the ways in which items meet the demands of a shape."""
        sharing = Sharing(self._has_value, shape.rest)
        limits = [c for c in shape.contains if c.high is not None]
        is_bounded = limits or shape.high is not None
        demands = [
            c for c in shape.contains if c.low and (is_bounded or not self._is_open(shape, c))
        ]
        counted = () if is_bounded else tuple(c for c in shape.contains if c not in demands)
        plans = iter((Plan(shape.prefix, 0, (), counted, shape.high),))
        for demand in demands:
            plans = sharing.placed(plans, demand)
        if limits:
            # What there must be at least may have to spare what there may be at most.
            least = Contains(
                TRUE, max(shape.low - len(shape.prefix), 0), None, "", len(shape.prefix)
            )
            plans = sharing.placed(plans, least)
        for limit in limits:
            plans = sharing.limited(plans, limit)
        return plans

    def _cut(self, shape: ArrayShape) -> ArrayShape | None:
        """Return a shape up to its first impossible item; None where it needs that."""
        low, high = shape.low, shape.high
        low = max([low, *(c.first + c.low for c in shape.contains if c.low)])
        for index in range(len(shape.prefix) + 1):
            if high is not None and index >= high:
                break
            if not self._has_value(shape.item(index)):
                high = index
        if high is not None:
            if high < low:
                return None
            shape = replace(shape, prefix=shape.prefix[:high])
        return replace(shape, low=low, high=high)

    def _distinct(self, case: ArrayCase) -> Distinct:
        """Return the values of which no two items may be equal."""
        shape = case.shape
        path = shape.unique[0]
        if not (shape.prefix or shape.contains or case.groups):
            found = self._values(shape.rest, path)
            if found is not None:
                return found
        if not self._leaves_some(case):
            raise UndecidedError(
                path, "items must all differ, and those that there must be may have been used up"
            )
        return Distinct((), shape.rest, None)

    def _leaves_some(self, case: ArrayCase) -> bool:
        """Say whether of the items that must come some are always left, whichever came before."""
        shape = case.shape
        is_simple = not case.groups and all(c.high is None for c in shape.contains)
        if is_simple and (shape.high is None or not shape.contains):
            asked = [(shape.item(i), i + 1) for i in range(min(shape.low, len(shape.prefix)))]
            if shape.low > len(shape.prefix):
                asked.append((shape.rest, shape.low))
            # What meets a demand counts for it, so that no more of it is used than was asked for.
            asked += [(conjunction((shape.rest, c.goal)), c.low) for c in shape.contains]
        else:
            many = _MANY if shape.high is None else shape.high
            goals = {*shape.prefix, shape.rest, *(goal for goal, _ in case.groups)}
            for c in shape.contains:
                goals |= {conjunction((goal, c.goal)) for goal in goals} | {
                    conjunction((goal, contrary(c.goal))) for goal in goals if c.high is not None
                }
            asked = [(goal, many) for goal in goals if self._has_value(goal)]
        return all(self._at_least(goal, number) >= number for goal, number in asked)


def _without_implied(contains: tuple[Contains, ...]) -> tuple[Contains, ...]:
    """Return demands without those that another one meets whatever it is met by."""

    def implied(number: int, one: Contains) -> bool:
        return any(
            set(one.goal) <= set(other.goal)
            and one.low <= other.low
            and one.first <= other.first
            and (one[:3] != other[:3] or one.first < other.first or at < number)
            for at, other in enumerate(contains)
            if at != number
        )

    return tuple(c for i, c in enumerate(contains) if c.high is not None or not implied(i, c))
