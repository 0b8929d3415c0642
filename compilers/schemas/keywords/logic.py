"""Keywords that join schemas: references, allOf, anyOf, oneOf, not, and if with then and else."""

from __future__ import annotations

from typing import Any

from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.sets.expansion import Expansion, Handler
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    NOTHING,
    TRUE,
    Goal,
    ValueSet,
    conjunction,
    union,
)


def _all(expansion: Expansion, schema: Schema, keyword: str, positive: bool) -> list[Goal]:
    return [expansion.goals.of(below, positive=positive) for below in schema.listed(keyword)]


def _met(expansion: Expansion, goals: list[Goal]) -> ValueSet:
    return expansion.meet(map(expansion.expand, goals))


def _joined(expansion: Expansion, goals: list[Goal]) -> ValueSet:
    return union(map(expansion.expand, goals))


def accept_all(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of all schemas."""
    return _met(expansion, _all(expansion, schema, "allOf", True))


def refuse_all(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values that one of them refuses."""
    return _joined(expansion, _all(expansion, schema, "allOf", False))


def accept_any(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of any schema."""
    return _joined(expansion, _all(expansion, schema, "anyOf", True))


def refuse_any(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values that all refuse."""
    return _met(expansion, _all(expansion, schema, "anyOf", False))


def accept_one(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of exactly one schema that satisfy the keywords beside it as well.

    A branch leaves out what the others accept, but for those that are disjoint from it beside these
    keywords. That is decided type by type: branches that say nothing of other types than one have
    all of these in common.
    """
    branches = _all(expansion, schema, "oneOf", True)
    others = _all(expansion, schema, "oneOf", False)
    beside = expansion.beside(schema, "oneOf")
    sets = []
    for i, branch in enumerate(branches):
        own = conjunction((branch, beside))
        met = _met_by(expansion, own, branches, [j for j in range(len(branches)) if j != i])
        for kind in _kinds(expansion, schema) if met else [TRUE]:
            typed = conjunction((own, kind))
            refused = [others[j] for j in _met_by(expansion, typed, branches, met)]
            sets.append(expansion.expand(conjunction((typed, *refused))))
    return union(sets)


def _met_by(
    expansion: Expansion, goal: Goal, branches: list[Goal], numbers: list[int]
) -> list[int]:
    """Return which branches may have a value in common with a goal."""
    return [i for i in numbers if not expansion.are_disjoint(goal, branches[i])]


def _kinds(expansion: Expansion, schema: Schema) -> list[Goal]:
    """Return the goals of objects, of arrays and of all other values."""
    names = (("object",), ("array",), ("null", "boolean", "number", "string"))
    return [expansion.goals.of_types(some, schema.draft) for some in names]


def refuse_one(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of none, or of two at least."""
    branches = _all(expansion, schema, "oneOf", True)
    sets = [_met(expansion, _all(expansion, schema, "oneOf", False))]
    for i, one in enumerate(branches):
        for other in branches[i + 1 :]:
            if not expansion.are_disjoint(one, other):
                sets.append(expansion.expand(conjunction((one, other))))
    return union(sets)


def accept_not(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values that a schema refuses."""
    return expansion.expand(expansion.goals.of(schema.child("not"), positive=False))


def refuse_not(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values that it accepts."""
    return expansion.expand(expansion.goals.of(schema.child("not")))


def _conditional(expansion: Expansion, schema: Schema, positive: bool) -> ValueSet:
    """Return ``if`` and ``then``, or neither ``if`` nor its contrary's ``else``."""
    goals = expansion.goals
    sets = []
    for holds, keyword in ((True, "then"), (False, "else")):
        condition = goals.of(schema.child("if"), positive=holds)
        if keyword in schema.keywords:
            branch = goals.of(schema.child(keyword), positive=positive)
            sets.append(expansion.expand(conjunction((condition, branch))))
        elif positive:
            sets.append(expansion.expand(condition))
    return union(sets)


def accept_if(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return what ``then`` or ``else`` accepts, as the condition says."""
    if not {"then", "else"} & schema.keywords.keys():
        return ANYTHING
    return _conditional(expansion, schema, True)


def refuse_if(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return what it refuses."""
    if not {"then", "else"} & schema.keywords.keys():
        return NOTHING
    return _conditional(expansion, schema, False)


def _referred(keyword: str, positive: bool) -> Handler:
    def handle(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        if keyword != "$ref" and expansion.document.is_dynamic(schema, value):
            return expansion.unsupported(
                schema, keyword, "what it leads to depends on how its place was reached"
            )
        target = expansion.document.resolve(schema, value, keyword)
        return expansion.expand(expansion.goals.of(target, positive=positive))

    return handle


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    "$ref": (_referred("$ref", True), _referred("$ref", False)),
    "$dynamicRef": (_referred("$dynamicRef", True), _referred("$dynamicRef", False)),
    "$recursiveRef": (_referred("$recursiveRef", True), _referred("$recursiveRef", False)),
    "allOf": (accept_all, refuse_all),
    "anyOf": (accept_any, refuse_any),
    "not": (accept_not, refuse_not),
    "if": (accept_if, refuse_if),
}
LAST: dict[str, tuple[Handler, Handler]] = {"oneOf": (accept_one, refuse_one)}
"""What is met behind all others, since these tell its branches apart."""
