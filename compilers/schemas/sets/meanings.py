"""Meanings: subschemas that say the same wherever they stand, and the types that they leave."""

from __future__ import annotations

from cdec.compilers.schemas.reading.document import Schema
from cdec.compilers.schemas.sets.goals import COMMENTS, Constant, Goal, Goals, canonical

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


class Meanings:
    """Numbers what atoms say, and knows their types.

    Args:
        goals: Whose atoms they are.
    """

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
        """Whether all values of some types belong to a literal for sure."""
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
