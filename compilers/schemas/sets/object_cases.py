"""Cases of objects: shapes whose demands an engine can count, property by property."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cdec.compilers.regular.strings import Strings, partition
from cdec.compilers.schemas.sets.shapes import FALSE, Block, Exists, Goal, ObjectShape, conjunction
from cdec.core.errors import LimitError

_FEW_NAMES = 1000
"""A language of property names with at most as many is written out, name by name."""
_MOST_CELLS = 256
_STEPS = 4
"""Ways of meeting demands that are looked at, for each alternative that there may be."""


class Cell(NamedTuple):
    """Infinitely many property names of which a shape says the same.

    Attributes:
        names: The language, without names that the shape mentions.
        goal: Of the values.
        exists: Numbers of the shape's ``exists`` whose languages the names belong to.
    """

    names: Strings
    goal: Goal
    exists: frozenset[int]


class ObjectCase(NamedTuple):
    """Objects of a shape, with what must exist counted.

    Attributes:
        shape: Its ``exists`` are those that some name not mentioned can be the property of.
        names: All names that are mentioned, or that are few.
        cells: All others.
    """

    shape: ObjectShape
    names: list[str]
    cells: list[Cell]


class ObjectCases:
    """Divides shapes into cases.

    Args:
        has_value: Whether a goal has a value.
        most: Alternatives, as ``max_alternatives``.
    """

    def __init__(self, has_value: Callable[[Goal], bool], most: int) -> None:
        self._has_value = has_value
        self._most = most
        self._cells: dict[ObjectShape, tuple[list[str], list[Cell]]] = {}

    def of(self, shape: ObjectShape) -> Iterator[ObjectCase]:
        """Yield the cases of a shape that have an object; together they are the shape.

        Raises:
            LimitError: More than ``max_alternatives``.
        """
        for number, divided in enumerate(self._divided(shape)):
            if number == self._most:
                raise too_many(shape.exists[0].path, self._most)
            names, cells = self._parted(divided)
            if self._is_possible(divided, names, cells):
                yield ObjectCase(divided, names, cells)

    def _divided(self, shape: ObjectShape) -> Iterator[ObjectShape]:
        """Yield shapes whose ``exists`` a name that is not mentioned can always satisfy.

        A property may be several of them at once. Where the number of properties is bounded, each
        way of sharing them is a case, whose ``exists`` are met by a property each.
        """
        exists = self._narrowed(shape) if shape.exists else ()
        if exists is None:
            return
        steps = iter(range(_STEPS * self._most))
        if shape.high is None or not exists:
            yield from self._placed(replace(shape, exists=exists), 0, steps)
            return
        for joined in self._shared(exists, shape.high):
            yield from self._placed(replace(shape, exists=joined), 0, steps)

    def _narrowed(self, shape: ObjectShape) -> tuple[Exists, ...] | None:
        """Return what must exist, with the names that it can have where these are mentioned ones.

        None where it can have none. Of two such that one property meets whenever it meets the
        other, one is left.
        """
        names, cells = self._parted(shape)
        found = []
        for number, exists in enumerate(shape.exists):
            if not self._is_open(cells, number, exists):
                words = [name for name in names if self._is_met(shape, name, exists)]
                if not words:
                    return None
                exists = exists._replace(names=Strings.words(words))
            found.append(exists)
        return _without_implied(found)

    def _shared(self, demands: tuple[Exists, ...], most: int) -> Iterator[tuple[Exists, ...]]:
        """Yield the ways to join demands into ``most`` at most, such as one property can meet."""
        if not demands:
            yield ()
            return
        for others in self._shared(demands[:-1], most):
            if len(others) < most:
                yield (*others, demands[-1])
            for i, other in enumerate(others):
                goal = conjunction((other.goal, demands[-1].goal))
                names = other.names & demands[-1].names
                if goal != FALSE and not names.is_empty:
                    yield (*others[:i], Exists(names, goal, other.path), *others[i + 1 :])

    def _placed(
        self, shape: ObjectShape, number: int, steps: Iterator[int]
    ) -> Iterator[ObjectShape]:
        """Yield shapes whose ``exists`` from a number on are open, or required of a name.

        Where only mentioned names can satisfy one, a case for each of them requires it; a name that
        is required anyway can do so without adding to the number of properties.
        """
        if shape.high is not None and len(shape.required) + number > shape.high:
            return
        if number == len(shape.exists):
            yield shape
            return
        exists = shape.exists[number]
        if next(steps, None) is None:
            raise too_many(exists.path, self._most)
        rest = replace(shape, exists=(*shape.exists[:number], *shape.exists[number + 1 :]))
        if any(_is_met_anyway(shape, name, exists) for name in shape.required):
            yield from self._placed(rest, number, steps)
            return
        names, cells = self._parted(shape)
        is_open = self._is_open(cells, number, exists)
        if is_open:
            yield from self._placed(shape, number + 1, steps)
            if shape.high is None:
                return
        for name in sorted(shape.required) if is_open else names:
            if self._is_met(rest, name, exists):
                yield from self._placed(_requiring(rest, name, exists), number, steps)

    def _is_open(self, cells: list[Cell], number: int, exists: Exists) -> bool:
        """Say whether a name that is not mentioned can be what must exist."""
        return any(
            number in cell.exists and self._has_value(conjunction((cell.goal, exists.goal)))
            for cell in cells
        )

    def _is_met(self, shape: ObjectShape, name: str, exists: Exists) -> bool:
        """Say whether a property of a name can be what must exist."""
        if name not in exists.names:
            return False
        return self._has_value(conjunction((shape.goal(name), exists.goal)))

    def _parted(self, shape: ObjectShape) -> tuple[list[str], list[Cell]]:
        """Return the mentioned names, and all others in cells."""
        known = self._cells.get(shape)
        if known is None:
            known = self._cells[shape] = self._part(shape)
        return known

    def _part(self, shape: ObjectShape) -> tuple[list[str], list[Cell]]:
        names = shape.names
        found = {language: None for block in shape.blocks for language, _ in block.patterns}
        languages = list(found | dict.fromkeys(exists.names for exists in shape.exists))
        mentioned = Strings.words(names)
        if not languages:
            rest = conjunction(block.rest for block in shape.blocks)
            return names, [Cell(Strings.ANY - mentioned, rest, frozenset())]
        cells = []
        for held, language in partition(languages, _MOST_CELLS):
            others = language - mentioned
            few = others.finite(_FEW_NAMES)
            if few is not None:
                names = names + sorted(few)
                continue
            inside = frozenset(languages[i] for i in held)
            exists = frozenset(i for i, e in enumerate(shape.exists) if e.names in inside)
            cells.append(Cell(others, _cell_goal(shape, inside), exists))
        return names, cells

    def _is_possible(self, shape: ObjectShape, names: list[str], cells: list[Cell]) -> bool:
        """Say whether a shape has an object."""
        demanded = len(shape.required) + len(shape.exists)
        if shape.high is not None and shape.high < max(shape.low, demanded):
            return False
        if not all(self._has_value(shape.goal(name)) for name in sorted(shape.required)):
            return False
        if demanded >= shape.low or any(self._has_value(cell.goal) for cell in cells):
            return True
        left = (name for name in names if self._has_value(shape.goal(name)))
        return sum(1 for _ in left) >= shape.low


def _requiring(shape: ObjectShape, name: str, exists: Exists) -> ObjectShape:
    block = Block(((name, exists.goal),))
    return replace(
        shape,
        blocks=tuple(dict.fromkeys((*shape.blocks, block))),
        required=shape.required | {name},
    )


def _without_implied(demands: list[Exists]) -> tuple[Exists, ...]:
    """Return demands without those that another one meets whatever it is met by.

    Those that few names can meet come first.
    """
    kept: list[Exists] = []
    for one in sorted(demands, key=_width):
        if not any(
            set(one.goal) <= set(other.goal) and (other.names - one.names).is_empty
            for other in kept
        ):
            kept.append(one)
    return tuple(kept)


def _width(exists: Exists) -> tuple[float, int]:
    listed = exists.names.listed
    return (math.inf if listed is None else len(listed), -len(exists.goal))


def _is_met_anyway(shape: ObjectShape, name: str, exists: Exists) -> bool:
    """Say whether a required property is what must exist, whatever it is."""
    return name in exists.names and set(exists.goal) <= set(shape.goal(name))


def _cell_goal(shape: ObjectShape, inside: frozenset[Strings]) -> Goal:
    """Return the goal of names that exactly some languages hold."""
    goals = []
    for block in shape.blocks:
        found = [goal for language, goal in block.patterns if language in inside]
        goals += found or [block.rest]
    return conjunction(goals)


def too_many(what: str, most: int) -> LimitError:
    """Return the error of alternatives that multiply out."""
    return LimitError(
        f"{what} multiplies out to more than {most:,} alternatives",
        hint="raise `max_alternatives`",
        limit="max_alternatives",
    )
