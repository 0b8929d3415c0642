"""Keywords of arrays: what they accept, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.keywords.scalars import counted, demanded
from cdec.compilers.schemas.sets.expansion import Expansion, Handler
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    FALSE,
    NOTHING,
    TRUE,
    ArrayShape,
    Contains,
    Goal,
    ValueSet,
)


def only(*shapes: ArrayShape) -> ValueSet:
    """Return arrays of some shapes and nothing else."""
    return ValueSet(arrays=shapes)


def arrays(*shapes: ArrayShape) -> ValueSet:
    """Return arrays of some shapes, and every value that is no array."""
    return replace(ANYTHING, arrays=shapes)


def _prefix(expansion: Expansion, schema: Schema, keyword: str, positive: bool) -> list[Goal]:
    return [expansion.goals.of(item, positive=positive) for item in schema.listed(keyword)]


def accept_items(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays whose items, behind those of ``prefixItems``, belong to a schema."""
    if isinstance(value, list):
        return arrays(ArrayShape(tuple(_prefix(expansion, schema, "items", True))))
    rest = expansion.goals.of(schema.child("items"))
    return arrays(ArrayShape((TRUE,) * _tuple_length(schema), rest))


def refuse_items(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with an item that does not."""
    if isinstance(value, list):
        return _refuse_prefix(_prefix(expansion, schema, "items", False))
    goal = expansion.goals.of(schema.child("items"), positive=False)
    return some_item(goal, _tuple_length(schema), f"{schema.path}/items")


def accept_prefix_items(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays whose first items belong to a schema each."""
    return arrays(ArrayShape(tuple(_prefix(expansion, schema, "prefixItems", True))))


def refuse_prefix_items(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with a first item that does not."""
    return _refuse_prefix(_prefix(expansion, schema, "prefixItems", False))


def accept_additional(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays whose items behind those of a list of ``items`` belong to a schema."""
    given = schema.keywords.get("items")
    if not isinstance(given, list):
        return ANYTHING
    rest = expansion.goals.of(schema.child("additionalItems"))
    return arrays(ArrayShape((TRUE,) * len(given), rest))


def refuse_additional(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with such an item that does not."""
    given = schema.keywords.get("items")
    if not isinstance(given, list):
        return NOTHING
    goal = expansion.goals.of(schema.child("additionalItems"), positive=False)
    return some_item(goal, len(given), f"{schema.path}/additionalItems")


def _tuple_length(schema: Schema) -> int:
    return len(schema.keywords.get("prefixItems", ()))


def _refuse_prefix(refused: list[Goal]) -> ValueSet:
    shapes = [
        ArrayShape((TRUE,) * index + (goal,), low=index + 1)
        for index, goal in enumerate(refused)
        if goal != FALSE
    ]
    return only(*shapes)


def some_item(goal: Goal, first: int, path: str) -> ValueSet:
    """Return the arrays with an item of a goal, from an index on."""
    if goal == FALSE:
        return NOTHING
    if goal == TRUE:
        return only(ArrayShape(low=first + 1))
    return only(ArrayShape(contains=(Contains(goal, 1, None, path, first),)))


def accept_contains(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with as many items of a schema as asked for."""
    goal = expansion.goals.of(schema.child("contains"))
    low, high = _counts(expansion, schema)
    path = f"{schema.path}/contains"
    if goal == TRUE:
        return arrays(ArrayShape(low=low, high=high))
    if low == 0 and high is None:
        return ANYTHING
    if goal == FALSE:
        return arrays() if low else ANYTHING
    if high is not None and high < low:
        return arrays()
    return arrays(ArrayShape(contains=(Contains(goal, low, high, path),)))


def refuse_contains(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with fewer or more."""
    goal = expansion.goals.of(schema.child("contains"))
    low, high = _counts(expansion, schema)
    path = f"{schema.path}/contains"
    shapes = []
    if low == 1:
        not_one = expansion.goals.of(schema.child("contains"), positive=False)
        shapes.append(ArrayShape(rest=not_one))
    elif low:
        shapes.append(ArrayShape(contains=(Contains(goal, 0, low - 1, path),)))
    if high is not None:
        shapes.append(ArrayShape(contains=(Contains(goal, high + 1, None, path),)))
    return only(*shapes)


def _counts(expansion: Expansion, schema: Schema) -> tuple[int, int | None]:
    """Return how many items ``contains`` asks for; the drafts before 2019-09 say one."""
    if schema.draft <= 7:
        return 1, None
    low = demanded(expansion, schema, "minContains", schema.keywords.get("minContains", 1))
    high = schema.keywords.get("maxContains")
    return low, None if high is None else int(high)


def accept_unique(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays without equal items."""
    return arrays(ArrayShape(unique=(f"{schema.path}/uniqueItems",))) if value else ANYTHING


def refuse_unique(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the arrays with equal items; whether there are any is asked where they are used."""
    return only(ArrayShape(low=2, repeating=(f"{schema.path}/uniqueItems",))) if value else NOTHING


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    **counted("arrays", ArrayShape, "minItems", "maxItems"),
    "prefixItems": (accept_prefix_items, refuse_prefix_items),
    "items": (accept_items, refuse_items),
    "additionalItems": (accept_additional, refuse_additional),
    "contains": (accept_contains, refuse_contains),
    "uniqueItems": (accept_unique, refuse_unique),
}
