"""Keywords of what is left by the subschemas that hold: ``unevaluatedProperties``, ``...Items``.

What is evaluated depends on which subschemas of anyOf, oneOf, if and so on accept the value. So the
values are divided by that: a case is a conjunction of subschemas that hold and that do not, with
what these evaluate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.keywords.arrays import arrays, some_item
from cdec.compilers.schemas.keywords.objects import objects, patterns_of, some_property
from cdec.compilers.schemas.sets.expansion import Expansion, Handler
from cdec.compilers.schemas.sets.object_cases import too_many
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    FALSE,
    NOTHING,
    TRUE,
    ArrayShape,
    Block,
    Goal,
    ObjectShape,
    ValueSet,
    conjunction,
    union,
)

_APPLICATORS = frozenset(
    [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
    ]
)


@dataclass(frozen=True)
class Evaluated:
    """Properties or items that subschemas evaluate, where a goal holds.

    Attributes:
        goal: Which of them hold, and which do not.
        names, patterns: Properties. items: So many first items.
        contained: Items that one of these schemas accepts, wherever they stand.
        is_all: All properties, or all items.
    """

    goal: Goal = TRUE
    names: frozenset[str] = frozenset()
    patterns: tuple[Strings, ...] = ()
    items: int = 0
    contained: tuple[Schema, ...] = ()
    is_all: bool = False

    def also(self, other: Evaluated) -> Evaluated:
        """Return what both evaluate, where both goals hold."""
        return Evaluated(
            conjunction((self.goal, other.goal)),
            self.names | other.names,
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            max(self.items, other.items),
            tuple(dict.fromkeys((*self.contained, *other.contained))),
            self.is_all or other.is_all,
        )


class _UnsureError(Exception):
    """Evaluation that cannot be told; the argument is why."""


_Own = Callable[[Expansion, Schema, bool], Evaluated]
_Make = Callable[[Expansion, Schema, Evaluated, bool], ValueSet]


def _own_properties(expansion: Expansion, schema: Schema, is_inner: bool) -> Evaluated:
    """Return the properties that a schema's own keywords evaluate."""
    keywords = schema.keywords
    patterns = patterns_of(expansion, schema)
    if patterns is None:
        return Evaluated(is_all=True)
    inner = is_inner and "unevaluatedProperties" in keywords
    is_all = "additionalProperties" in keywords or inner
    names = frozenset(schema.named("properties"))
    return Evaluated(TRUE, names, tuple(names for names, _ in patterns), is_all=is_all)


def _own_items(expansion: Expansion, schema: Schema, is_inner: bool) -> Evaluated:
    """Return the items that a schema's own keywords evaluate."""
    keywords = schema.keywords
    given = keywords.get("items")
    is_all = given is not None and not isinstance(given, list)
    is_all = is_all or (isinstance(given, list) and "additionalItems" in keywords)
    is_all = is_all or (is_inner and "unevaluatedItems" in keywords)
    items = len(given) if isinstance(given, list) else len(keywords.get("prefixItems", ()))
    # What `contains` accepts is evaluated since 2020-12.
    one_by_one = "contains" in keywords and schema.draft >= 2020
    contained = (schema.child("contains"),) if one_by_one else ()
    return Evaluated(items=items, contained=contained, is_all=is_all)


class _Cases:
    """Divides values by which subschemas hold."""

    def __init__(self, expansion: Expansion, own: _Own) -> None:
        self._expansion = expansion
        self._own = own
        self._most = expansion.options.limits.max_alternatives
        self._open: list[Schema] = []

    def of(self, schema: Schema, *, is_inner: bool) -> list[Evaluated]:
        """Return the cases of a schema, which is known to hold."""
        if not schema.keywords:
            return [Evaluated()]
        if schema in self._open:
            raise _UnsureError("it refers to itself")
        self._open.append(schema)
        cases = [self._own(self._expansion, schema, is_inner)]
        for keyword in sorted(_APPLICATORS & schema.keywords.keys()):
            cases = self._product(cases, list(self._of_keyword(schema, keyword)))
        self._open.pop()
        return cases

    def _product(self, left: list[Evaluated], right: list[Evaluated]) -> list[Evaluated]:
        if len(left) * len(right) > self._most:
            raise too_many("what is evaluated", self._most)
        pairs = (a.also(b) for a, b in product(left, right))
        return [case for case in pairs if case.goal != FALSE]

    def _of_keyword(self, schema: Schema, keyword: str) -> Iterator[Evaluated]:
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = schema.keywords[keyword]
            document = self._expansion.document
            if keyword != "$ref" and document.is_dynamic(schema, reference):
                raise _UnsureError("a reference depends on how its place was reached")
            yield from self.of(document.resolve(schema, reference, keyword), is_inner=True)
        elif keyword == "allOf":
            cases = [Evaluated()]
            for below in schema.listed(keyword):
                cases = self._product(cases, self.of(below, is_inner=True))
            yield from cases
        elif keyword == "oneOf":
            # Exactly one holds: that the others do not need not be said again.
            goals = self._expansion.goals
            for below in schema.listed(keyword):
                held = Evaluated(goals.of(below))
                yield from (held.also(case) for case in self.of(below, is_inner=True))
        elif keyword == "anyOf":
            cases = [Evaluated()]
            for below in schema.listed(keyword):
                cases = self._product(cases, self._either(below))
            yield from cases
        elif keyword == "dependentSchemas":
            cases = [Evaluated()]
            for name, below in schema.named(keyword).items():
                cases = self._product(cases, self._dependent(schema, name, below))
            yield from cases
        else:
            yield from self._conditional(schema)

    def _either(self, below: Schema) -> list[Evaluated]:
        """Return the cases of a schema that may hold or not; one, where it evaluates nothing."""
        cases = self.of(below, is_inner=True)
        if all(replace(case, goal=TRUE) == Evaluated() for case in cases):
            return [Evaluated()]
        goals = self._expansion.goals
        holds = Evaluated(goals.of(below))
        refused = Evaluated(goals.of(below, positive=False))
        return [*(holds.also(case) for case in cases), refused]

    def _dependent(self, schema: Schema, name: str, below: Schema) -> list[Evaluated]:
        """Return the cases of a schema that holds where a property is there."""
        keywords = {"type": "object", "required": [name]}
        there = Schema(f"{schema.path}/dependentSchemas", keywords, "", schema.draft)
        goals = self._expansion.goals
        held = self._product([Evaluated(goals.of(there))], self.of(below, is_inner=True))
        return [*held, Evaluated(goals.of(there, positive=False))]

    def _conditional(self, schema: Schema) -> Iterator[Evaluated]:
        goals = self._expansion.goals
        condition = schema.child("if")
        for holds, keyword in ((True, "then"), (False, "else")):
            cases = [Evaluated(goals.of(condition, positive=holds))]
            if holds:
                cases = self._product(cases, self.of(condition, is_inner=True))
            if keyword in schema.keywords:
                cases = self._product(cases, self.of(schema.child(keyword), is_inner=True))
            yield from cases


def _handlers(keyword: str, own: _Own, make: _Make) -> tuple[Handler, Handler]:
    def divided(expansion: Expansion, schema: Schema, positive: bool) -> ValueSet:
        try:
            cases = _Cases(expansion, own).of(schema, is_inner=False)
        except _UnsureError as unsure:
            return expansion.unsupported(schema, keyword, str(unsure))
        return union(
            expansion.meet((expansion.expand(c.goal), make(expansion, schema, c, positive)))
            for c in cases
        )

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        if expansion.goals.of(schema.child(keyword)) == TRUE:
            return ANYTHING
        return divided(expansion, schema, True)

    def refuse(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        # Where what stands beside it does not hold, the schema is refused for that.
        return divided(expansion, schema, False)

    return accept, refuse


def _properties_left(
    expansion: Expansion, schema: Schema, case: Evaluated, positive: bool
) -> ValueSet:
    goal = expansion.goals.of(schema.child("unevaluatedProperties"), positive=positive)
    if positive:
        names = tuple((name, TRUE) for name in sorted(case.names))
        patterns = tuple((pattern, TRUE) for pattern in case.patterns)
        return objects(ObjectShape((Block(names, patterns, TRUE if case.is_all else goal),)))
    others = ~Strings.words(case.names)
    for pattern in case.patterns:
        others = others - pattern
    if case.is_all or goal == FALSE or others.is_empty:
        return NOTHING
    path = f"{schema.path}/unevaluatedProperties"
    return ValueSet(objects=(some_property(others, goal, path),))


def _items_left(expansion: Expansion, schema: Schema, case: Evaluated, positive: bool) -> ValueSet:
    left = schema.child("unevaluatedItems")
    if case.contained:
        left = _any_of(left, case.contained)
    goal = expansion.goals.of(left, positive=positive)
    if positive:
        return arrays(ArrayShape((TRUE,) * case.items, TRUE if case.is_all else goal))
    if case.is_all:
        return NOTHING
    return some_item(goal, case.items, f"{schema.path}/unevaluatedItems")


def _any_of(schema: Schema, others: tuple[Schema, ...]) -> Schema:
    """Return the schema of what one of several accepts."""
    schemas = (schema, *others)
    joined = Schema(schema.path, {"anyOf": [s.value for s in schemas]}, schema.base, schema.draft)
    joined.children |= {("anyOf", i): one for i, one in enumerate(schemas)}
    return joined


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    "unevaluatedProperties": _handlers("unevaluatedProperties", _own_properties, _properties_left),
    "unevaluatedItems": _handlers("unevaluatedItems", _own_items, _items_left),
}
