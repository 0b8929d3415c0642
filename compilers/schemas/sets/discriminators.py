"""Discriminators: shapes excluded by required properties whose constants contradict each other.

What a goal says of constants outright, by const, enum and references to these, costs a look at the
schema, so that products of alternatives stay small while they are multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cdec.compilers.schemas.document import Document, Schema
from cdec.compilers.schemas.sets.shapes import (
    COMMENTS,
    FALSE,
    Constant,
    Goal,
    Goals,
    ObjectShape,
    canonical,
    conjunction,
)
from cdec.core.schemas.errors import SchemaRefError

_NOT_SAID = COMMENTS | {"definitions", "$defs", "$schema", "deprecated", "readOnly", "writeOnly"}
_TYPES = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"boolean"}),
    "integer": frozenset({"integer"}),
    "number": frozenset({"integer", "fraction"}),
    "string": frozenset({"string"}),
    "array": frozenset({"array"}),
    "object": frozenset({"object"}),
}
_EVERY = frozenset().union(*_TYPES.values())
_MOST_REFERENCES = 20
_ONLY_COMMENTS = COMMENTS | {"type"}


class Meanings:
    """Numbers what atoms say, and knows their types."""

    def __init__(self, goals: Goals) -> None:
        self._goals = goals
        self._of_schema: dict[Schema, int] = {}
        self._numbers: dict[object, int] = {}
        self._of_atom: dict[int, int] = {}
        self._types_of: dict[int, tuple[frozenset[str], bool]] = {}

    def literal(self, literal: int) -> int:
        """Return a literal's meaning: equal where two say the same, and one more for the contrary.

        A number of its own kind, not of an atom.
        """
        if literal < 0:
            return literal
        number = self._of_atom.get(literal >> 1)
        if number is None:
            atom = self._goals.atoms[literal >> 1]
            if isinstance(atom, Constant):
                number = self._number(("constant", canonical(atom.value)))
            else:
                number = self._schema(atom)
            self._of_atom[literal >> 1] = number
        return 2 * number + (literal & 1)

    def types(self, goal: Goal) -> frozenset[str]:
        """Return the types that the values of a goal may have; integers are one of their own."""
        left = _EVERY
        for literal in goal:
            found, is_all = self._types(literal)
            if not literal & 1:
                left &= found
            elif is_all:
                left -= found
        return left

    def of_types(self, literal: int, types: frozenset[str]) -> bool:
        """Say whether all values of some types belong to a literal for sure."""
        found, is_all = self._types(literal)
        return not types & found if literal & 1 else is_all and types <= found

    def _types(self, literal: int) -> tuple[frozenset[str], bool]:
        """Return the types of an atom's values, and whether all values of these are."""
        if literal < 0:
            return _EVERY, False
        known = self._types_of.get(literal >> 1)
        if known is None:
            known = self._types_of[literal >> 1] = self._of_keyword(literal >> 1)
        return known

    def _of_keyword(self, number: int) -> tuple[frozenset[str], bool]:
        atom = self._goals.atoms[number]
        if isinstance(atom, Constant) or "type" not in atom.keywords:
            return _EVERY, False
        given = atom.keywords["type"]
        names = given if isinstance(given, list) else [given]
        found = frozenset[str]().union(*(_TYPES[name] for name in names))
        # What an integer is depends on the draft.
        is_all = atom.keywords.keys() <= {"type"} | _NOT_SAID
        return found, is_all and not ("integer" in names and atom.draft <= 4)

    def _schema(self, schema: Schema) -> int:
        known = self._of_schema.get(schema)
        if known is None:
            parts = [
                (keyword, self._keyword(schema, keyword))
                for keyword in sorted(schema.keywords.keys() - _NOT_SAID)
            ]
            value = schema.value if isinstance(schema.value, bool) else None
            known = self._number((schema.base, schema.draft, value, *parts))
            self._of_schema[schema] = known
        return known

    def _keyword(self, schema: Schema, keyword: str) -> object:
        below = {key: one for (own, key), one in schema.children.items() if own == keyword}
        given = schema.keywords[keyword]
        kept = len(given) if isinstance(given, list | dict) and "" not in below else 1
        if len(below) < kept or not below:
            return canonical(given)
        return tuple(sorted((str(key), self._schema(one)) for key, one in below.items()))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


class _Said(NamedTuple):
    """Facts that a goal says outright.

    Attributes:
        meanings: Of its literals. types: That its values may have.
        constants: Among which its values are; None where it names none.
        excluded: Constants that are none of its values.
        is_nothing: Whether that contradicts itself.
    """

    meanings: frozenset[int]
    types: frozenset[str]
    constants: frozenset[object] | None
    excluded: frozenset[object]
    is_nothing: bool


class Discriminators:
    """Finds contradictions between constants.

    Args:
        document: Where references lead.
        goals: Whose literals are looked at.
    """

    def __init__(self, document: Document, goals: Goals) -> None:
        self._document = document
        self._goals = goals
        self._meanings = Meanings(goals)
        self._known: dict[int, tuple[frozenset[object] | None, bool]] = {}
        self._goals_said: dict[Goal, _Said] = {}
        self._raw: dict[object, tuple[Any, str]] = {}
        """All constants, as they are first written, and where."""

    def exclude(self, shape: ObjectShape) -> bool:
        """Say whether a required property of a shape has no value for sure."""
        if len(shape.blocks) < 2 and not shape.exists:
            return any(shape.goal(name) == FALSE for name in shape.required)
        return any(self.conflict(shape.goal(name)) for name in shape.required)

    def conflict(self, goal: Goal) -> bool:
        """Say whether a goal contradicts itself outright: constants, types, contraries."""
        if goal == FALSE:
            return True
        return len(goal) > 1 and self._said(goal).is_nothing

    def reduced(self, goal: Goal) -> Goal:
        """Return a goal of the same values, without contraries that its constants imply."""
        if self.conflict(goal):
            return FALSE
        named, _ = self._left(tuple(literal for literal in goal if not literal & 1))
        if named is None:
            return goal
        return tuple(x for x in goal if not x & 1 or not self._holds(x, named))

    def implies(self, inner: Goal, outer: Goal) -> bool:
        """Say whether what a goal says outright implies all that another says."""
        if self.conflict(inner):
            return True
        said = self._said(inner)
        return all(
            self._meanings.literal(literal) in said.meanings
            or self._meanings.of_types(literal, said.types)
            or (said.constants is not None and self._holds(literal, said.constants))
            or self._is_contrary(literal, said.excluded)
            for literal in outer
        )

    def _is_contrary(self, literal: int, values: frozenset[object]) -> bool:
        """Say whether a literal refuses some of these values alone."""
        if literal < 0 or not literal & 1:
            return False
        constants, _ = self._constants(literal >> 1)
        return constants is not None and constants <= values

    def divided(self, goal: Goal, others: Iterable[Goal]) -> list[Goal]:
        """Return goals that together are all values of one.

        A constant each, of those that others name, and one of all other values.
        """
        literals = frozenset[int]().union(*others)
        found = (self._constants(literal >> 1)[0] for literal in literals if literal >= 0)
        named = frozenset[object]().union(*(keys for keys in found if keys is not None))
        said = self._said(goal)
        named = named - said.excluded if said.constants is None else named & said.constants
        # In the order in which they were met, which is the same in every run.
        constants = [self._raw[key] for key in self._raw if key in named]
        goals = [self._goals.constant(value, path) for value, path in constants]
        if said.constants is None or said.constants - named:
            contraries = (self._goals.constant(*one, positive=False) for one in constants)
            goals.append(conjunction(contraries))
        return goals

    def _holds(self, literal: int, values: frozenset[object]) -> bool:
        """Say whether all of some values belong to a literal for sure."""
        if literal < 0:
            return False
        constants, is_all = self._constants(literal >> 1)
        if constants is None:
            return False
        return not values & constants if literal & 1 else is_all and values <= constants

    def _said(self, goal: Goal) -> _Said:
        """Return what a goal says outright."""
        known = self._goals_said.get(goal)
        if known is None:
            meanings = frozenset(map(self._meanings.literal, goal))
            types = self._meanings.types(goal)
            left, excluded = self._left(goal)
            is_nothing = not types or (left is not None and not left)
            is_nothing = is_nothing or any(meaning ^ 1 in meanings for meaning in meanings)
            known = self._goals_said[goal] = _Said(meanings, types, left, excluded, is_nothing)
        return known

    def _left(self, goal: Goal) -> tuple[frozenset[object] | None, frozenset[object]]:
        """Return constants among which the values of a goal are, and constants that are none.

        The former are None where it names none.
        """
        left: frozenset[object] | None = None
        without: set[object] = set()
        for literal in goal:
            constants, is_all = self._constants(literal >> 1)
            if constants is None:
                continue
            if literal & 1 == 0:
                left = constants if left is None else left & constants
            elif is_all:
                without |= constants
        return None if left is None else left - without, frozenset(without)

    def _constants(self, number: int) -> tuple[frozenset[object] | None, bool]:
        """Return constants among which the values of an atom are, and whether all of them are."""
        found = self._known.get(number)
        if found is None:
            atom = self._goals.atoms[number]
            if isinstance(atom, Constant):
                key = canonical(atom.value)
                self._raw.setdefault(key, (atom.value, atom.path))
                found = (frozenset({key}), True)
            else:
                found = self._listed(atom)
            self._known[number] = found
        return found

    def _listed(self, schema: Schema) -> tuple[frozenset[object] | None, bool]:
        for _ in range(_MOST_REFERENCES):
            keywords = schema.keywords
            values: Any = None
            if "const" in keywords:
                values = [keywords["const"]]
            elif "enum" in keywords:
                values = keywords["enum"]
            if values is not None:
                others = {"const", "enum"} & keywords.keys()
                is_all = len(others) == 1 and not (
                    keywords.keys() - others - (_ONLY_COMMENTS - {"type"})
                )
                keys = list(map(canonical, values))
                for key, value in zip(keys, values, strict=True):
                    self._raw.setdefault(key, (value, schema.path))
                return frozenset(keys), is_all
            if set(keywords) - _ONLY_COMMENTS != {"$ref"} or "type" in keywords:
                break
            try:
                schema = self._document.resolve(schema, keywords["$ref"], "$ref")
            except SchemaRefError:
                break
        return None, False
