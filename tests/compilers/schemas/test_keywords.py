"""Keywords of JSON Schema, and its drafts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.options import SchemaLimits, SchemaOptions
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.schemas.errors import (
    SchemaInvalidError,
    SchemaJsonError,
    SchemaRefError,
    SchemaUnsupportedError,
)
from tests.compilers.schemas.random_schemas import BYTES, program_of, report_of
from tests.shared import shared_folder
from tools.benchmarks.files import read_jsonl

# --- Keywords one by one, and where they stand in each other's way: the values left are the
# valid.

DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


CASES: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer"}, [1, 1.0, -3], [1.5, "1"]),
    (DRAFT4 | {"type": "integer"}, [1], [1.0]),
    (DRAFT4 | {"minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    ({"not": {"type": "string"}}, [1, None, {}], ["a"]),
    ({"not": {"properties": {"a": {"const": 1}}}}, [{"a": 2}], [{"a": 1}, {}, 1]),
    ({"not": {"additionalProperties": {"const": 1}}}, [{"x": 2, "y": 1}], [{"x": 1}, {}]),
    ({"not": {"items": {"const": 1}}}, [[1, 2]], [[1], []]),
    ({"enum": [1, {"a": [1]}]}, [1.0, {"a": [1.0]}], [{"a": [2]}, {"a": [1], "b": 1}]),
    ({"not": {"const": {"a": 1}}}, [{"a": 2}, {}, {"a": 1, "b": 1}], [{"a": 1}, {"a": 1.0}]),
    (
        {"contains": {"const": 5}, "minContains": 2, "maxContains": 2},
        [[5, 1, 5]],
        [[5], [5, 5, 5]],
    ),
    ({"prefixItems": [{"const": 1}], "contains": {"const": 5}, "maxItems": 2}, [[1, 5]], [[1, 2]]),
    ({"uniqueItems": True, "items": {"enum": [1, 2]}}, [[1, 2], []], [[1, 1.0], [1, 2, 1]]),
    (
        {"uniqueItems": True, "items": {"type": ["string", "null"]}, "minItems": 2},
        [["a", "b"], ["a", None], ["", "a", "aa"]],
        [["a", "a"], [None, None], ["a"]],
    ),
    (DRAFT7 | {"items": [{"const": 1}], "additionalItems": False}, [[1], []], [[1, 2], [2]]),
    (DRAFT7 | {"dependencies": {"a": ["b"], "c": {"minProperties": 3}}}, [{"b": 1}], [{"a": 1}]),
    (
        {
            "properties": {"a": True},
            "patternProperties": {"^b": True},
            "unevaluatedProperties": False,
        },
        [{"a": 1, "b1": 2}],
        [{"c": 1}],
    ),
    (
        {
            "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": True}}],
            "unevaluatedProperties": False,
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{"c": 1}, {"a": 2}],
    ),
    (
        {"prefixItems": [True], "contains": {"type": "string"}, "unevaluatedItems": False},
        [[1, "a", "b"], ["a"]],
        [[1, 2, "a"], [1]],
    ),
    (
        {"$defs": {"x": {"$anchor": "here", "const": 1}}, "items": {"$ref": "#here"}},
        [[1]],
        [[2]],
    ),
    (
        {"$id": "http://x/a", "$defs": {"b": {"$id": "b", "const": 1}}, "items": {"$ref": "b"}},
        [[1]],
        [[2]],
    ),
    (
        {"patternProperties": {"^(a|b)$": {"const": 1}}, "minProperties": 2},
        [{"a": 1, "b": 1}],
        [{}],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[json.dumps(case[0])[:60] for case in CASES])
def test_exactly_the_valid_values_are_left(case: tuple[Any, list[Any], list[Any]]) -> None:
    schema, valid, invalid = case
    program = program_of(schema)
    assert all(map(program, valid))
    assert not any(map(program, invalid))


def test_branches_are_told_apart_by_a_property_that_is_required_beside_them() -> None:
    branch = [
        {"properties": {"type": {"const": str(i)}, f"p{i}": {"type": "null"}}} for i in range(9)
    ]
    program = program_of({"required": ["type"], "oneOf": branch, "type": "object"})
    assert program({"type": "3", "p3": None, "p4": 1})
    assert not program({"type": "3", "p3": 1})


def test_draft_7_ignores_what_stands_beside_a_reference() -> None:
    schema = {"definitions": {"x": {"type": "integer"}}, "$ref": "#/definitions/x", "minimum": 5}
    assert program_of(DRAFT7 | schema)(1)
    assert not program_of(schema)(1)


@pytest.mark.parametrize(
    ("schema", "error", "path"),
    [
        ({"properties": {"a": {"type": "text"}}}, SchemaInvalidError, "/properties/a/type"),
        ({"required": "a"}, SchemaInvalidError, "/required"),
        ({"items": {"$ref": "#/$defs/zz"}}, SchemaRefError, "/items/$ref"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, SchemaRefError, "/$ref"),
        ({"properties": {"a~b/c": {"pattern": "(a)\\1"}}}, SchemaUnsupportedError, None),
        (
            {"items": {"not": {"uniqueItems": True}}},
            SchemaUnsupportedError,
            "/items/not/uniqueItems",
        ),
        (
            {"uniqueItems": True, "minItems": 2, "prefixItems": [{"enum": [1, 2]}, {"const": 1}]},
            SchemaUnsupportedError,
            "/uniqueItems",
        ),
        ({"pattern": "*"}, CdecError, "/pattern"),
    ],
)
def test_an_error_names_the_place(schema: Any, error: type[CdecError], path: str | None) -> None:
    with pytest.raises(error) as caught:
        report_of(schema)
    assert caught.value.details["path"] == (path or "/properties/a~0b~1c/pattern")


@pytest.mark.parametrize(
    "text", ['{"type":', '{"a": 1, "a": 2}', '{"const": "\\ud800"}', '{"minimum": NaN}', ""]
)
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(SchemaJsonError):
        build_schema(text, BYTES, SchemaOptions(), Path("-"))


@pytest.mark.parametrize(
    "schema", [False, {"enum": []}, {"$ref": "#"}, {"minimum": 5, "maximum": 3, "type": "integer"}]
)
def test_a_schema_without_values_is_an_error(schema: Any) -> None:
    with pytest.raises(EmptyLanguageError):
        report_of(schema)


def test_leniently_what_is_not_enforced_is_recorded_and_passes() -> None:
    schema = {"properties": {"a": {"not": {"uniqueItems": True}}, "b": {"maxItems": 2}}}
    report = report_of(schema, lenient=True)
    assert [(u["path"], u["keyword"]) for u in report.unenforced] == [
        ("/properties/a/not/uniqueItems", "uniqueItems")
    ]
    program = program_of(schema, lenient=True)
    assert program({"a": [1, 2]})
    assert not program({"b": [1, 2, 3]})


def test_unknown_keywords_and_formats_are_warnings() -> None:
    notices = report_of({"colour": 1, "properties": {"a": {"format": "phone"}}}).notices
    assert len(notices) == 2
    assert {notice.code for notice in notices} == {"W_SCHEMA_ANNOTATION"}


def test_formats_are_comments_on_request() -> None:
    assert not program_of({"format": "ipv4"})("x")
    assert program_of({"format": "ipv4"}, formats="annotate")("x")


@pytest.mark.parametrize(
    ("schema", "limit"),
    [
        (
            {
                "allOf": [
                    {"oneOf": [{"const": {"k": i, "j": j}} for j in range(2)]} for i in range(2)
                ]
            },
            None,
        ),
        ({"minItems": 1_000_000}, "max_repeat"),
        (
            {
                "allOf": [
                    {"anyOf": [{"properties": {f"k{i}": {"const": j}}} for j in range(4)]}
                    for i in range(10)
                ]
            },
            "max_alternatives",
        ),
    ],
)
def test_bombs_end_in_a_limit(schema: Any, limit: str | None) -> None:
    started = time.monotonic()
    with pytest.raises(CdecError) as caught:
        report_of(schema)
    assert caught.value.details.get("limit") == limit
    assert time.monotonic() - started < 60


@pytest.mark.share("schema", "begin")
@pytest.mark.parametrize("levels", [150, 190])
@pytest.mark.parametrize("schema", ['{"const":%s}', '{"enum":[1,%s]}', '{"items":{"const":%s}}'])
@pytest.mark.parametrize("begin, end", [("[", "]"), ('{"a":', "}")])
def test_constants_may_be_nested_as_deep_as_a_schema(
    schema: str, begin: str, end: str, levels: int
) -> None:
    value = begin * levels + "1" + end * levels
    member = json.loads(value)
    member = [member] if "items" in schema else member
    program = program_of(json.loads(schema % value))
    with deep_calls(levels, 16):
        assert program(member)
        assert not program(json.loads(json.dumps(member).replace("1", "2")))


def test_what_needs_deeper_calls_than_there_are_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdec.compilers.schemas.compile._FRAMES_A_LEVEL", 0)
    with pytest.raises(LimitError, match="deeper than `max_nesting`"):
        program_of({"const": json.loads("[" * 190 + "]" * 190)})


def test_deep_nesting_is_refused_before_it_is_read() -> None:
    text = '{"items":' * 100_000 + "{}" + "}" * 100_000
    with pytest.raises(LimitError) as caught:
        build_schema(text, BYTES, SchemaOptions(), Path("-"))
    assert caught.value.details["limit"] == "max_nesting"


def test_many_alternatives_of_a_discriminated_union_stay_few() -> None:
    kinds = [
        {"if": {"properties": {"kind": {"const": i}}}, "then": {"required": [f"p{i}"]}}
        for i in range(7)
    ]
    program = program_of({"type": "object", "required": ["kind"], "allOf": kinds})
    assert program({"kind": 3, "p3": 1})
    assert not program({"kind": 3, "p4": 1})
    assert program({"kind": 99})


def test_limits_are_checked_while_compiling() -> None:
    wide = {"properties": {f"p{i}": {"minimum": i} for i in range(30)}}
    with pytest.raises(LimitError):
        report_of(wide, limits=SchemaLimits(max_values=20))


def test_the_same_schema_becomes_the_same_columns() -> None:
    schema = {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]}
    one, other = (
        build_schema(json.dumps(schema), BYTES, SchemaOptions(), Path("-"))[0] for _ in range(2)
    )
    assert all((one[name] == other[name]).all() for name in one)


# --- What the drafts know: a keyword that the schema's own draft does not have is a comment.

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
DRAFT_CASES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"if": {"minimum": 5}, "then": {"maximum": 6}, "else": {"minimum": 3}}, [7, 2, 6, 4]),
    ({"then": False, "else": False}, [1]),
    ({"const": 1}, [1, 2]),
    ({"contains": {"type": "null"}}, [[None], [1]]),
    ({"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}, [[None], [None] * 2]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {"ab": 1}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}]),
    ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {"a": 1, "b": 1}]),
    ({"unevaluatedProperties": False}, [{}, {"a": 1}]),
    ({"unevaluatedItems": False}, [[], [1]]),
    ({"prefixItems": [{"type": "null"}]}, [[None], [1]]),
    ({"properties": {"a": {"$recursiveRef": "#"}}, "maxProperties": 1}, [{"a": {"b": 1, "c": 1}}]),
    ({"properties": {"a": {"$dynamicRef": "#"}}, "maxProperties": 1}, [{"a": {"b": 1, "c": 1}}]),
    ({"exclusiveMinimum": 5}, [5, 6]),
    ({"exclusiveMaximum": 5}, [5, 4]),
    ({"not": {"const": 1}}, [1, 2]),
    ({"not": {"if": True, "then": False}}, [1]),
    ({"allOf": [{"not": {"const": 1}}, {"type": "integer"}]}, [1, 2, "a"]),
    ({"definitions": {"a": {"type": "null"}}, "allOf": [{"$ref": "#/definitions/a"}]}, [None, 1]),
    ({"$defs": {"a": {"type": "null"}}, "allOf": [{"$ref": "#/$defs/a"}]}, [None, 1]),
    ({"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {}}}, [None, 1]),
]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("keywords", "values"), DRAFT_CASES, ids=[next(iter(c[0])) for c in DRAFT_CASES]
)
def test_a_keyword_counts_in_the_drafts_that_have_it(
    draft: str, keywords: dict[str, Any], values: list[Any]
) -> None:
    judge = DRAFTS[draft](keywords)
    expected = [judge.is_valid(value) for value in values]
    try:
        accepts = program_of({"$schema": draft} | keywords)
    except EmptyLanguageError:
        assert not any(expected)
        return
    assert [accepts(value) for value in values] == expected


def test_what_a_draft_does_not_have_is_named_by_a_warning() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
    schema = draft4 | {"if": {"const": 1}, "then": False, "type": "integer"}
    report = build_schema(json.dumps(schema), BYTES, SchemaOptions(), Path("-"))[2]
    (notice,) = report.notices
    assert notice.code == "W_SCHEMA_ANNOTATION"
    assert notice.details["keywords"] == ["if", "then"]
    assert "draft-04" in notice.message


def test_what_stands_in_such_a_keyword_can_be_referred_to() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
    accepts = program_of(draft4 | {"if": {"type": "null"}, "not": {"$ref": "#/if"}})
    assert [accepts(None), accepts(1)] == [False, True]


def test_cases_with_a_keyword_of_a_later_draft_are_judged_as_they_say() -> None:
    path = shared_folder() / "data/jsonschemabench/found_wrong.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"no shared data at {shared_folder()}")
    seen = 0
    for case in read_jsonl(path):
        if "draft-04" not in str(case["schema"].get("$schema")):
            continue
        accepts = program_of(case["schema"])
        for test in case["tests"]:
            seen += 1
            assert accepts(test["data"]) is test["valid"], (case["id"], test["description"])
    assert seen
