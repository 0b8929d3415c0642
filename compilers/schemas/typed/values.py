"""JSON as values of types of the standard library, where pydantic is not installed."""

from __future__ import annotations

import datetime
import enum
import types
import typing
import uuid
from typing import Any

from cdec.compilers.schemas.typed.standard import LISTS, MAPS, SETS, bare, fields_of
from cdec.core.errors import DataError

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
