"""Constants: the values of const and enum, also within arrays and objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cdec.compilers.regular.numbers import Numbers
from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.compilers.schemas.sets.goals import FALSE, Constant, Goals, canonical
from cdec.compilers.schemas.sets.shapes import (
    ANYTHING,
    SCALARS,
    WORDS,
    ArrayShape,
    Block,
    ObjectShape,
    ValueSet,
    union,
)

_WORD = {None: "null", True: "true", False: "false"}


def one_of(expansion: Expansion, values: Sequence[Any], path: str) -> ValueSet:
    """Return some values."""
    goals = expansion.goals
    words, numbers, strings = _scalars(values)
    lists = [value for value in values if isinstance(value, list)]
    objects = [value for value in values if isinstance(value, dict)]
    return ValueSet(
        words,
        numbers & expansion.numbers,
        strings,
        tuple(dict.fromkeys(_array(goals, value, path) for value in lists)),
        tuple(dict.fromkeys(_object(goals, value, path) for value in objects)),
    )


def all_but(expansion: Expansion, values: Sequence[Any], path: str) -> ValueSet:
    """Return all values but some."""
    goals = expansion.goals
    words, numbers, strings = _scalars(values)
    others = ValueSet(WORDS - words, expansion.numbers - numbers, ~strings)
    scalars = replace(ANYTHING, words=others.words, numbers=others.numbers, strings=others.strings)
    sets = [scalars]
    for value in values:
        if isinstance(value, list):
            sets.append(union((SCALARS, _other_array(goals, value, path), _OBJECTS)))
        elif isinstance(value, dict):
            sets.append(union((SCALARS, _other_object(goals, value, path), _ARRAYS)))
    return expansion.meet(sets)


def constant(expansion: Expansion, atom: Constant, positive: bool) -> ValueSet:
    """Return the values of a goal that is one constant, or all but it."""
    if positive:
        return one_of(expansion, [atom.value], atom.path)
    return all_but(expansion, [atom.value], atom.path)


_ARRAYS = ValueSet(arrays=ANYTHING.arrays)
_OBJECTS = ValueSet(objects=ANYTHING.objects)


def _scalars(values: Sequence[Any]) -> tuple[frozenset[str], Numbers, Strings]:
    """Return the words, numbers and strings among some values."""
    is_word = [value is None or isinstance(value, bool) for value in values]
    words = frozenset(_WORD[v] for v, word in zip(values, is_word, strict=True) if word)
    found = {
        canonical(value): Decimal(value)
        for value, word in zip(values, is_word, strict=True)
        if not word and isinstance(value, int | Decimal)
    }
    texts = [value for value in values if isinstance(value, str)]
    strings = Strings.words(texts) if texts else Strings.NONE
    return words, Numbers.values(found.values()) if found else Numbers.NONE, strings


def _array(goals: Goals, value: list[Any], path: str) -> ArrayShape:
    prefix = tuple(goals.constant(item, path) for item in value)
    return ArrayShape(prefix, FALSE, len(value), len(value))


def _object(goals: Goals, value: dict[str, Any], path: str) -> ObjectShape:
    names = tuple((name, goals.constant(item, path)) for name, item in value.items())
    return ObjectShape((Block(names, (), FALSE),), frozenset(value), 0, len(value))


def _other_array(goals: Goals, value: list[Any], path: str) -> ValueSet:
    """Return the arrays of another length, or with another item."""
    n = len(value)
    shapes = [ArrayShape(low=n + 1)]
    if n:
        shapes.append(ArrayShape(high=n - 1))
    for index, item in enumerate(value):
        other = goals.constant(item, path, positive=False)
        shapes.append(ArrayShape(((),) * index + (other,), low=n, high=n))
    return ValueSet(arrays=tuple(shapes))


def _other_object(goals: Goals, value: dict[str, Any], path: str) -> ValueSet:
    """Return the objects with another number of properties, without one, or with another value."""
    n = len(value)
    shapes = [ObjectShape(low=n + 1)]
    for name, item in value.items():
        other = goals.constant(item, path, positive=False)
        shapes.append(ObjectShape((Block(((name, FALSE),)),)))
        shapes.append(ObjectShape((Block(((name, other),)),), frozenset({name})))
    return ValueSet(objects=tuple(shapes))
