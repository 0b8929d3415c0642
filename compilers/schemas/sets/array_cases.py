"""Cases of arrays: shapes whose demands an engine can count, item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import NamedTuple

from cdec.compilers.schemas.sets.goals import Goal, conjunction
from cdec.compilers.schemas.sets.shapes import ArrayShape, Contains

_TOO_MANY = "too many items could be the ones to contain"
_WRITTEN_OUT = 64
"""Items that are told apart where demands on single ones must be decided."""


class UndecidedError(Exception):
    """Demands on items that counting does not decide.

    Attributes:
        path: JSON pointer of the keyword. reason: Why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class ArrayCase(NamedTuple):
    """Arrays of a shape, with what must be contained counted.

    Attributes:
        shape: Every item up to ``low`` has a value, and those between up to ``high``; the rest has
            one unless ``high`` ends before it.
        constants: Where no two items may be equal: the goals of all values that an item can have.
        strings: Beside these, the goal of strings, where they are not few.
    """

    shape: ArrayShape
    constants: tuple[Goal, ...] | None = None
    strings: Goal | None = None


class ArrayCases:
    """Divides shapes into cases.

    Args:
        has_value: Whether a goal has a value.
        constants: Returns the values of a goal as goals of one constant each, if they are few, and
            the goal of its strings, if these are many.
        most: Alternatives, as ``max_alternatives``.
    """

    def __init__(
        self,
        has_value: Callable[[Goal], bool],
        constants: Callable[[Goal, str], tuple[tuple[Goal, ...], Goal | None] | None],
        most: int,
    ) -> None:
        self._has_value = has_value
        self._constants = constants
        self._most = most

    def of(self, shape: ArrayShape) -> Iterator[ArrayCase]:
        """Yield the cases of a shape that have an array; together they are the shape.

        Raises:
            UndecidedError: Counting does not decide what it demands.
        """
        for divided in self._divided(shape):
            cut = self._cut(divided)
            if cut is None:
                continue
            if not cut.unique or (cut.high is not None and cut.high <= 1):
                yield ArrayCase(replace(cut, unique=()))
                continue
            constants, strings = self._distinct(cut)
            if strings is not None or len(constants) >= cut.low:
                yield ArrayCase(cut, constants, strings)

    def _divided(self, shape: ArrayShape) -> Iterator[ArrayShape]:
        """Yield shapes whose ``contains`` every further item can satisfy."""
        first = max((c.first for c in shape.contains), default=0)
        if first > len(shape.prefix):
            padding = (shape.rest,) * (first - len(shape.prefix))
            shape = replace(shape, prefix=shape.prefix + padding)
        for number, contains in enumerate(shape.contains):
            if not contains.low or self._is_open(shape, contains):
                continue
            rest = (*shape.contains[:number], *shape.contains[number + 1 :])
            if contains.high is not None:
                upper = contains._replace(low=0)
                rest = (upper, *rest)
            yield from self._chosen(replace(shape, contains=rest), contains)
            return
        yield shape

    def _is_open(self, shape: ArrayShape, contains: Contains) -> bool:
        """Whether items behind the prefix can always be what must be contained."""
        if not self._has_value(conjunction((shape.rest, contains.goal))):
            return False
        return shape.high is None or not shape.prefix

    def _chosen(self, shape: ArrayShape, contains: Contains) -> Iterator[ArrayShape]:
        """Yield a shape for each choice of the items that are what must be contained."""
        places = len(shape.prefix)
        if shape.high is not None:
            if self._has_value(conjunction((shape.rest, contains.goal))):
                if shape.high > _WRITTEN_OUT:
                    raise UndecidedError(contains.path, _TOO_MANY)
                places = shape.high
            places = min(places, shape.high)
        indices = range(contains.first, places)
        if contains.low > len(indices):
            return
        if comb(len(indices), contains.low) > self._most:
            raise UndecidedError(contains.path, _TOO_MANY)
        for chosen in combinations(indices, contains.low):
            last = max(len(shape.prefix), chosen[-1] + 1)
            prefix = tuple(
                conjunction((shape.item(i), contains.goal)) if i in chosen else shape.item(i)
                for i in range(last)
            )
            low = max(shape.low, chosen[-1] + 1)
            yield from self._divided(replace(shape, prefix=prefix, low=low))

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

    def _distinct(self, shape: ArrayShape) -> tuple[tuple[Goal, ...], Goal | None]:
        """Return the values of which no two items may be equal."""
        path = shape.unique[0]
        if shape.prefix:
            raise UndecidedError(path, "items with schemas of their own must all differ")
        if shape.contains:
            raise UndecidedError(path, "items must all differ, and some be contained")
        constants = self._constants(shape.rest, path)
        if constants is None:
            raise UndecidedError(
                path,
                "items that must all differ are enforced where they are strings or few values",
            )
        return constants
