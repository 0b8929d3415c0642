"""Definitions of tools, as chat models are given them, as one JSON Schema of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cdec.compilers.schemas.options import SchemaLimits
from cdec.compilers.schemas.source import read_json
from cdec.core.schemas.errors import SchemaInvalidError

_NOTHING = {"type": "object", "maxProperties": 0}
"""Arguments of a function that says nothing of its own."""


@dataclass(frozen=True)
class CallForm:
    """Form of calls as JSON.

    Attributes:
        key: Of a call's arguments.
        is_list: Whether a text is a list of calls, else a single one.
        most: Calls of a list; None for any number.
        only: Name of the function that alone may be called; None for all of them.
    """

    key: str = "arguments"
    is_list: bool = False
    most: int | None = None
    only: str | None = None


def schema_of_tools(
    source: str | bytes, limits: SchemaLimits | None = None, form: CallForm = CallForm()
) -> str:
    """Return the JSON Schema of the calls of some functions.

    Args:
        source: A JSON list of functions in OpenAI's form, ``{"type": "function", "function":
            {"name": ..., "parameters": SCHEMA}}``, or without the outer object.
        limits: On the text.
        form: Of calls.

    Returns:
        The text of a schema whose values are ``{"name": NAME, "arguments": ...}``, where the
        arguments of each function satisfy its parameters; or lists of such. References within
        parameters lead to where they did.

    Raises:
        SchemaJsonError, EncodingError, LimitError: As for the text of a schema.
        SchemaInvalidError: It is no such list; ``path`` is the place within it. Or it has no
            function of the name that alone may be called.
    """
    value, _ = read_json(source, limits or SchemaLimits())
    if not isinstance(value, list) or not value:
        raise _invalid("", "is no list of tools", "write [{...}, ...], one object for each tool")
    calls: dict[str, dict[str, Any]] = {}
    for number, tool in enumerate(value):
        name, parameters = _function(tool, f"/{number}")
        if name in calls:
            raise _invalid(
                f"/{number}", f"is a second tool called {name!r}", "give each its own name"
            )
        calls[name] = _call(name, parameters, number, form.key)
    if form.only is not None:
        if form.only not in calls:
            known = ", ".join(map(repr, calls))
            raise _invalid("", f"has no function {form.only!r}", f"there are {known}")
        calls = {form.only: calls[form.only]}
    one = {"anyOf": list(calls.values())}
    if not form.is_list:
        return _written(one)
    most = {} if form.most is None else {"maxItems": form.most}
    return _written({"type": "array", "items": one, "minItems": 1, **most})


def _function(tool: Any, path: str) -> tuple[str, Any]:
    """Return the name and the parameters of a tool."""
    hint = 'write {"type": "function", "function": {"name": NAME, "parameters": SCHEMA}}'
    if isinstance(tool, Mapping) and tool.get("type", "function") != "function":
        raise _invalid(f"{path}/type", f"is {tool['type']!r}, expected 'function'", hint)
    if isinstance(tool, Mapping) and "function" in tool:
        tool, path = tool["function"], f"{path}/function"
    if not isinstance(tool, Mapping):
        raise _invalid(path, "is no object", hint)
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise _invalid(f"{path}/name", "is missing, or no text", hint)
    parameters = tool.get("parameters")
    if not isinstance(parameters, Mapping | bool | None):
        raise _invalid(f"{path}/parameters", "is no JSON Schema", hint)
    return name, parameters


def _call(name: str, parameters: Any, number: int, key: str) -> dict[str, Any]:
    """Return the schema of the calls of one function."""
    arguments = _NOTHING if parameters is None else parameters
    if isinstance(arguments, dict) and not {"$id", "id"} & arguments.keys():
        # A document within the document: what begins with # leads to where it did.
        arguments = {"$id": f"tool-{number}"} | arguments
    return {
        "type": "object",
        "properties": {"name": {"const": name}, key: arguments},
        "required": ["name", key],
        "additionalProperties": False,
    }


def _written(value: Any) -> str:
    """Return JSON text, numbers with all the digits that they were read with."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)}: {_written(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _invalid(path: str, what: str, hint: str) -> SchemaInvalidError:
    return SchemaInvalidError(f"tools: {path or 'the text'} {what}", hint=hint, path=path)
