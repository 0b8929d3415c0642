"""Demands on single items and properties, several at once, where the number of these is bounded."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import jsonschema
import numpy as np
import pytest

from cdec.compilers.schemas.opened import schema_constraint
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.mask import allocate_mask
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.tokens.vocabulary import Vocabulary

_BYTES = b'{}[]":, abcxyz0123456789-+.enul'
TOKENS = Vocabulary([*(bytes([byte]) for byte in sorted(set(_BYTES))), b""], [len(set(_BYTES))], [])
_PATIENCE = 60


def constraint_of(schema: Any) -> SchemaConstraint:
    return schema_constraint(schema, TOKENS)


def takes(made: SchemaConstraint, value: Any) -> bool:
    """Return whether masks let a value through, as ``json.dumps`` writes it."""
    session = made.session()
    states = session.advance_bytes(session.start(1), [json.dumps(value).encode()])
    return bool(session.is_complete(states)[0])


def walked(made: SchemaConstraint, rng: random.Random) -> str | None:
    """Return a text drawn token by token; every state on the way allows one, or the end.

    None where a demand is not met by chance for very long.
    """
    session, text = made.session(), b""
    states = session.start(1)
    mask = allocate_mask(1, TOKENS.size)
    end, tokens = TOKENS.eos_token_ids[0], TOKENS.token_bytes
    while True:
        session.fill_mask(states, mask)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits).tolist()
        assert allowed, text
        if end in allowed:
            return text.decode()
        token = rng.choice(allowed)
        is_within = text.count(b'"') % 2 == 1
        is_late = len(text) > _PATIENCE and rng.random() < 0.7
        if is_late or (text[-1:].isdigit() and not is_within):
            wished = (b'abcx"',) if is_within else (b"]}", b",:")
            fitting = ([t for t in allowed if tokens[t] in few] for few in wished)
            token = rng.choice(next(filter(None, fitting), allowed))
        if len(text) > 50 * _PATIENCE:
            return None
        text += tokens[token]
        states = session.advance(states, np.array([token]))


def read(text: str) -> Any:
    """Return the value of a text, numbers exact."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> Fraction | int:
    found = Fraction(text)
    return int(found) if found.denominator == 1 else found


def _named(pattern: str) -> dict[str, Any]:
    return {"not": {"propertyNames": {"not": {"pattern": pattern}}}}


def _with(name: str) -> dict[str, Any]:
    return {"contains": {"type": "object", "required": [name]}}


MIXED = {"type": ["number", "string"]}
A_B = [_named("a"), _named("b")]
EIGHT = [_named(pattern) for pattern in ("a", "b", "c", "x", "aa", "bb", "cc", "xx")]
SHARED: list[tuple[Any, list[Any], list[Any]]] = [
    (
        {"type": "object", "maxProperties": 1, "allOf": A_B},
        [{"ab": 1}, {"xbya": None}],
        [{}, {"a": 1}, {"b": 1}, {"ab": 1, "c": 2}],
    ),
    (
        {"type": "object", "maxProperties": 2, "allOf": [*A_B, _named("c")]},
        [{"a": 1, "bc": 1}, {"ac": 1, "b": 1}, {"abc": 1, "x": 1}, {"c": 1, "ba": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "x": 1}, {"a": 1, "b": 1, "c": 1}],
    ),
    (
        {"maxProperties": 1, "required": ["ab"], "allOf": A_B, "type": "object"},
        [{"ab": 1}],
        [{"abc": 1}, {"a": 1}],
    ),
    (
        {
            "type": "object",
            "maxProperties": 1,
            "allOf": [
                {"not": {"additionalProperties": {"type": "string"}}},
                {"not": {"patternProperties": {"a": {"not": {"type": "number"}}}}},
            ],
        },
        [{"a": 1}, {"xa": 1.5}],
        [{"a": "x"}, {"b": 1}, {}],
    ),
    (
        {"type": "object", "allOf": EIGHT, "maxProperties": 1},
        [{"aabbccxx": 1}, {"xxccbbaa1": 1}],
        [{"aabbccx": 1}, {}],
    ),
    (
        {"type": "object", "allOf": EIGHT},
        [{"aabbccxx": 1}, {"aa": 1, "bb": 1, "ccxx": 1}],
        [{"aabbccx": 1}, {"aa": 1, "bb": 1}, {}],
    ),
    (
        {"type": "array", "maxItems": 2, "allOf": [_with("a"), _with("b"), _with("c")]},
        [[{"a": 1}, {"b": 1, "c": 1}], [{"a": 1, "c": 1}, {"b": 1}], [{"a": 1, "b": 1, "c": 1}]],
        [[{"a": 1}, {"b": 1}], [{"a": 1}, {"b": 1}, {"c": 1}], []],
    ),
    (
        {
            "type": "array",
            "maxItems": 3,
            "prefixItems": [{"type": "string"}, True],
            "allOf": [_with("a"), _with("b"), {"contains": {"const": "x"}}],
        },
        [["x", {"a": 1}, {"b": 1}], ["a", {"a": 1, "b": 1}, "x"], ["x", {"a": 1, "b": 1}]],
        [["a", {"a": 1}, {"b": 1}], [{"a": 1}, {"b": 1}, "x"], ["x"]],
    ),
    (
        {
            "type": "array",
            "allOf": [
                {"contains": {"type": "number"}, "maxContains": 1},
                {"contains": {"type": "integer"}},
            ],
        },
        [[1], ["a", 1, "b"]],
        [[1.5], [1, 2], [1.5, 1]],
    ),
    (
        {
            "type": "array",
            "minItems": 3,
            "items": {"type": ["integer", "string"]},
            "contains": {"type": "integer"},
            "minContains": 0,
            "maxContains": 1,
            "prefixItems": [{"type": "integer"}],
        },
        [[1, "a", "b"], [1, "a", "b", "c"]],
        [[1, 2, "a"], [1, "a"], ["a", "b", "c"]],
    ),
    (
        {
            "type": "array",
            "prefixItems": [MIXED] * 12,
            "items": MIXED,
            "contains": {"type": "number"},
            "minContains": 2,
            "maxContains": 3,
        },
        [["a"] * 12 + [1, 2], [1, "a", 2, 3], [1, 2] + ["a"] * 13],
        [["a"] * 13, ["a"] * 12 + [1], [1] * 4, [None, 1, 2]],
    ),
    (
        {
            "type": "array",
            "maxItems": 3,
            "allOf": [
                {"contains": {"type": "number"}, "minContains": 2},
                {"contains": {"enum": [1, "a"]}, "minContains": 2},
            ],
        },
        [[1, 1], [1, 2, "a"], ["a", 1, 2], [2, 1, 1]],
        [[1, 2, 3], [1, "a"], ["a", "a", 2]],
    ),
]


@pytest.mark.share(9)
@pytest.mark.parametrize("case", SHARED, ids=[json.dumps(case[0])[:70] for case in SHARED])
def test_members_share_demands_in_every_way(case: tuple[Any, list[Any], list[Any]]) -> None:
    schema, valid, invalid = case
    made, rng = constraint_of(schema), random.Random(1)
    validator = jsonschema.Draft202012Validator(schema)
    assert all(map(validator.is_valid, valid))
    assert [value for value in valid if not takes(made, value)] == []
    assert [value for value in invalid if takes(made, value)] == []
    texts = [walked(made, rng) for _ in range(20)]
    read_back = [read(text) for text in texts if text is not None]
    assert read_back
    assert all(map(validator.is_valid, read_back))


@pytest.mark.parametrize(
    "schema",
    [
        {"prefixItems": [{"type": "object"}, False], "contains": {"type": "number"}},
        {"prefixItems": [True, False], "contains": True, "minContains": 2},
        {"prefixItems": [{"type": "integer"}] * 3, "minItems": 3, "maxContains": 2}
        | {"contains": {"type": "integer"}},
        {"items": {"type": "integer"}, "minItems": 3, "maxContains": 2}
        | {"contains": {"type": "integer"}},
        {"maxItems": 1, "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]},
        {"items": False, "contains": {"type": "number"}},
        {"contains": {"type": "number"}, "maxContains": 0},
    ],
    ids=lambda schema: json.dumps(schema)[:70],
)
def test_positions_that_can_never_be_filled_leave_no_array(schema: Any) -> None:
    with pytest.raises(EmptyLanguageError):
        constraint_of({"type": "array"} | schema)
    made = constraint_of(schema | {"type": ["array", "null"]})
    assert (walked(made, random.Random(1)) or "").strip() == "null"


_ITEMS: tuple[Any, ...] = (
    *({"type": "integer"}, {"type": "number"}, {"enum": [1, "a"]}, {"type": "string"}),
    *({"const": "a"}, {"const": 1}, {"minimum": 2}, {"type": "object"}, {"required": ["a"]}),
)
_VALUES: tuple[Any, ...] = (1, 2, 1.5, "a", "b", {}, {"a": 1}, None)


def _array(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    if rng.random() < 0.5:
        items = [rng.choice((*_ITEMS, True)) for _ in range(rng.randint(1, 3))]
        schema["prefixItems"] = items + [False] * (rng.random() < 0.3)
    if rng.random() < 0.3:
        schema["items"] = rng.choice((*_ITEMS, False))
    for keyword in ("minItems", "maxItems"):
        if rng.random() < 0.5:
            schema[keyword] = rng.randint(0, 4)
    schema["allOf"] = []
    for _ in range(rng.randint(1, 3)):
        demand: dict[str, Any] = {"contains": rng.choice(_ITEMS)}
        if rng.random() < 0.4:
            demand["minContains"] = rng.randint(0, 2)
        if rng.random() < 0.4:
            demand["maxContains"] = rng.randint(0, 2)
        schema["allOf"].append(demand)
    return schema


def _object(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    names = ("a", "b", "ab", "c")
    for keyword in ("minProperties", "maxProperties"):
        if rng.random() < 0.6:
            schema[keyword] = rng.randint(0, 3)
    if rng.random() < 0.4:
        schema["required"] = rng.sample(names, rng.randint(1, 2))
    if rng.random() < 0.5:
        schema["properties"] = {name: rng.choice(_ITEMS) for name in rng.sample(names, 2)}
    if rng.random() < 0.3:
        schema["additionalProperties"] = rng.choice((*_ITEMS, False))
    schema["allOf"] = []
    for _ in range(rng.randint(1, 3)):
        pattern = rng.choice(("a", "b", "^a", "b$", "^[ab]*$", "^(a|b|c)$"))
        refused = rng.choice(
            (
                {"propertyNames": {"not": {"pattern": pattern}}},
                {"additionalProperties": rng.choice(_ITEMS)},
                {"patternProperties": {pattern: rng.choice(_ITEMS)}},
                {"properties": {rng.choice(names): rng.choice(_ITEMS)}},
            )
        )
        schema["allOf"].append({"not": refused})
    return schema


def _agrees(schema: Any, values: list[Any], rng: random.Random) -> bool:
    """Compare masks with the jsonschema package; say whether the schema has values."""
    validator = jsonschema.Draft202012Validator(schema)
    expected = list(map(validator.is_valid, values))
    try:
        made = constraint_of(schema)
    except EmptyLanguageError:
        assert not any(expected), schema
        return False
    except (SchemaUnsupportedError, LimitError) as error:
        raise AssertionError(schema) from error
    for value, is_valid in zip(values, expected, strict=True):
        assert takes(made, value) is is_valid, (schema, value)
    for _ in range(3):
        text = walked(made, rng)
        assert text is None or validator.is_valid(read(text)), (schema, text)
    return True


def _differ(seed: int, number: int) -> None:
    rng = random.Random(seed)
    for _ in range(number):
        arrays = [[rng.choice(_VALUES) for _ in range(rng.randint(0, 4))] for _ in range(12)]
        _agrees(_array(rng), arrays, rng)
        objects = [
            {name: rng.choice(_VALUES) for name in rng.sample(("a", "b", "ab", "c", "bx"), n)}
            for n in (0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4)
        ]
        _agrees(_object(rng), objects, rng)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_demands_and_counts_are_those_of_the_jsonschema_package(seed: int) -> None:
    _differ(seed, 8)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_demands_and_counts_are_those_of_the_jsonschema_package(seed: int) -> None:
    _differ(seed, 100)
