"""Random schemas over few names and values, so that their keywords meet each other."""

from __future__ import annotations

import random
from typing import Any

_NAMES = ("a", "b", "ab", "c")
_SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, 5, -1, 1.5, 2.0, "", "a", "b", "ab", "abc")
_PATTERNS = ("^a", "b$", "^[ab]*$", "c", "^.?$")
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """Return a schema of draft 2020-12; some refer to ``#/$defs/x``, and within it to ``#``."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice((True, {}, {"type": rng.choice(_TYPES)}, {"enum": _some(rng, _SCALARS)}))
    schema: dict[str, Any] = {}
    for keyword in rng.sample(sorted(_KEYWORDS), rng.randint(1, 3)):
        schema[keyword] = _KEYWORDS[keyword](rng, depth - 1)
    if "if" in schema:
        schema[rng.choice(("then", "else"))] = random_schema(rng, depth - 1)
    return schema


def random_document(rng: random.Random) -> Any:
    """Return a schema with definitions that it may refer to."""
    schema = random_schema(rng)
    if isinstance(schema, dict):
        inner = random_schema(rng, 2)
        while "$ref" in repr(inner):
            inner = random_schema(rng, 2)
        schema["$defs"] = {"x": inner}
    return schema


def random_value(rng: random.Random, depth: int = 2) -> Any:
    """Return a JSON value of few names and scalars."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(_SCALARS)
    if kind < 0.65:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {name: random_value(rng, depth - 1) for name in _some(rng, _NAMES, 0)}


def _some(rng: random.Random, items: tuple[Any, ...], least: int = 1) -> list[Any]:
    return rng.sample(items, rng.randint(least, min(3, len(items))))


def _listed(rng: random.Random, depth: int) -> list[Any]:
    return [random_schema(rng, depth) for _ in range(rng.randint(1, 3))]


def _named(rng: random.Random, depth: int) -> dict[str, Any]:
    return {name: _below(rng, depth) for name in _some(rng, _NAMES)}


def _below(rng: random.Random, depth: int) -> Any:
    """Return a schema of another place, which may be the whole again."""
    return {"$ref": "#"} if rng.random() < 0.1 else random_schema(rng, depth)


def _count(rng: random.Random, depth: int) -> int:
    return rng.randint(0, 3)


_KEYWORDS: dict[str, Any] = {
    "type": lambda rng, depth: rng.choice((rng.choice(_TYPES), _some(rng, _TYPES))),
    "enum": lambda rng, depth: [*_some(rng, _SCALARS), random_value(rng)],
    "const": lambda rng, depth: random_value(rng),
    "minimum": _count,
    "exclusiveMaximum": _count,
    "multipleOf": lambda rng, depth: rng.choice((1, 2, 0.5)),
    "minLength": _count,
    "maxLength": _count,
    "pattern": lambda rng, depth: rng.choice(_PATTERNS),
    "items": _below,
    "prefixItems": _listed,
    "contains": random_schema,
    "uniqueItems": lambda rng, depth: True,
    "minItems": _count,
    "maxItems": _count,
    "properties": _named,
    "patternProperties": lambda rng, depth: {
        pattern: random_schema(rng, depth) for pattern in _some(rng, _PATTERNS)
    },
    "additionalProperties": random_schema,
    "propertyNames": lambda rng, depth: rng.choice(
        ({"pattern": "^a"}, {"maxLength": 1}, {"enum": ["a", "b"]}, {"not": {"const": "a"}})
    ),
    "required": lambda rng, depth: _some(rng, _NAMES),
    "minProperties": _count,
    "maxProperties": _count,
    "dependentRequired": lambda rng, depth: {"a": _some(rng, _NAMES)},
    "dependentSchemas": lambda rng, depth: {"b": random_schema(rng, depth)},
    "unevaluatedProperties": random_schema,
    "unevaluatedItems": random_schema,
    "allOf": _listed,
    "anyOf": _listed,
    "oneOf": _listed,
    "not": random_schema,
    "if": random_schema,
    "$ref": lambda rng, depth: "#/$defs/x",
}
