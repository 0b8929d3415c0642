"""Products: conjunctions of unions, multiplied out to few alternatives.

An alternative that is part of another adds nothing to a union, and one that satisfies a disjunction
as it is need not be divided by it. What is found costs a look at names and constants; not all that
is included is found. Where alternatives become many, objects are divided first by the values of a
property that tells them apart: a branch that asks for another value then adds nothing, where each
of its ways of being refused was an alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from cdec.compilers.schemas.sets.discriminators import Discriminators
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    NOTHING,
    TRUE,
    ArrayShape,
    Block,
    Goal,
    ObjectShape,
    ValueSet,
    both,
    both_arrays,
    both_objects,
)
from cdec.core.errors import LimitError

_FEW = 60
"""Alternatives that are compared with each other."""
FEW = 50
"""Alternatives that are left as they are."""
_FIRST = 8
"""Alternatives that are divided, at most."""
_MOST_VALUES = 100
"""Values of a property by which objects are divided, at most."""


class Inclusion:
    """Says which shapes are part of others."""

    def __init__(self, discriminators: Discriminators) -> None:
        self._constants = discriminators
        self._known: dict[tuple[Goal, Goal], bool] = {}

    def goal(self, inner: Goal, outer: Goal) -> bool:
        """Say whether every value of a goal belongs to another for sure."""
        if outer == TRUE or inner == outer:
            return True
        key = (inner, outer)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._constants.implies(inner, outer)
        return known

    def objects(self, inner: ObjectShape, outer: ObjectShape) -> bool:
        """Say whether every object of a shape belongs to another for sure."""
        if not outer.required <= inner.required:
            return False
        if outer.low > max(inner.low, len(inner.required)):
            return False
        if outer.high is not None and (inner.high is None or inner.high > outer.high):
            return False
        if outer.exists and not set(outer.exists) <= set(inner.exists):
            return False
        return all(self._block(inner, block) for block in outer.held - inner.held)

    def _block(self, inner: ObjectShape, block: Block) -> bool:
        if block.patterns or block.rest != TRUE:
            return False
        # A loop: with many alternatives this is where the time goes.
        for name, goal in block.names:
            if goal == TRUE:
                continue
            own = inner.goal(name)
            if own != goal and not self.goal(own, goal):
                return False
        return True

    def arrays(self, inner: ArrayShape, outer: ArrayShape) -> bool:
        """Say whether every array of a shape belongs to another for sure."""
        if not set(outer.repeating) <= set(inner.repeating):
            return False
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


class Products:
    """Multiplies unions out.

    Args:
        discriminators: What goals say of constants.
        most: Alternatives, as ``max_alternatives``.
    """

    def __init__(self, discriminators: Discriminators, most: int) -> None:
        self._discriminators = discriminators
        self._inclusion = Inclusion(discriminators)
        self._most = most

    def both(self, a: ValueSet, b: ValueSet) -> ValueSet:
        """Return the values of two sets.

        Raises:
            LimitError: More alternatives than ``max_alternatives``.
        """
        if a is NOTHING or b is NOTHING:
            return NOTHING
        if a is ANYTHING or b is ANYTHING:
            return b if a is ANYTHING else a
        arrays = self._pairs(a.arrays, b.arrays, both_arrays, self._inclusion.arrays)
        objects = self._pairs(a.objects, b.objects, both_objects, self._inclusion.objects)
        return both(a, b, arrays, objects)

    def all(self, sets: Sequence[ValueSet]) -> ValueSet:
        """Return the values of all sets, divided by a property if they are many otherwise.

        Raises:
            LimitError: More alternatives than ``max_alternatives``.
        """
        first, number = sets[0], 1
        while number < len(sets):
            following = self.both(first, sets[number])
            if width(following) > _FIRST:
                break
            first, number = following, number + 1
        whole, others = first, sets[number:]
        for one in others:
            whole = self.both(whole, one)
            if width(whole) > FEW:
                return reduce(self.both, others, self._divided(first, others))
        return whole

    def _divided(self, values: ValueSet, others: Sequence[ValueSet]) -> ValueSet:
        """Return a set, its objects divided by what tells most alternatives of others apart."""
        alternatives = [shape for one in others for shape in one.objects]
        parts = (part for shape in values.objects for part in self._parts(shape, alternatives))
        return replace(values, objects=tuple(dict.fromkeys(parts)))

    def _parts(
        self, shape: ObjectShape, alternatives: Sequence[ObjectShape]
    ) -> Iterator[ObjectShape]:
        """Yield the parts of a shape, by the required property that makes most of it."""
        best: tuple[str, list[Goal]] = "", [TRUE]
        for name in sorted(shape.required):
            told = {one.goal(name) for one in alternatives}
            goals = self._discriminators.divided(shape.goal(name), told)
            if len(best[1]) < len(goals) <= _MOST_VALUES:
                best = name, goals
        for goal in best[1]:
            block = Block(((best[0], goal),))
            yield replace(shape, blocks=(*shape.blocks, block)) if goal else shape

    def _pairs(
        self,
        left: Sequence[Any],
        right: Sequence[Any],
        join: Callable[[Any, Any], Any],
        is_part: Callable[[Any, Any], bool],
    ) -> list[Any]:
        """Return the shapes of every pair, without those that are nothing or part of others."""
        if len(left) * len(right) > 20 * self._most:
            raise self._too_many()
        # What is part of one of the alternatives is not divided by them.
        whole = {a for a in left if len(right) > 1 and any(is_part(a, b) for b in right)}
        found = Alternatives(is_part, [a for a in left if a in whole])
        for a in left:
            for b in () if a in whole else right:
                shape = join(a, b)
                if shape is None or (
                    isinstance(shape, ObjectShape) and self._discriminators.exclude(shape)
                ):
                    continue
                found.add(shape)
                if len(found.shapes) > self._most:
                    raise self._too_many()
        return found.all()

    def _too_many(self) -> LimitError:
        return LimitError(
            f"anyOf, oneOf and allOf multiply out to more than {self._most:,} alternatives",
            hint="raise `max_alternatives`, or tell the branches apart by a required constant",
            limit="max_alternatives",
        )


def width(values: ValueSet) -> int:
    """Return the number of alternatives of a set."""
    return len(values.arrays) + len(values.objects)
