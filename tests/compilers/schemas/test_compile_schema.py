"""Schemas compiled to programs: alternatives, distinct texts, missing bytes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from cdec.cli.compile_schema import schema_rows
from cdec.cli.inspect import overview
from cdec.compilers import compile_schema, schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.sets import expansion, products
from cdec.core.artifacts.opened import open_artifact
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.schemas.random_schemas import (
    program_of,
    random_document,
    random_value,
    report_of,
)
from tests.laws.sessions import state_masks
from tests.laws.sizes import heavy_or

# --- Programs against the jsonschema package: the same values belong to a schema and its program.


@pytest.mark.share(16)
@pytest.mark.parametrize("seed", range(40))
def test_a_value_belongs_to_the_program_where_it_is_valid(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        schema = random_document(rng)
        values = [random_value(rng) for _ in range(25)]
        validator = jsonschema.Draft202012Validator(schema)
        expected = [validator.is_valid(value) for value in values]
        try:
            program = program_of(schema)
        except (SchemaUnsupportedError, LimitError):
            continue
        except EmptyLanguageError:
            assert not any(expected), schema
            continue
        for value, is_valid in zip(values, expected, strict=True):
            assert program(value) is is_valid, (schema, value)


# --- Alternatives of anyOf, oneOf and dependencies: the values left, and how few shapes say so.

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


@pytest.mark.share(2)
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


@pytest.mark.share(24)
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


# --- Names and items that may not come twice: what a text may still become, token by token.

_PIECES = [b'","', b'ab"', b'a"', b'"}', b'":', b'"]', b"\\u00", b"61", b'"a', b"ab"]
VOCABULARY = Vocabulary(
    [*(bytes([i]) for i in range(256)), *_PIECES, b""], [256 + len(_PIECES)], [256 + len(_PIECES)]
)


def follow(schema: Any, text: str) -> set[bytes]:
    """Return the tokens that may follow a text; nothing where the text has left the schema."""
    options = SchemaOptions(escapes="any")
    session = schema_constraint(json.dumps(schema), VOCABULARY, options).session()
    states = session.advance_bytes(session.start(1), [text.encode()])
    found = state_masks(session, states, VOCABULARY.width)[0].nonzero()[0]
    tokens = VOCABULARY.token_bytes
    return {tokens[i] if i < 266 else b"END" for i in found.tolist()}


OPEN = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}
LIST = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "text", "may", "may_not"),
    [
        (OPEN, '{"a":1,"', {b'ab"', b"a", b"\\", b'":'}, {b'a"'}),
        (OPEN, '{"a":1,"a', {b"a", b'a"', b'ab"'}, {b'"', b'":'}),
        (OPEN, '{"a":1,"\\u006', {b"2", b"1", b'a"'}, {b'"'}),
        (OPEN, '{"a":1,"\\u0061', {b"b"}, {b'"', b'":'}),
        (OPEN, '{"a":1,"b":2', {b"}", b","}, set()),
        (LIST, '["a","', {b'ab"', b'"'}, {b'a"'}),
        (LIST, '["a","a', {b"b", b'a"'}, {b'"', b'","', b'"]'}),
        (LIST, '["a","b","', {b"a", b'ab"'}, {b'a"'}),
    ],
)
def test_a_remembered_text_is_not_spelled_again(
    schema: Any, text: str, may: set[bytes], may_not: set[bytes]
) -> None:
    tokens = follow(schema, text)
    assert may <= tokens
    assert not may_not & tokens


# --- Vocabularies that lack bytes of JSON: compiling says which, and that texts may get stuck.


def lacking(missing: bytes) -> Vocabulary:
    """Return all single bytes but some."""
    tokens = [bytes([byte]) for byte in range(256) if byte not in missing]
    return Vocabulary([*tokens, b""], [len(tokens)], name="toy")


def gets_stuck(constraint: Any, rng: random.Random) -> bool:
    """Walk along the masks; say whether one is empty before the text is complete."""
    session, ends = constraint.session("cpu"), constraint.vocabulary.eos_token_ids
    states = session.start(1)
    for _ in range(60):
        ids = session.allowed(states)[1].tolist()
        if not ids:
            return not bool(session.is_complete(states)[0])
        token = rng.choice(ids)
        if token in ends:
            return False
        states = session.advance(states, np.array([token]))
    return False


@pytest.mark.parametrize("missing", [b"46", b"u", b"\\", b"\xc3", b"}", b"\x80", b'"'])
def test_missing_bytes_are_warned_of_and_recorded(missing: bytes, tmp_path: Path) -> None:
    toy, path = lacking(missing), tmp_path / "x.arrow"
    report = compile_schema({"type": "string", "pattern": "^[a-c]*$"}, toy, path)
    (notice,) = report.notices
    assert (notice.code, notice.details["bytes"]) == ("W_MISSING_BYTES", missing.hex())
    assert not report.is_sound and "unproved" in report.sound_reason
    opened: Any = open_artifact(path, vocabulary=toy)
    assert not opened.facts.is_sound and opened.metadata["cdec.sound_reason"] == report.sound_reason
    described = {**opened.summary(), "bytes": 1, "kind": "schema"}
    assert dict(overview(path, 0.0, described))["sound"] == report.sound_reason
    assert dict(schema_rows(report))["sound"] == report.sound_reason
    assert report.to_json()["sound"] is False


def test_a_tab_is_missed_where_a_token_can_begin_lines_that_tabs_indent() -> None:
    tokens = [bytes([byte]) for byte in range(256) if byte != 0x09] + [b"\n\t"]
    toy = Vocabulary([*tokens, b""], [len(tokens)], name="toy")
    nested = {"type": "array", "items": {"type": "array", "minItems": 1}, "minItems": 1}
    found = {
        kind: schema_constraint(nested, toy, SchemaOptions(whitespace=kind)).facts.is_sound
        for kind in ("usual", "any", "compact", "pretty")
    }
    assert found == {"usual": False, "any": True, "compact": True, "pretty": True}
    usual = schema_constraint(nested, toy)
    session = usual.session()
    states = session.advance_bytes(session.start(1), [b"[\n\t[\n\t"])
    assert len(session.allowed(states)[1]) == 0, "only a tab may come, and there is no such token"


@pytest.mark.parametrize("missing", [b"", b"\x00\x1f\xc0\xc1\xf5\xff\t\r"])
def test_bytes_that_no_text_needs_are_not_missed(missing: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    report = compile_schema({"type": "string"}, lacking(missing), path)
    assert report.is_sound and not report.notices
    opened: Any = open_artifact(path, vocabulary=lacking(missing))
    described = {**opened.summary(), "bytes": 1, "kind": "schema"}
    assert dict(overview(path, 0.0, described))["sound"].startswith("yes")


def test_walks_get_stuck_only_where_soundness_is_unproved() -> None:
    rng, stuck, walked = random.Random(12), 0, 0
    choices = [*b'0123456789abcdefu"}]:,n.-', 0x80, 0xA9, 0xC3, 0xF0, 0x09, 0xFF, 0x1F]
    texts = [{"type": "string", "pattern": f"^[{c}]*$"} for c in ("abc", "é", "1-4", "^a-z")]
    for _ in range(60):
        missing = bytes(rng.sample(choices, rng.choice([0, 1, 2, 4])))
        schema = rng.choice([random_document(rng), {"enum": [46, "4é", True]}, *texts])
        try:
            constraint: Any = schema_constraint(json.dumps(schema), lacking(missing))
        except CdecError:
            continue
        for _ in range(4):
            walked += 1
            if gets_stuck(constraint, rng):
                stuck += 1
                assert not constraint.facts.is_sound, (schema, missing)
    assert stuck >= 3 and walked >= 60
