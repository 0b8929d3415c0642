"""Alternatives of anyOf, oneOf and dependencies: the values left, and how few shapes say so."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.compilers.schemas.test_compile_schema import program_of
from tests.compilers.schemas.test_keywords import report_of

_MANY = 40
_TYPE = [{"const": str(i)} for i in range(_MANY)]


def _closed(number: int) -> dict[str, Any]:
    """Return the objects that may have one property and no other."""
    return {"properties": {f"p{number}": {"type": "null"}}, "additionalProperties": False}


UNTYPED = {
    "oneOf": [
        {
            "properties": {"type": kind, "label": {"type": "string"}, f"p{i}": {"type": "null"}},
            "required": ["type"],
        }
        for i, kind in enumerate(_TYPE)
    ]
}
OPTIONAL = {
    "oneOf": [_closed(i) | {"type": "object"} for i in range(_MANY)],
}
IMPLIED = {
    "type": "object",
    "dependentSchemas": {
        f"p{i}": {"properties": {"type": {"enum": [str(i % 7), "any"]}}} for i in range(_MANY)
    },
}
CONDITIONS = {
    "type": "object",
    "allOf": [
        {
            "if": {"properties": {"type": kind}},
            "then": {"properties": {"value": {"const": i}}},
        }
        for i, kind in enumerate(_TYPE)
    ],
}
BESIDE = {
    "required": ["type"],
    "oneOf": [
        {"not": {"properties": {"type": {"enum": [str(i) for i in range(_MANY)]}}}},
        {"oneOf": [{"properties": {"type": kind, "value": {"const": 1}}} for kind in _TYPE]},
    ],
    "type": "object",
}
OVERLAPPING = {
    "required": ["type"],
    "oneOf": [
        {"properties": {"type": {"not": {"enum": [str(i) for i in range(16)]}}}},
        {
            "oneOf": [
                *(
                    {"properties": {"type": kind} | {f"{p}{i}": {"type": "null"} for p in "pqrs"}}
                    for i, kind in enumerate(_TYPE[:16])
                ),
                {"properties": {"any": {"type": "string"}}},
            ]
        },
    ],
    "type": "object",
}
NAMED = {
    "oneOf": [
        {
            "properties": {"type": kind, "label": {"type": "string"}, f"p{i}": True},
            "additionalProperties": False,
            "required": ["label"],
            "type": "object",
        }
        for i, kind in enumerate(_TYPE[:12])
    ]
}
UNEVALUATED = {
    "type": "object",
    "oneOf": [
        {"properties": {"type": kind, f"p{i}": True}, "required": ["type"]}
        for i, kind in enumerate(_TYPE)
    ],
    "unevaluatedProperties": False,
}
CASES: list[tuple[Any, int, list[Any], list[Any]]] = [
    (
        UNTYPED,
        2 * _MANY,
        [{"type": "3", "p3": None, "p4": 1}, {"type": "0"}],
        [{"type": "3", "p3": 1}, {}, 1, "a", [], {"type": "x"}, {"type": "3", "label": 1}],
    ),
    (OPTIONAL, 2 * _MANY, [{"p3": None}], [{}, {"p3": 1}, {"p3": None, "p4": None}]),
    (
        IMPLIED,
        100,
        [{"p1": 1, "p8": 1, "type": "1"}, {"p1": 1, "p2": 1}, {"p1": 1, "p2": 2, "type": "any"}],
        [{"p1": 1, "p2": 1, "type": "1"}, {"p1": 1, "type": "x"}],
    ),
    (
        CONDITIONS,
        3 * _MANY,
        [{"type": "7", "value": 7}, {"type": "x", "value": 1}, {"type": "7"}, {}],
        [{"type": "7", "value": 8}, {"value": 1}],
    ),
    (
        BESIDE,
        3 * _MANY,
        [{"type": "x", "value": 2}, {"type": "7", "value": 1}, {"type": "7"}],
        [{"type": "7", "value": 2}, {"value": 1}],
    ),
    (
        OVERLAPPING,
        300,
        [
            {"type": "x", "any": 1},
            {"type": "7", "any": 1},
            {"type": "7", "q7": 1},
            {"type": "7", "p8": 1, "any": 1},
        ],
        [{"type": "x"}, {"type": "7", "any": "a"}, {"type": "7", "q7": 1, "any": 1}, {"any": 1}],
    ),
    (
        NAMED,
        200,
        [
            {"label": "a", "type": "2"},
            {"label": "a", "p2": 1},
            {"label": "a", "type": "2", "p2": 1},
        ],
        [{"label": "a"}, {"label": "a", "p2": 1, "p3": 1}, {"type": "2"}, {"label": 1, "p2": 1}],
    ),
    (
        UNEVALUATED,
        2 * _MANY,
        [{"type": "3", "p3": None}],
        [{"type": "3", "p4": None}, {"type": "x"}, {"p3": 1}],
    ),
    (
        {"not": UNEVALUATED, "type": "object", "properties": {"type": {"const": "3"}}},
        400,
        [{"type": "3", "p4": 1}, {"p3": 1}, {}],
        [{"type": "3", "p3": 1}, {"type": "3"}, {"type": "4", "p5": 1}],
    ),
    (
        {
            "dependentSchemas": {"b": {"items": True}},
            "unevaluatedItems": {"type": "null"},
            "type": "array",
        },
        1,
        [[None]],
        [[1]],
    ),
    (
        {"not": {"prefixItems": [True], "unevaluatedItems": {"type": "null"}}},
        5,
        [[1, 2], [1, None, 2]],
        [[1, None], [], 1],
    ),
    (
        {"dependentRequired": {"a": ["b"], "b": ["c"]}, "type": "object"},
        10,
        [{"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 1}, {"c": 1}],
        [{"a": 1, "b": 1}, {"b": 1}, {"a": 1}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[json.dumps(case[0])[:60] for case in CASES])
def test_alternatives_stay_few_and_are_exactly_the_valid_values(
    case: tuple[Any, int, list[Any], list[Any]],
) -> None:
    schema, most, valid, invalid = case
    assert [jsonschema.Draft202012Validator(schema).is_valid(v) for v in valid + invalid] == [
        *([True] * len(valid)),
        *([False] * len(invalid)),
    ]
    program = program_of(schema)
    assert [value for value in valid if not program(value)] == []
    assert [value for value in invalid if program(value)] == []
    assert report_of(schema).counts["objects"] <= most
