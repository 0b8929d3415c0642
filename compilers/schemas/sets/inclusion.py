"""Inclusion: alternatives that hold no more than others, by what shapes say outright.

It keeps unions small while conjunctions are multiplied out: an alternative that is part of another
adds nothing to it, and one that satisfies a disjunction as it is need not be divided by it. What is
found costs a look at names and constants; not all that is included is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cdec.compilers.schemas.sets.discriminators import Discriminators
from cdec.compilers.schemas.sets.goals import TRUE, Goal
from cdec.compilers.schemas.sets.shapes import ArrayShape, Block, ObjectShape

_FEW = 60
"""Alternatives that are compared with each other."""


class Inclusion:
    """Says which shapes are part of others.

    Args:
        discriminators: What goals say of constants.
    """

    def __init__(self, discriminators: Discriminators) -> None:
        self._constants = discriminators
        self._known: dict[tuple[Goal, Goal], bool] = {}

    def goal(self, inner: Goal, outer: Goal) -> bool:
        """Whether every value of a goal belongs to another for sure."""
        if outer == TRUE or inner == outer:
            return True
        key = (inner, outer)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._constants.implies(inner, outer)
        return known

    def objects(self, inner: ObjectShape, outer: ObjectShape) -> bool:
        """Whether every object of a shape belongs to another for sure."""
        if not outer.required <= inner.required:
            return False
        if outer.low > max(inner.low, len(inner.required)):
            return False
        if outer.high is not None and (inner.high is None or inner.high > outer.high):
            return False
        if not set(outer.exists) <= set(inner.exists):
            return False
        return all(self._block(inner, block) for block in outer.held - inner.held)

    def _block(self, inner: ObjectShape, block: Block) -> bool:
        if block.patterns or block.rest != TRUE:
            return False
        return all(self.goal(inner.goal(name), goal) for name, goal in block.names)

    def arrays(self, inner: ArrayShape, outer: ArrayShape) -> bool:
        """Whether every array of a shape belongs to another for sure."""
        if outer.low > inner.low or not set(outer.unique) <= set(inner.unique):
            return False
        if outer.high is not None and (inner.high is None or inner.high > outer.high):
            return False
        if not set(outer.contains) <= set(inner.contains):
            return False
        places = max(len(inner.prefix), len(outer.prefix)) + 1
        places = places if inner.high is None else min(places, inner.high)
        return all(self.goal(inner.item(i), outer.item(i)) for i in range(places))


class Alternatives:
    """A union that is being made; what is part of others is left out.

    Args:
        is_part: Whether the first shape is part of the second.
        first: Shapes that are there already, none part of another. Further ones are compared with
            these, and with each other as long as they are few.
    """

    def __init__(self, is_part: Callable[[Any, Any], bool], first: Sequence[Any]) -> None:
        self.shapes: dict[Any, None] = {}
        self._first = first
        self._is_part = is_part

    def all(self) -> list[Any]:
        """Return all shapes."""
        return [*dict.fromkeys((*self._first, *self.shapes))]

    def add(self, shape: Any) -> None:
        """Add an alternative."""
        if shape in self.shapes or any(self._is_part(shape, other) for other in self._first):
            return
        if len(self.shapes) <= _FEW:
            if any(self._is_part(shape, other) for other in self.shapes):
                return
            for other in [one for one in self.shapes if self._is_part(one, shape)]:
                del self.shapes[other]
        self.shapes[shape] = None
