"""Alternatives of anyOf, oneOf and dependencies: the values left, and how few shapes say so."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from cdec.compilers.schemas.sets import expansion, products
from cdec.core.grammars.errors import EmptyLanguageError
from tests.compilers.schemas.test_compile_schema import program_of
from tests.compilers.schemas.test_keywords import report_of
from tests.laws.sizes import heavy_or

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


def _branch(rng: random.Random, depth: int) -> Any:
    """Return a schema that says something of the tag, of other properties, or of other branches."""
    tag = rng.choice(
        (
            {"enum": rng.sample(range(4), 2)},
            {"enum": rng.sample(range(5), 3)},
            {"const": rng.randrange(4)},
            {"type": "integer"},
        )
    )
    said: dict[str, Any] = {"properties": {"tag": rng.choice((tag, {"not": tag}))}}
    for name in rng.sample("abc", rng.randrange(3)):
        said["properties"][name] = rng.choice(({"type": "null"}, {"const": 1}, {"type": "integer"}))
    if rng.random() < 0.3:
        said["required"] = [rng.choice(("tag", "a"))]
    if depth and rng.random() < 0.4:
        keyword = rng.choice(("oneOf", "anyOf", "not", "allOf"))
        below = [_branch(rng, depth - 1) for _ in range(rng.randint(2, 4))]
        said[keyword] = below[0] if keyword == "not" else below
    return said


@pytest.mark.parametrize("seed", range(heavy_or(60, 3000)))
def test_alternatives_that_are_divided_are_the_valid_values(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for module in (expansion, products):
        monkeypatch.setattr(module, "FEW", 2)
    rng = random.Random(seed)
    schema = {
        "type": "object",
        rng.choice(("oneOf", "anyOf", "allOf")): [_branch(rng, 2) for _ in range(4)],
        **({"required": ["tag"]} if rng.random() < 0.8 else {}),
    }
    values = [
        {
            name: rng.choice((None, 0, 1, 2, 3, 4, "x", []))
            for name in ("tag", *rng.sample("abc", 2))
        }
        for _ in range(60)
    ]
    values += [{"tag": tag, "a": a} for tag in (0, 1, 2, 3, 4) for a in (None, 1, 2)] + [{}]
    expected = [jsonschema.Draft202012Validator(schema).is_valid(value) for value in values]
    try:
        program = program_of(schema)
    except EmptyLanguageError:
        assert not any(expected)
        return
    assert [program(value) for value in values] == expected
