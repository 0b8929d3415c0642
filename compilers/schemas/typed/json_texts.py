"""JSON within strings: the texts of a schema's values as a regular expression.

Values nest as deep as their schema says, those of any schema to ``_DEPTH``; between tokens stands
no white space but one blank behind a comma or a colon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from cdec.compilers.regular.formats import DATE, IPV4, IPV6
from cdec.compilers.schemas.typed.numbers import at_least, at_most, exact, one_of, whole
from cdec.core.schemas.own_keywords import NOTE, NUMBERS, UNENFORCED

_DEPTH = 2
_COMMENTS = frozenset(
    ["title", "description", "default", "examples", "deprecated", NOTE, UNENFORCED]
)
_UNIT = "[0-9A-Ca-cEFef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}"
_CHARACTER = rf"(?:[^\"\\\x00-\x1f]|\\[\"\\/bfnrt]|\\u(?:{_UNIT}))"
_STRING = f'"{_CHARACTER}*"'
_INTEGER = "-?(?:0|[1-9][0-9]{0,17})"
_FIXED = rf"{_INTEGER}(?:\.[0-9]{{1,18}})?"
_NUMBER = rf"{_FIXED}(?:[eE][+-]?[0-9]{{1,2}})?"
_SIDES = {
    "minimum": at_least,
    "exclusiveMinimum": at_least,
    "maximum": at_most,
    "exclusiveMaximum": at_most,
}
_QUOTED = re.compile(r"\\[.$+?*()\[\]{}|-]|\[[^\]]*\]")
"""Escapes of signs in an expression, and its classes."""
_HEX = "[0-9A-Fa-f]"
_FORMATS = {
    "date": DATE,
    "uuid": f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    "ipv4": IPV4,
    "ipv6": IPV6,
}
_WILD = re.compile(r"\.|\\")
_COMMA, _COLON = ", ?", ": ?"

Resolve = Callable[[dict[str, Any]], dict[str, Any]]


class _NotRegularError(Exception):
    """Keyword that no expression is written for; its text is the keyword."""


def json_text(content: dict[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return the keywords of strings that are JSON of a schema.

    Args:
        content: The schema of what the text says.
        resolve: Returns what a schema that is a reference refers to.

    Returns:
        ``pattern``; where no expression can say all of it that of all JSON, and what is missing is
        noted as not enforced.
    """
    parts = [content]

    def resolved(reference: dict[str, Any]) -> dict[str, Any]:
        parts.append(resolve(reference))
        return parts[-1]

    try:
        made = {"pattern": whole(_texts(content, resolved, 0))}
        reasons = [reason for part in parts for reason in _unenforced(part)]
    except _NotRegularError as error:
        made, reasons = {"pattern": whole(_any(_DEPTH))}, [f"{error} of what the text says"]
    return made | ({UNENFORCED: list(dict.fromkeys(reasons))} if reasons else {})


def _unenforced(schema: Any) -> Iterator[str]:
    """Yield what is not enforced of a schema and of those within it."""
    if isinstance(schema, dict):
        yield from schema.get(UNENFORCED, [])
        schema = list(schema.values())
    if isinstance(schema, list):
        for below in schema:
            yield from _unenforced(below)


def _any(depth: int) -> str:
    scalar = f"{_STRING}|{_NUMBER}|true|false|null"
    if not depth:
        return f"(?:{scalar})"
    below = _any(depth - 1)
    member = f"{_STRING}{_COLON}{below}"
    return f"(?:{scalar}|{_between('[', below, ']')}|{_between('{', member, '}')})"


def _between(left: str, item: str, right: str, low: int = 0, high: int | None = None) -> str:
    """Return lists of items in brackets."""
    left, right = re.escape(left), re.escape(right)
    if high == 0:
        return left + right
    more = f"(?:{_COMMA}{item}){{{max(low - 1, 0)},{'' if high is None else high - 1}}}"
    return f"{left}(?:{item}{more}){'' if low else '?'}{right}"


def _texts(schema: Any, resolve: Resolve, depth: int) -> str:
    """Return the JSON texts of a schema's values."""
    if depth > 20:
        raise _NotRegularError("a schema that refers to itself")
    if "$ref" in schema:
        schema = resolve({"$ref": schema["$ref"]})
    asked = {name: value for name, value in schema.items() if name not in _COMMENTS}
    if not asked:
        return _any(_DEPTH)
    if "anyOf" in asked or "oneOf" in asked:
        kinds = asked.pop("anyOf", None) or asked.pop("oneOf")
        asked.pop("discriminator", None)
        _refuse(asked)
        return _one(kinds, resolve, depth)
    if "const" in asked or "enum" in asked:
        values = asked["enum"] if "enum" in asked else [asked["const"]]
        return f"(?:{'|'.join(re.escape(json.dumps(value)) for value in values)})"
    kind = asked.pop("type", None)
    if kind == "array":
        return _array(asked, resolve, depth)
    if kind == "object":
        return _object(asked, resolve, depth)
    if kind not in _SCALARS:
        raise _NotRegularError(f"type {kind}")
    return _SCALARS[kind](asked)


def _one(kinds: list[Any], resolve: Resolve, depth: int) -> str:
    """Return the texts of those of some schemas that expressions are written for."""
    found, refused = [], None
    for kind in kinds:
        try:
            found.append(_texts(kind, resolve, depth + 1))
        except _NotRegularError as error:
            refused = error
    if not found and refused is not None:
        raise refused
    return one_of(found)


def _refuse(asked: dict[str, Any]) -> None:
    if asked:
        raise _NotRegularError(", ".join(asked))


def _number(asked: dict[str, Any]) -> str:
    spelled = asked.pop(NUMBERS, "doubles")
    form = _INTEGER if spelled == "integers" else _NUMBER
    if not asked:
        return form
    if not asked.keys() <= _SIDES.keys():
        raise _NotRegularError(", ".join(asked))
    limits = [
        f"(?={_SIDES[name](exact(bound), excluded=name.startswith('ex'))}(?![0-9.]))"
        for name, bound in asked.items()
    ]
    return "".join(limits) + (form if spelled == "integers" else _FIXED)


def _string(asked: dict[str, Any]) -> str:
    patterns = [each.get("pattern", "") for each in asked.pop("allOf", [])]
    if "pattern" in asked:
        patterns.insert(0, asked.pop("pattern"))
    if asked.get("format") in _FORMATS:
        patterns.insert(0, whole(_FORMATS[asked.pop("format")]))
    if patterns:
        _refuse(asked)
        bodies = [_body(pattern) for pattern in patterns]
        return '"' + "".join(f'(?={other}")' for other in bodies[1:]) + f'{bodies[0]}"'
    low, high = asked.pop("minLength", 0), asked.pop("maxLength", "")
    _refuse(asked)
    return f'"{_CHARACTER}{{{low},{high}}}"'


def _body(pattern: str) -> str:
    """Return a pattern of whole strings in which nothing is escaped by JSON, without its anchors.

    Raises:
        _NotRegularError: It is another.
    """
    inner = pattern[1:-1]
    depths = accumulate((sign == "(") - (sign == ")") for sign in _QUOTED.sub("", inner))
    ends = [i for i, depth in enumerate(depths) if depth == 0]
    is_whole = pattern == f"^{inner}$" and inner[:3] == "(?:" and len(ends) == 1
    if not is_whole or _WILD.search(_QUOTED.sub("", inner)) or '"' in inner or "[^" in inner:
        raise _NotRegularError("pattern")
    return inner


def _constant(*words: str) -> Callable[[dict[str, Any]], str]:
    def texts(asked: dict[str, Any]) -> str:
        _refuse(asked)
        return f"(?:{'|'.join(words)})"

    return texts


_SCALARS: dict[Any, Callable[[dict[str, Any]], str]] = {
    "null": _constant("null"),
    "boolean": _constant("true", "false"),
    "integer": _number,
    "number": _number,
    "string": _string,
}


def _array(asked: dict[str, Any], resolve: Resolve, depth: int) -> str:
    low, high = asked.pop("minItems", 0), asked.pop("maxItems", None)
    asked.pop("uniqueItems", None)
    prefix, items = asked.pop("prefixItems", None), asked.pop("items", {})
    _refuse(asked)
    if prefix is None:
        return _between("[", _texts(items, resolve, depth + 1), "]", low, high)
    if high != len(prefix) or low != high:
        raise _NotRegularError("prefixItems with other items behind them")
    return rf"\[{_COMMA.join(_texts(item, resolve, depth + 1) for item in prefix)}\]"


def _object(asked: dict[str, Any], resolve: Resolve, depth: int) -> str:
    """Return objects: those of named members in their order, or those of any names."""
    named, required = asked.pop("properties", None), asked.pop("required", ())
    others = asked.pop("additionalProperties", True)
    if named is None:
        low, high = asked.pop("minProperties", 0), asked.pop("maxProperties", None)
        names = asked.pop("propertyNames", {"type": "string"})
        _refuse(asked)
        if names is False:
            high = 0
        if low > 1:
            raise _NotRegularError("minProperties")
        name = _texts(names or {"type": "string"}, resolve, depth + 1)
        below = _texts({} if others is True else others, resolve, depth + 1)
        return _between("{", f"{name}{_COLON}{below}", "}", low, high)
    _refuse(asked)
    if others not in (True, False):
        raise _NotRegularError("additionalProperties beside properties")
    members = [
        (f"{re.escape(json.dumps(name))}{_COLON}{_texts(below, resolve, depth + 1)}", name)
        for name, below in named.items()
    ]
    return rf"\{{{_in_order(members, required)}\}}"


def _in_order(members: Sequence[tuple[str, str]], required: Sequence[str]) -> str:
    """Return members in their order, those that are not required there or not.

    The first that is there has no comma before it; behind a required one all have.
    """
    if not members:
        return ""
    (first, name), rest = members[0], members[1:]
    behind = "".join(
        f"{_COMMA}{member}" if other in required else f"(?:{_COMMA}{member})?"
        for member, other in rest
    )
    if name in required:
        return first + behind
    return f"(?:{first}{behind}|{_in_order(rest, required)})"
