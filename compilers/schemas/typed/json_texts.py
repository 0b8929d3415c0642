"""JSON within strings: the texts of a schema's values as a regular expression.

Values nest as deep as their schema says, those of any schema to ``_DEPTH``; between tokens stands
no white space but one blank behind a comma or a colon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from cdec.compilers.schemas.typed.doubles import exact
from cdec.compilers.schemas.typed.ranges import at_least, at_most, whole
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
_COMMA, _COLON = ", ?", ": ?"

Resolve = Callable[[dict[str, Any]], dict[str, Any]]


class _NotRegularError(Exception):
    """What no expression is written for; its text is the keyword."""


def json_text(content: dict[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return the keywords of strings that are JSON of a schema.

    Args:
        content: The schema of what the text says.
        resolve: Returns what a schema that is a reference refers to.

    Returns:
        ``pattern``; where no expression can say all of it that of all JSON, and what is missing is
        noted as not enforced.
    """
    try:
        return {"pattern": whole(_texts(content, resolve, 0))}
    except _NotRegularError as error:
        return {"pattern": whole(_any(_DEPTH)), UNENFORCED: [f"{error} of what the text says"]}


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
        return f"(?:{'|'.join(_texts(kind, resolve, depth + 1) for kind in kinds)})"
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
    low, high = asked.pop("minLength", 0), asked.pop("maxLength", "")
    _refuse(asked)
    return f'"{_CHARACTER}{{{low},{high}}}"'


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
    _refuse(asked)
    if named is None:
        below = _texts({} if others is True else others, resolve, depth + 1)
        return _between("{", f"{_STRING}{_COLON}{below}", "}")
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
