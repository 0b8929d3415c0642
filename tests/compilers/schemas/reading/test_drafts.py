"""What the drafts know: a keyword that the schema's own draft does not have is a comment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.grammars.errors import EmptyLanguageError
from tests.benchmarks.files import read_jsonl
from tests.compilers.schemas.test_compile_schema import BYTES, program_of
from tests.conftest import shared_folder

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
CASES: list[tuple[dict[str, Any], list[Any]]] = [
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
@pytest.mark.parametrize(("keywords", "values"), CASES, ids=[next(iter(c[0])) for c in CASES])
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
