"""JSON Schema of a Python type, and a text as a value of that type.

Pydantic models and dataclasses, standard dataclasses, TypedDict, Enum, Literal, unions, containers
and annotations. An object that is made from a class has the class's fields and no others, unless
the class says otherwise (``extra="allow"`` of pydantic): what a model writes beyond them would be
dropped when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from cdec.compilers.schemas.typed.standard import standard_schema, standard_value
from cdec.core.errors import UsageError


def is_type(source: object) -> bool:
    """Say whether a source is a Python type rather than a schema: text, bytes, mapping or bool."""
    return not isinstance(source, str | bytes | bool | Mapping)


def schema_text(source: Any) -> str | bytes:
    """Return the text of a schema: given as text, as a dict or a bool, or as a Python type.

    Raises:
        UsageError: The type has no JSON Schema.
    """
    if isinstance(source, str | bytes):
        return source
    return json.dumps(schema_of(source) if is_type(source) else source, ensure_ascii=False)


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a Python type.

    Raises:
        UsageError: The type has none.
    """
    adapter = _adapter(kind)
    if adapter is None:
        closed: dict[str, Any] = _closed(standard_schema(kind))
        return closed
    from pydantic.errors import PydanticInvalidForJsonSchema

    from cdec.compilers.schemas.typed.refined import RefinedSchemas

    try:
        closed = _closed(adapter.json_schema(schema_generator=RefinedSchemas))
    except PydanticInvalidForJsonSchema as error:
        raise UsageError(f"{type_name(kind)} has no JSON Schema: {error.message}") from error
    return closed


def value_parser(kind: Any) -> Callable[[str], Any]:
    """Return what reads a JSON text as a value of a Python type, and validates it.

    Raises:
        UsageError: The type has no JSON Schema.
    """
    adapter = _adapter(kind)
    if adapter is not None:
        return lambda text: adapter.validate_json(text)
    return lambda text: standard_value(kind, json.loads(text))


def type_name(kind: Any) -> str:
    """Return what a type is called."""
    return getattr(kind, "__name__", None) or str(kind)


def _adapter(kind: Any) -> Any:
    """Return pydantic's adapter of a type; None where pydantic is not there or does not know it.

    Before Python 3.12 it does not know ``typing.TypedDict``.
    """
    try:
        from pydantic import PydanticUserError, TypeAdapter
    except ImportError:
        return None
    try:
        return TypeAdapter(kind)
    except PydanticUserError:
        return None


def _closed(schema: Any) -> Any:
    """Return a schema whose objects with named properties have no others unless it says so."""
    if isinstance(schema, list):
        return [_closed(below) for below in schema]
    if not isinstance(schema, dict):
        return schema
    # subtle: below these are values and names, not schemas.
    made = {
        keyword: given
        if keyword in ("const", "enum", "default", "examples", "required")
        else {name: _closed(below) for name, below in given.items()}
        if keyword in ("properties", "$defs", "patternProperties")
        else _closed(given)
        for keyword, given in schema.items()
    }
    if "properties" in made and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made
