"""Keywords of JSON Schema: which a draft has, what they take, and what a schema's draft is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from cdec.core.errors import UsageError
from cdec.core.schemas.errors import SchemaInvalidError
from cdec.core.schemas.own_keywords import (
    MAX_TOKENS,
    NOTE,
    NUMBER_READERS,
    NUMBERS,
    SET,
    SPAN,
    UNENFORCED,
)
from cdec.core.sets.quotes import SpanField

DRAFTS = {
    "draft-03": 3,
    "draft-04": 4,
    "draft-06": 6,
    "draft-07": 7,
    "2019-09": 2019,
    "2020-12": 2020,
}
"""Drafts by what ``$schema`` says of them."""
_LAST = 2020
_KNOWN = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (6, _LAST)),
    **dict.fromkeys(("if", "then", "else"), (7, _LAST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), (2019, _LAST)),
    **dict.fromkeys(("minContains", "maxContains"), (2019, _LAST)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), (2019, _LAST)),
    "$recursiveRef": (2019, 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), (2020, _LAST)),
}
"""Keywords that decide which values are valid, with the first and the last draft that has them; all
others are in every one, or were replaced by what means the same and are still read."""
_FLAGS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
"""Keywords that take true or false in draft-04, and a number since."""
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_STRING: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, str), "a string")
_OBJECT: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, dict), "an object")
_SCHEMAS: tuple[Callable[[Any], bool], str] = (
    lambda v: isinstance(v, list) and bool(v),
    "an array of at least one schema",
)
_SCHEMA: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, dict | bool), "a schema")
_FLAG: tuple[Callable[[Any], bool], str] = (lambda v: isinstance(v, bool), "true or false")
_ANY: tuple[Callable[[Any], bool], str] = (lambda v: True, "")
COMMENTS = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment"),
        *("$vocabulary", "title", "description", "default", "examples", "deprecated", "readOnly"),
        *("writeOnly", "contentEncoding", "contentMediaType", "contentSchema"),
    }
)
"""Keywords of the standard that decide nothing."""


def draft_of(value: Any, otherwise: int = 2020) -> int:
    """Return the draft that ``$schema`` names; that of 2020-12 where it names none."""
    said = value.get("$schema") if isinstance(value, dict) else None
    if isinstance(said, str):
        for name, draft in DRAFTS.items():
            if name in said:
                return draft
    return otherwise


def counting(keywords: dict[str, Any], draft: int) -> dict[str, Any]:
    """Return the keywords that a draft has; up to draft-07 none counts beside ``$ref``."""
    if draft <= 7 and "$ref" in keywords:
        return {"$ref": keywords["$ref"]}
    found = {keyword: value for keyword, value in keywords.items() if _has(draft, keyword, value)}
    return found if len(found) < len(keywords) else keywords


def _has(draft: int, keyword: str, value: Any) -> bool:
    if draft <= 4 and keyword in _FLAGS:
        return isinstance(value, bool)
    first, last = _KNOWN.get(keyword, (0, _LAST))
    return first <= draft <= last


def draft_name(draft: int) -> str:
    """Return what a draft is called."""
    return next(name for name, number in DRAFTS.items() if number == draft)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_types(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, str) and item in TYPES for item in items)


def _is_bound(value: Any) -> bool:
    return _is_number(value) or isinstance(value, bool)


_COUNT: tuple[Callable[[Any], bool], str] = (_is_count, "a whole number of at least 0")
_NUMBER: tuple[Callable[[Any], bool], str] = (_is_number, "a number")
_NAMES: tuple[Callable[[Any], bool], str] = (_is_names, "an array of strings")


def _is_span_field(value: Any) -> bool:
    try:
        SpanField.from_json(value)
    except UsageError:
        return False
    return True


KEYWORDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_types, f"one of {', '.join(TYPES)}, or an array of these"),
    "enum": (lambda v: isinstance(v, list), "an array"),
    "const": _ANY,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": (_is_bound, "a number"),
    "exclusiveMaximum": (_is_bound, "a number"),
    "multipleOf": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _STRING,
    "format": _STRING,
    "items": (lambda v: isinstance(v, dict | bool | list), "a schema, or an array of schemas"),
    "prefixItems": _SCHEMAS,
    "additionalItems": _SCHEMA,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _FLAG,
    "unevaluatedItems": _SCHEMA,
    "properties": _OBJECT,
    "patternProperties": _OBJECT,
    "additionalProperties": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": _NAMES,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (
        lambda v: isinstance(v, dict) and all(map(_is_names, v.values())),
        "an object of arrays of strings",
    ),
    "dependentSchemas": _OBJECT,
    "dependencies": (
        lambda v: (
            isinstance(v, dict)
            and all(_is_names(item) or isinstance(item, dict | bool) for item in v.values())
        ),
        "an object of schemas and arrays of strings",
    ),
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "$ref": _STRING,
    "$dynamicRef": _STRING,
    "$recursiveRef": _STRING,
    "$defs": _OBJECT,
    "definitions": _OBJECT,
    NUMBERS: (lambda v: v in NUMBER_READERS, f"one of {', '.join(NUMBER_READERS)}"),
    UNENFORCED: _NAMES,
    NOTE: _STRING,
    SET: (lambda v: isinstance(v, str) and bool(v), "the name of a set"),
    MAX_TOKENS: (lambda v: _is_count(v) and v > 0, "a whole number of at least 1"),
    SPAN: (_is_span_field, "a field's name, or an object of field, whole, shortest and longest"),
}
"""Keywords that decide which values are valid, or hold schemas: a check of their value, and what
is expected in words."""


def check_keyword(keyword: str, value: Any, path: str, draft: int) -> bool:
    """Check the value of a keyword; return whether the standard knows the keyword.

    Raises:
        SchemaInvalidError: It is not what the keyword takes.
    """
    found = KEYWORDS.get(keyword)
    if found is None:
        return keyword in COMMENTS
    check, expected = found
    if not check(value):
        place = f"{path}/{keyword}"
        shown = repr(value)
        raise SchemaInvalidError(
            f"{place} is {shown[:80]}, expected {expected}",
            hint="correct the schema there",
            path=place,
        )
    return True
