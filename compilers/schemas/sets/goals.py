"""Goals: conjunctions of subschemas, of negated ones and of constants; the compiler's working unit.

A value belongs to a goal if every literal of it says so. Literals are integers, ``2 * atom`` for an
atom and ``2 * atom + 1`` for its negation, so that goals are small tuples that compare fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeAlias

from cdec.compilers.schemas.reading.document import Schema

Goal: TypeAlias = tuple[int, ...]
TRUE: Goal = ()
"""Every value."""
FALSE: Goal = (-1,)
"""No value."""


COMMENTS = frozenset({"title", "description", "$comment", "default", "examples"})
"""Keywords that say nothing of values."""
_CONTRARY = COMMENTS | {"not"}


class Constant:
    """One JSON value, compared as JSON Schema does: 1 is 1.0, and the order of keys means nothing.

    Attributes:
        value: The JSON. path: Where it stands.
    """

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path


class Goals:
    """Numbers the atoms, and makes goals of them."""

    def __init__(self) -> None:
        self.atoms: list[Schema | Constant] = []
        self._schemas: dict[Schema, int] = {}
        self._constants: dict[object, int] = {}
        self._types: dict[tuple[str, ...], Schema] = {}
        self._firsts: set[int] = set()

    def of(self, schema: Schema, *, positive: bool = True) -> Goal:
        """Return the values that a schema accepts, or those that it refuses."""
        if isinstance(schema.value, bool) or not schema.keywords:
            accepts = schema.value is not False
            return TRUE if accepts is positive else FALSE
        if "not" in schema.keywords and schema.keywords.keys() <= _CONTRARY:
            return self.of(schema.child("not"), positive=not positive)
        number = self._schemas.get(schema)
        if number is None:
            number = self._schemas[schema] = len(self.atoms)
            self.atoms.append(schema)
        return (2 * number + (not positive),)

    def of_types(self, names: tuple[str, ...], draft: int) -> Goal:
        """Return the values of some types; as a part of a goal, it is looked at first."""
        if names not in self._types:
            self._types[names] = Schema("", {"type": list(names)}, "", draft)
        return self.first(self._types[names])

    def first(self, schema: Schema) -> Goal:
        """Return the values that a schema accepts; as a part of a goal, it is looked at first."""
        goal = self.of(schema)
        self._firsts.update(goal)
        return goal

    def in_order(self, goal: Goal) -> list[int]:
        """Return the literals of a goal in the order in which they are looked at.

        Contraries come last: what they are contraries of is often told apart by then.
        """
        return sorted(goal, key=lambda literal: (literal not in self._firsts, literal & 1))

    def constant(self, value: Any, path: str, *, positive: bool = True) -> Goal:
        """Return one value, or all others."""
        key = canonical(value)
        number = self._constants.get(key)
        if number is None:
            number = self._constants[key] = len(self.atoms)
            self.atoms.append(Constant(value, path))
        return (2 * number + (not positive),)

    def places(self, goal: Goal) -> list[str]:
        """Return the JSON pointers of what a goal is made of."""
        return [self.atoms[literal >> 1].path for literal in goal if literal >= 0]


def conjunction(goals: Iterable[Goal]) -> Goal:
    """Return the values of all goals; FALSE where one contradicts another outright."""
    found = [goal for goal in goals if goal]
    if len(found) < 2:
        return found[0] if found else TRUE
    literals = set[int]().union(*found)
    if -1 in literals or any(literal ^ 1 in literals for literal in literals):
        return FALSE
    return tuple(sorted(literals))


def canonical(value: Any) -> object:
    """Return a hashable that is equal for equal JSON values."""
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value).normalize() + 0)
    if isinstance(value, list):
        return ("array", *map(canonical, value))
    if isinstance(value, dict):
        return ("object", *sorted((name, canonical(item)) for name, item in value.items()))
    return value
