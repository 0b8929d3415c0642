"""Functions that read texts for a type: those that refuse nothing more, and those to be named."""

from __future__ import annotations

import functools
import operator
import zoneinfo
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from cdec.compilers.schemas.typed.texts import (
    ASCII,
    BYTE_SIZE,
    TEXTS,
    ascii_base64,
    base64_lengths,
    text,
)
from cdec.core.schemas.own_keywords import NUMBERS, UNENFORCED

Made = dict[str, Any]

_SIGNS = {"base64": "+/", "base64url": "_-"}
_READ = frozenset(
    [
        "EmailStr._validate",
        "NameEmail._validate",
        "SecretStr",
        "SecretBytes",
        "pattern_either_validator",
        "IPvAnyAddress._validate",
        "IPvAnyNetwork._validate",
        "IPvAnyInterface._validate",
        "defaultdict_validator",
        "sequence_validator",
        "deque_validator",
        "dequeue_validator",
        "Secret.__get_pydantic_core_schema__.<locals>.<lambda>",
        "GenerateSchema._path_schema.<locals>.path_validator",
        "_BaseUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
        "_BaseMultiHostUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
    ]
)
"""Functions of pydantic's own that take whatever the refined schema allows."""
_COMPARING = frozenset(
    [
        "greater_than_validator",
        "greater_than_or_equal_validator",
        "less_than_validator",
        "less_than_or_equal_validator",
        "multiple_of_validator",
    ]
)
"""Those of bounds, which stand in the schema if it is one of numbers."""
_NUMBERED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTH_OF = ("min_length_validator", "max_length_validator")
_WITHIN = ("schema", "lax_schema", "json_schema")
_LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")
BOUNDS = ("gt", "ge", "lt", "le", "multiple_of")
_TEXT_OF: dict[str, Made] = {
    "ByteSize._validate": {
        "anyOf": [text(BYTE_SIZE), {"type": "integer", "minimum": 0, NUMBERS: "integers"}]
    },
}


def noted(made: Made, reason: str) -> Made:
    """Return a schema that says what of its type is not enforced."""
    return made | {UNENFORCED: [*made.get(UNENFORCED, []), reason]}


def by_function(made: Made, schema: Mapping[str, Any]) -> Made:
    """Return what the schema of a type that a function reads becomes by what is known of it.

    Args:
        made: The schema without the function. schema: Pydantic's own of it.

    Returns:
        With ``UNENFORCED`` where the function may refuse what the schema allows.
    """
    function, name = _function(schema)
    if isinstance(function, operator.attrgetter) or function in (OrderedDict, Counter, deque):
        return made
    module = getattr(function, "__module__", None) or ""
    # A bound that is left beside several types is none that a keyword says.
    if module.split(".")[0] != "pydantic" or not made.keys().isdisjoint(BOUNDS):
        return noted(made, name)
    if name in _TEXT_OF:
        return made | _TEXT_OF[name]
    if name in ("EncodedStr.decode_str", "EncodedBytes.decode"):
        coding = function.__self__.encoder.get_json_format()
        if coding not in _SIGNS:
            return noted(made, name)
        return made | (text(ascii_base64(_SIGNS[coding])) if "Str" in name else TEXTS[coding])
    if name == "validate_str_is_valid_iana_tz":
        return {"type": "string", "enum": sorted(zoneinfo.available_timezones())}
    if name in _LENGTH_OF:
        return _with_length(made, schema, name)
    is_told = name in _COMPARING and not made.keys().isdisjoint(_NUMBERED)
    return made if is_told or name in _READ else noted(made, name)


def _with_length(made: Made, schema: Mapping[str, Any], name: str) -> Made:
    """Return a schema with a length of what its texts become, where the texts tell it."""
    names, inner = [], schema
    while within := [inner[at] for at in _WITHIN if at in inner]:
        inner = within[0]
        names += [_function(inner)[1]] if "function" in inner else []
    if any(each.startswith("Encoded") for each in names):
        limits = base64_lengths(made.get("minLength"), made.get("maxLength"))
        kept = _without_lengths(made)
        return kept | {"allOf": [*kept.get("allOf", []), *limits]}
    if inner.get("type") == "json":
        return noted(_without_lengths(made), name)
    if inner.get("type") == "bytes" and "maxLength" in made:
        return made | {"pattern": ASCII}
    is_text = inner.get("type") in ("str", "bytes") and {*names} <= {*_READ, *_LENGTH_OF}
    return made if is_text else noted(made, name)


def _without_lengths(made: Made) -> Made:
    return {keyword: value for keyword, value in made.items() if keyword not in _LENGTHS}


def _function(schema: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the function of a schema and what it is called."""
    function = schema["function"]["function"]
    while isinstance(function, functools.partial):
        function = function.func
    return function, str(getattr(function, "__qualname__", None) or function)
