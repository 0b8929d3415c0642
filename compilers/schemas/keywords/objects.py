"""Keywords of objects: what they accept, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.keywords.scalars import counted
from cdec.compilers.schemas.sets.expansion import Expansion, Handler, UnderWayError
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    FALSE,
    NOTHING,
    TRUE,
    Block,
    Exists,
    Goal,
    ObjectShape,
    ValueSet,
    union,
    without,
)
from cdec.core.grammars.errors import RegexUnsupportedError


def only(*shapes: ObjectShape) -> ValueSet:
    """Return objects of some shapes and nothing else."""
    return ValueSet(objects=shapes)


def objects(*shapes: ObjectShape) -> ValueSet:
    """Return objects of some shapes, and every value that is no object."""
    return replace(ANYTHING, objects=shapes)


def patterns_of(expansion: Expansion, schema: Schema) -> list[tuple[Strings, Schema]] | None:
    """Return what ``patternProperties`` says, as languages; None where one is let pass."""
    found = []
    for pattern, below in schema.named("patternProperties").items():
        try:
            found.append((Strings.pattern(pattern), below))
        except RegexUnsupportedError as error:
            expansion.unsupported(schema, "patternProperties", error.message)
            return None
    return found


def block_of(expansion: Expansion, schema: Schema) -> Block | None:
    """Return what a schema says of properties; None where a pattern is let pass."""
    goals = expansion.goals
    patterns = patterns_of(expansion, schema)
    if patterns is None:
        return None
    keywords = schema.keywords
    rest = (
        goals.of(schema.child("additionalProperties"))
        if "additionalProperties" in keywords
        else TRUE
    )
    return Block(
        tuple((name, goals.of(below)) for name, below in schema.named("properties").items()),
        tuple((strings, goals.of(below)) for strings, below in patterns),
        rest,
    )


def accept_block(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects whose properties belong to the schemas of their names.

    ``properties``, ``patternProperties`` and ``additionalProperties`` of one schema are one block;
    the first of them stands for all.
    """
    block = block_of(expansion, schema)
    return ANYTHING if block is None else objects(ObjectShape((block,)))


def _nothing_more(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    return ANYTHING


def refuse_properties(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects with a named property that does not belong to its schema."""
    shapes = []
    for name, below in schema.named("properties").items():
        goal = expansion.goals.of(below, positive=False)
        if goal != FALSE:
            shapes.append(ObjectShape((Block(((name, goal),)),), frozenset({name})))
    return only(*shapes)


def refuse_patterns(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects with a property that does not belong to a schema of its patterns."""
    patterns = patterns_of(expansion, schema)
    if patterns is None:
        return ANYTHING
    path = f"{schema.path}/patternProperties"
    found = ((names, expansion.goals.of(below, positive=False)) for names, below in patterns)
    return only(*(some_property(names, goal, path) for names, goal in found if goal != FALSE))


def refuse_additional(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects with another property that does not belong to a schema."""
    goal = expansion.goals.of(schema.child("additionalProperties"), positive=False)
    if goal == FALSE:
        return NOTHING
    patterns = patterns_of(expansion, schema)
    if patterns is None:
        return ANYTHING
    others = ~Strings.words(schema.named("properties"))
    for names, _ in patterns:
        others = others - names
    return only(some_property(others, goal, f"{schema.path}/additionalProperties"))


def some_property(names: Strings, goal: Goal, path: str) -> ObjectShape:
    """Return the objects with a property of a language and a goal."""
    return ObjectShape(exists=(Exists(names, goal, path),))


def accept_names(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects all of whose names belong to a schema."""
    names = _names(expansion, schema, True)
    if names.is_everything:
        return ANYTHING
    return objects(ObjectShape((Block((), ((~names, FALSE),)),)))


def refuse_names(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects with a name that does not."""
    names = _names(expansion, schema, False)
    if names.is_empty:
        return NOTHING
    return only(some_property(names, TRUE, f"{schema.path}/propertyNames"))


def _names(expansion: Expansion, schema: Schema, positive: bool) -> Strings:
    """Return the names that ``propertyNames`` accepts, or refuses: values of another place."""
    goal = expansion.goals.of(schema.child("propertyNames"), positive=positive)
    try:
        with expansion.from_outside():
            found = expansion.expand(goal)
    except UnderWayError:
        expansion.unsupported(schema, "propertyNames", "its schema refers to itself")
        return Strings.ANY
    if found.members:
        expansion.unsupported(schema, "propertyNames", "names cannot be members of a set")
        return Strings.ANY
    if found.limited:
        expansion.unsupported(schema, "propertyNames", "tokens are counted of values, not of names")
        return Strings.ANY
    return found.strings


def accept_required(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects that have some properties."""
    return objects(ObjectShape(required=frozenset(value)))


def refuse_required(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects that lack one of them."""
    return only(*map(without, dict.fromkeys(value)))


def accept_needed(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects that have what their other properties need."""
    return expansion.meet(
        objects(without(name), ObjectShape(required=frozenset(names)))
        for name, names in _needs(schema, value)
    )


def refuse_needed(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the objects that have a property and lack one that it needs."""
    return only(
        *(
            ObjectShape((Block(((lacking, FALSE),)),), frozenset({name}))
            for name, names in _needs(schema, value)
            for lacking in names
            if lacking != name
        )
    )


def _needs(schema: Schema, value: Any) -> Iterable[tuple[str, list[str]]]:
    return ((name, names) for name, names in value.items() if isinstance(names, list))


def accept_dependent(keyword: str) -> Handler:
    """Return the handler of a keyword whose schemas hold where a property is there."""

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        sets = []
        for name, below in schema.named(keyword).items():
            held = expansion.expand(expansion.goals.of(below))
            # That the name is there need not be said: alternatives may overlap, and so stay few.
            sets.append(union((objects(without(name)), held)))
        sets.append(accept_needed(expansion, schema, value))
        return expansion.meet(sets)

    return accept


def refuse_dependent(keyword: str) -> Handler:
    """Return the handler of what such a keyword refuses."""

    def refuse(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        sets = [refuse_needed(expansion, schema, value)]
        for name, below in schema.named(keyword).items():
            there = only(ObjectShape(required=frozenset({name})))
            refused = expansion.expand(expansion.goals.of(below, positive=False))
            sets.append(expansion.meet((there, refused)))
        return union(sets)

    return refuse


def _first_of_block(own: str, refuse: Handler) -> tuple[Handler, Handler]:
    order = ("properties", "patternProperties", "additionalProperties")

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        first = next(keyword for keyword in order if keyword in schema.keywords)
        chosen = accept_block if first == own else _nothing_more
        return chosen(expansion, schema, value)

    return accept, refuse


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    "required": (accept_required, refuse_required),
    **counted("objects", ObjectShape, "minProperties", "maxProperties"),
    "properties": _first_of_block("properties", refuse_properties),
    "patternProperties": _first_of_block("patternProperties", refuse_patterns),
    "additionalProperties": _first_of_block("additionalProperties", refuse_additional),
    "propertyNames": (accept_names, refuse_names),
    "dependentRequired": (accept_needed, refuse_needed),
    "dependentSchemas": (
        accept_dependent("dependentSchemas"),
        refuse_dependent("dependentSchemas"),
    ),
    "dependencies": (accept_dependent("dependencies"), refuse_dependent("dependencies")),
}
