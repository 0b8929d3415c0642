"""Keywords that join schemas: references, allOf, anyOf, oneOf, not, and if with then and else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


def _both_ways(handle: Callable[..., ValueSet]) -> tuple[Handler, Handler]:
    """Return the handlers of a function that is told first whether values are accepted."""
    return partial(handle, True), partial(handle, False)


def _goals(expansion: Expansion, schema: Schema, keyword: str, positive: bool) -> list[Goal]:
    return [expansion.goals.of(below, positive=positive) for below in schema.listed(keyword)]


def _met(expansion: Expansion, goals: list[Goal]) -> ValueSet:
    return expansion.meet(map(expansion.expand, goals))


def _all_of(positive: bool, expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of all schemas, or those that one of them refuses."""
    goals = _goals(expansion, schema, "allOf", positive)
    return _met(expansion, goals) if positive else union(map(expansion.expand, goals))


def _any_of(positive: bool, expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of any schema, or those that all refuse."""
    goals = _goals(expansion, schema, "anyOf", positive)
    return union(map(expansion.expand, goals)) if positive else _met(expansion, goals)


def accept_one(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of exactly one schema that satisfy the keywords beside it as well.

    A branch leaves out what the others accept, but for those that are disjoint from it beside these
    keywords. That is decided type by type: branches that say nothing of other types than one have
    all of these in common.
    """
    branches = _goals(expansion, schema, "oneOf", True)
    others = _goals(expansion, schema, "oneOf", False)
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
    branches = _goals(expansion, schema, "oneOf", True)
    sets = [_met(expansion, _goals(expansion, schema, "oneOf", False))]
    for i, one in enumerate(branches):
        for other in branches[i + 1 :]:
            if not expansion.are_disjoint(one, other):
                sets.append(expansion.expand(conjunction((one, other))))
    return union(sets)


def _not(positive: bool, expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values that a schema refuses, or those that it accepts."""
    return expansion.expand(expansion.goals.of(schema.child("not"), positive=not positive))


def _if(positive: bool, expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return ``if`` and ``then``, or neither ``if`` nor its contrary's ``else``."""
    if not {"then", "else"} & schema.keywords.keys():
        return ANYTHING if positive else NOTHING
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


def _referred(keyword: str) -> tuple[Handler, Handler]:
    def handle(positive: bool, expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        if keyword != "$ref" and expansion.document.is_dynamic(schema, value):
            return expansion.unsupported(
                schema, keyword, "what it leads to depends on how its place was reached"
            )
        target = expansion.document.resolve(schema, value, keyword)
        return expansion.expand(expansion.goals.of(target, positive=positive))

    return _both_ways(handle)


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    "$ref": _referred("$ref"),
    "$dynamicRef": _referred("$dynamicRef"),
    "$recursiveRef": _referred("$recursiveRef"),
    "allOf": _both_ways(_all_of),
    "anyOf": _both_ways(_any_of),
    "not": _both_ways(_not),
    "if": _both_ways(_if),
}
LAST: dict[str, tuple[Handler, Handler]] = {"oneOf": (accept_one, refuse_one)}
"""Keywords met behind all others, since these tell their branches apart."""
