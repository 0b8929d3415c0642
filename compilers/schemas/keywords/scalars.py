"""Keywords of types, constants, numbers and strings: what they accept, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cdec.compilers.regular.numbers import Numbers
from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.document import Schema
from cdec.compilers.schemas.sets.expansion import Expansion, Handler
from cdec.compilers.schemas.sets.members import not_of_set, of_set
from cdec.compilers.schemas.sets.regexes import REGEXES
from cdec.compilers.schemas.sets.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
    ANYTHING,
    FALSE,
    NOTHING,
    SCALARS,
    WORDS,
    ArrayShape,
    Block,
    Constant,
    Goals,
    ObjectShape,
    ValueSet,
    canonical,
    union,
)
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import RegexUnsupportedError
from cdec.core.schemas.own_keywords import MAX_TOKENS, NOTE, NUMBERS, SET, SPAN, UNENFORCED
from cdec.core.sets.quotes import SpanField

_WORD = {None: "null", True: "true", False: "false"}
_ARRAYS = ValueSet(arrays=ANYTHING.arrays)
_OBJECTS = ValueSet(objects=ANYTHING.objects)
_MOST_TOKENS = 1 << 30
"""More than any string has."""
TYPE_NOTICES = ("W_TYPE_UNENFORCED", "W_TYPE_NOTE")
"""Codes of what is told of a type: what masks do not enforce, and what else is to be known."""
_OF_TYPE = {
    "null": ValueSet(words=frozenset({"null"})),
    "boolean": ValueSet(words=frozenset({"true", "false"})),
    "string": ValueSet(strings=Strings.ANY),
    "array": ValueSet(arrays=(ANY_ARRAY,)),
    "object": ValueSet(objects=(ANY_OBJECT,)),
}


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


def accept_type(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of some types."""
    names = value if isinstance(value, list) else [value]
    sets = [held for name, held in _OF_TYPE.items() if name in names]
    return union([*sets, ValueSet(numbers=_typed_numbers(expansion, schema, names))])


def refuse_type(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the values of all other types."""
    names = value if isinstance(value, list) else [value]
    sets = [held for name, held in _OF_TYPE.items() if name not in names]
    others = expansion.numbers - _typed_numbers(expansion, schema, names)
    return union([*sets, ValueSet(numbers=others)])


def _typed_numbers(expansion: Expansion, schema: Schema, names: Sequence[str]) -> Numbers:
    """Return the numbers of some types."""
    if "number" in names:
        return expansion.numbers
    if "integer" not in names:
        return Numbers.NONE
    integers = Numbers.SPELLED_INTEGERS if schema.draft <= 4 else Numbers.INTEGERS
    return integers & expansion.numbers


def _listed(keyword: str, values: Callable[[Any], Sequence[Any]]) -> tuple[Handler, Handler]:
    """Return the handlers of a keyword that lists values."""

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return one_of(expansion, values(value), f"{schema.path}/{keyword}")

    def refuse(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return all_but(expansion, values(value), f"{schema.path}/{keyword}")

    return accept, refuse


def counted(
    kind: str, shape: Callable[..., Any], least: str, most: str
) -> dict[str, tuple[Handler, Handler]]:
    """Return the handlers of the keywords of a least and a most number of parts.

    Args:
        kind: Of values: ``arrays`` or ``objects``.
        shape: Their shape, of ``low`` and ``high``.
        least, most: The keywords.
    """

    def only(**bounds: int) -> ValueSet:
        parts: dict[str, Any] = {kind: (shape(**bounds),)}
        return ValueSet(**parts)

    def if_any(**bounds: int) -> ValueSet:
        parts: dict[str, Any] = {kind: (shape(**bounds),)}
        return replace(ANYTHING, **parts)

    def accept_least(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return if_any(low=demanded(expansion, schema, least, value))

    def refuse_least(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        low = demanded(expansion, schema, least, value)
        return only(high=low - 1) if low else NOTHING

    def accept_most(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return if_any(high=int(value))

    def refuse_most(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return only(low=demanded(expansion, schema, most, value + 1))

    return {least: (accept_least, refuse_least), most: (accept_most, refuse_most)}


def _of_numbers(find: Callable[[Expansion, Schema, Any], Numbers]) -> tuple[Handler, Handler]:
    """Return the handlers of a keyword that asks something of numbers alone."""

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        found = find(expansion, schema, value)
        return replace(ANYTHING, numbers=found & expansion.numbers)

    def refuse(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        return ValueSet(numbers=expansion.numbers - find(expansion, schema, value))

    return accept, refuse


def _of_strings(
    find: Callable[[Expansion, Schema, Any], Strings | None],
) -> tuple[Handler, Handler]:
    """Return the handlers of a keyword that asks something of strings; None: it was let pass."""

    def accept(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        found = find(expansion, schema, value)
        return ANYTHING if found is None else replace(ANYTHING, strings=found)

    def refuse(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
        found = find(expansion, schema, value)
        return ANYTHING if found is None else ValueSet(strings=~found)

    return accept, refuse


def _from(value: Any, excluded: bool) -> Numbers:
    return Numbers.between(Decimal(value), None, excluded, False)


def _up_to(value: Any, excluded: bool) -> Numbers:
    return Numbers.between(None, Decimal(value), False, excluded)


def _beyond(bounded: Callable[[Any, bool], Numbers]) -> tuple[Handler, Handler]:
    """Return the handlers of an excluded bound; draft-04 has true or false, which others read."""
    return _of_numbers(lambda _, __, v: Numbers.ANY if isinstance(v, bool) else bounded(v, True))


def _matching(expansion: Expansion, schema: Schema, value: Any) -> Strings | None:
    try:
        return Strings.pattern(value)
    except RegexUnsupportedError as error:
        expansion.unsupported(schema, "pattern", error.message)
        return None


def _formatted(expansion: Expansion, schema: Schema, value: Any) -> Strings | None:
    if expansion.options.formats == "annotate":
        return None
    try:
        found = Strings.format(value)
    except RegexUnsupportedError as error:
        expansion.unsupported(schema, "format", error.message)
        return None
    if found is None:
        expansion.note(
            f"{schema.path}/format",
            "format",
            "W_SCHEMA_ANNOTATION",
            f"{schema.path}/format is {value!r}, which no standard defines: it is a comment",
        )
    return found


_REGEX = replace(ANYTHING, strings=Strings.NONE, members=of_set(REGEXES))
_FORMATTED = _of_strings(_formatted)


def _accept_format(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    if value == "regex" and expansion.options.formats == "enforce":
        return _REGEX
    return _FORMATTED[0](expansion, schema, value)


def _refuse_format(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    if value == "regex" and expansion.options.formats == "enforce":
        said = "strings that are no regular expressions cannot be told by masks"
        return expansion.unsupported(schema, "format", said)
    return _FORMATTED[1](expansion, schema, value)


def _members(_: Expansion, __: Schema, value: Any) -> ValueSet:
    """Return the members of a set, and all values that are no strings."""
    return replace(ANYTHING, strings=Strings.NONE, members=of_set(value))


def _no_members(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Return the strings that are no members of a set: of those of another set they can be told."""
    expansion.negated.setdefault(value, f"{schema.path}/{SET}")
    return ValueSet(members=not_of_set(value))


def _pieces(_: Expansion, __: Schema, value: Any) -> ValueSet:
    """Return the pieces of a record's field, and all values that are no strings."""
    named = of_set(SpanField.from_json(value))
    return replace(ANYTHING, strings=Strings.NONE, members=named)


def _no_pieces(expansion: Expansion, schema: Schema, _: Any) -> ValueSet:
    return expansion.unsupported(schema, SPAN, "strings that are no pieces cannot be told")


def _limited(_: Expansion, __: Schema, value: Any) -> ValueSet:
    """Return all strings, of at most so many tokens, and all other values."""
    limited = ((min(int(value), _MOST_TOKENS), Strings.ANY),)
    return replace(ANYTHING, strings=Strings.NONE, limited=limited)


def _unlimited(expansion: Expansion, schema: Schema, _: Any) -> ValueSet:
    said = "strings that have more tokens cannot be told: a text has many spellings"
    return expansion.unsupported(schema, MAX_TOKENS, said)


def _let_pass(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Record what a type asks and masks do not see to."""
    reasons = ", ".join(value)
    expansion.unenforced.setdefault((f"{schema.path}/{UNENFORCED}", UNENFORCED), reasons)
    _tell(expansion, schema, UNENFORCED, f"masks do not enforce {reasons}")
    return ANYTHING


def _told(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    """Pass on what whoever compiles should know."""
    _tell(expansion, schema, NOTE, value)
    return ANYTHING


def _tell(expansion: Expansion, schema: Schema, keyword: str, said: str) -> None:
    place = schema.path or "the type"
    expansion.note(schema.path, keyword, TYPE_NOTICES[keyword == NOTE], f"{place}: {said}")


def _refuse_none(expansion: Expansion, schema: Schema, value: Any) -> ValueSet:
    return NOTHING


def demanded(expansion: Expansion, schema: Schema, keyword: str, value: Any) -> int:
    """Return a number of things that a text must have at least.

    Raises:
        LimitError: It is larger than ``max_repeat``.
    """
    most = expansion.options.limits.max_repeat
    if value > most:
        raise LimitError(
            f"{schema.path}/{keyword} demands {value:,}, the limit is {most:,}",
            hint="raise `max_repeat`",
            limit="max_repeat",
            path=f"{schema.path}/{keyword}",
        )
    return int(value)


HANDLERS: dict[str, tuple[Handler, Handler]] = {
    "type": (accept_type, refuse_type),
    "const": _listed("const", lambda value: [value]),
    "enum": _listed("enum", list),
    "minimum": _of_numbers(lambda _, s, v: _from(v, s.keywords.get("exclusiveMinimum") is True)),
    "maximum": _of_numbers(lambda _, s, v: _up_to(v, s.keywords.get("exclusiveMaximum") is True)),
    "exclusiveMinimum": _beyond(_from),
    "exclusiveMaximum": _beyond(_up_to),
    "multipleOf": _of_numbers(lambda _, __, v: Numbers.multiples(Decimal(v))),
    NUMBERS: _of_numbers(
        lambda _, __, v: Numbers.SPELLED_INTEGERS if v == "integers" else Numbers.FINITE
    ),
    "minLength": _of_strings(lambda e, s, v: Strings.lengths(demanded(e, s, "minLength", v), None)),
    "maxLength": _of_strings(lambda _, __, v: Strings.lengths(0, int(v))),
    "pattern": _of_strings(_matching),
    "format": (_accept_format, _refuse_format),
    SET: (_members, _no_members),
    SPAN: (_pieces, _no_pieces),
    MAX_TOKENS: (_limited, _unlimited),
    UNENFORCED: (_let_pass, _refuse_none),
    NOTE: (_told, _refuse_none),
}
