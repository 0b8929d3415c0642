"""Types of the standard library: their schemas, and their values out of JSON."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from collections import abc
from typing import Any

from cdec.compilers.schemas.typed.texts import TEXTS
from cdec.core.errors import DataError, UsageError
from cdec.core.schemas.own_keywords import NUMBERS, UNENFORCED

SIMPLE: dict[Any, dict[str, Any]] = {
    type(None): {"type": "null"},
    None: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer", NUMBERS: "integers"},
    float: {"type": "number", NUMBERS: "doubles"},
    str: {"type": "string"},
    Any: {},
    object: {},
    datetime.datetime: TEXTS["date-time"],
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: TEXTS["time"],
    uuid.UUID: {"type": "string", "format": "uuid"},
}
LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
SETS = (set, frozenset, abc.Set, abc.MutableSet)
MAPS = (dict, abc.Mapping, abc.MutableMapping)
_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
"""Attributes of annotations, as ``annotated_types`` names them, and what they are of numbers."""
_READ: dict[Any, Any] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
}
_PLAIN: dict[Any, tuple[type, ...]] = {
    type(None): (type(None),),
    None: (type(None),),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
}


def standard_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type.

    Raises:
        UsageError: There is none for it, or for one within it.
    """
    made = _Schemas()
    schema = made.of(kind)
    if made.definitions:
        schema = {**schema, "$defs": made.definitions}
    return schema


def distinct(made: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a set: equal items are one where it is read, and no reason to refuse.

    Plain strings and listed values are asked to differ all the same; masks see to it.
    """
    items = made.get("items", {})
    is_plain = items.get("type") == "string" and items.keys() <= {"type", "title", "minLength"}
    if is_plain or items.get("type") == "boolean" or {"enum", "const"} & items.keys():
        return made
    return {keyword: value for keyword, value in made.items() if keyword != "uniqueItems"}


def fields_of(kind: Any) -> list[tuple[str, Any, bool]] | None:
    """Return the fields of a dataclass, TypedDict or NamedTuple: name, type, whether required."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        unset = dataclasses.MISSING
        return [
            (field.name, hints[field.name], field.default is unset is field.default_factory)
            for field in dataclasses.fields(kind)
            if field.init
        ]
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return [(name, hint, _is_required(kind, name, hint)) for name, hint in hints.items()]
    return None


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    # subtle: annotations that were postponed hide from the class itself what they say.
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in kind.__required_keys__


def bare(kind: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return a type without ``Annotated`` and the like: origin, arguments, annotations."""
    notes: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            notes += kind.__metadata__
            kind = kind.__origin__
        elif origin in (typing.Required, typing.NotRequired, typing.Final):
            (kind,) = typing.get_args(kind)
        else:
            return origin or kind, typing.get_args(kind), notes


class _Schemas:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type; classes stand in ``definitions``."""
        origin, arguments, notes = bare(kind)
        schema = self._unannotated(origin, arguments)
        for note in notes:
            schema = schema | _keywords(note, schema)
        return schema

    def _unannotated(self, origin: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(argument) for argument in arguments]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if isinstance(origin, type) and issubclass(origin, enum.Enum):
            return self._defined(origin, lambda: {"enum": [member.value for member in origin]})
        if fields_of(origin) is not None:
            return self._defined(origin, lambda: self._object(origin))
        if origin is tuple:
            return self._tuple(arguments)
        if origin in LISTS or origin in SETS:
            items = {"items": self.of(arguments[0])} if arguments else {}
            made = {"type": "array", **items}
            return distinct(made | {"uniqueItems": True}) if origin in SETS else made
        if origin in MAPS:
            if arguments and bare(arguments[0])[0] is not str:
                raise UsageError(f"names of JSON objects are strings, not {arguments[0]}")
            below = {"additionalProperties": self.of(arguments[1])} if arguments else {}
            return {"type": "object", **below}
        if origin in SIMPLE:
            return SIMPLE[origin]
        raise UsageError(
            f"no JSON Schema is known for {origin}",
            hint="give a type that pydantic knows, with pydantic installed, or a schema",
        )

    def _tuple(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if not arguments:
            return {"type": "array"}
        if arguments[1:] == (...,):
            return {"type": "array", "items": self.of(arguments[0])}
        count = len(arguments)
        listed = [self.of(argument) for argument in arguments]
        return {"type": "array", "prefixItems": listed, "minItems": count, "maxItems": count}

    def _defined(self, kind: Any, make: Any) -> dict[str, Any]:
        """Return a reference to a class's schema, which is made once: classes may be recursive."""
        if kind not in self._names:
            name, number = kind.__name__, 1
            while name in self.definitions:
                number += 1
                name = f"{kind.__name__}{number}"
            self._names[kind] = name
            self.definitions[name] = {}
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _object(self, kind: Any) -> dict[str, Any]:
        fields = fields_of(kind) or []
        own = getattr(kind, "__post_init__", None)
        return ({} if own is None else {UNENFORCED: [own.__qualname__]}) | {
            "type": "object",
            "properties": {name: self.of(hint) for name, hint, _ in fields},
            "required": [name for name, _, is_required in fields if is_required],
        }


def _keywords(note: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that an annotation stands for."""
    found = {
        keyword: getattr(note, name)
        for name, keyword in _KEYWORDS.items()
        if getattr(note, name, None) is not None
    }
    what = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    for bound in ("min", "max"):
        length = getattr(note, f"{bound}_length", None)
        if length is not None:
            found[bound + what] = length
    return found


def standard_value(kind: Any, value: Any) -> Any:
    """Return JSON that was read as a value of a type.

    Raises:
        DataError: It is none: of a union, none of any of its types.
    """
    origin, arguments, _ = bare(kind)
    if origin in (Any, object):
        return value
    if origin in (typing.Union, types.UnionType):
        return _first(arguments, value)
    if origin is typing.Literal:
        return _one_of(kind, value, {_key(member): member for member in arguments})
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _one_of(kind, value, {_key(member.value): member for member in origin})
    fields = fields_of(origin)
    if fields is not None:
        return _object(origin, fields, _checked(kind, value, dict))
    if origin is tuple:
        return _tuple(kind, arguments, _checked(kind, value, list))
    if origin in LISTS or origin in SETS:
        below = arguments[0] if arguments else Any
        made = [standard_value(below, item) for item in _checked(kind, value, list)]
        return origin(made) if origin in (set, frozenset) else made
    if origin in MAPS:
        below = arguments[1] if arguments else Any
        given = _checked(kind, value, dict)
        return {name: standard_value(below, item) for name, item in given.items()}
    if origin in _READ:
        try:
            return _READ[origin](_checked(kind, value, str))
        except ValueError as error:
            raise DataError(f"{value!r} is no {kind}: {error}") from error
    return _plain(kind, origin, value)


def _plain(kind: Any, origin: Any, value: Any) -> Any:
    if origin is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) and origin is not bool:
        raise DataError(f"{value!r} is no {kind}")
    _checked(kind, value, *_PLAIN.get(origin, ()))
    return float(value) if origin is float else value


def _first(arguments: tuple[Any, ...], value: Any) -> Any:
    for argument in arguments:
        try:
            return standard_value(argument, value)
        except DataError:
            continue
    raise DataError(f"{value!r} is none of {', '.join(map(str, arguments))}")


def _object(kind: Any, fields: list[tuple[str, Any, bool]], given: dict[str, Any]) -> Any:
    missing = [name for name, _, is_required in fields if is_required and name not in given]
    further = given.keys() - {name for name, _, _ in fields}
    if missing or further:
        raise DataError(f"{kind.__name__}: missing {missing}, unknown {sorted(further)}")
    return kind(**{n: standard_value(hint, given[n]) for n, hint, _ in fields if n in given})


def _tuple(kind: Any, arguments: tuple[Any, ...], given: list[Any]) -> tuple[Any, ...]:
    if not arguments:
        return tuple(given)
    if arguments[1:] == (...,):
        return tuple(standard_value(arguments[0], item) for item in given)
    if len(given) != len(arguments):
        raise DataError(f"{len(given)} items, expected {len(arguments)} for {kind}")
    return tuple(map(standard_value, arguments, given))


def _one_of(kind: Any, value: Any, members: dict[tuple[str, Any], Any]) -> Any:
    if isinstance(value, dict | list) or _key(value) not in members:
        raise DataError(f"{value!r} is none of {kind}")
    return members[_key(value)]


def _key(value: Any) -> tuple[str, Any]:
    """Tell True from 1; numbers of equal value are equal."""
    return ("bool" if isinstance(value, bool) else "", value)


def _checked(kind: Any, value: Any, *expected: type) -> Any:
    if not isinstance(value, expected):
        raise DataError(f"{value!r} is no {kind}")
    return value
