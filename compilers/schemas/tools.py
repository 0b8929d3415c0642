"""Definitions of tools, as chat models are given them, as one JSON Schema of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from cdec.compilers.schemas.options import SchemaLimits
from cdec.compilers.schemas.source import read_json
from cdec.core.schemas.errors import SchemaInvalidError

_NOTHING = {"type": "object", "maxProperties": 0}
"""Arguments of a function that says nothing of its own."""


def schema_of_tools(source: str | bytes, limits: SchemaLimits | None = None) -> str:
    """Return the JSON Schema of the calls of some functions.

    Args:
        source: A JSON list of functions in OpenAI's form, ``{"type": "function", "function":
            {"name": ..., "parameters": SCHEMA}}``, or without the outer object.
        limits: On the text.

    Returns:
        The text of a schema whose values are ``{"name": NAME, "arguments": ...}``, where the
        arguments of each function satisfy its parameters. References within these lead to where
        they did.

    Raises:
        SchemaJsonError, EncodingError, LimitError: As for the text of a schema.
        SchemaInvalidError: It is no such list; ``path`` is the place within it.
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
        calls[name] = _call(name, parameters, number)
    return _written({"anyOf": list(calls.values())})


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


def _call(name: str, parameters: Any, number: int) -> dict[str, Any]:
    """Return the schema of the calls of one function."""
    arguments = _NOTHING if parameters is None else parameters
    if isinstance(arguments, dict) and not {"$id", "id"} & arguments.keys():
        # A document within the document: what begins with # leads to where it did.
        arguments = {"$id": f"tool-{number}"} | arguments
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
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
