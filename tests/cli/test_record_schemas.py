"""Schemas that records bring, and what samples carry of what masks leave open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdec.cli.options.record_sources import RecordSourceOptions, record_sources
from cdec.compilers.grammars.definition import GrammarLimits

from .conftest import Result, Runner

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")

LETTERS = {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}
SAMPLE = ("sample", "--method", "masked", "--raw", "--max-new-tokens", "40")


def jsonl(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def texts(result: Result) -> list[str]:
    assert result.status == 0, result.stderr
    return [record["text"] for record in result.records]


def test_records_bring_schemas_as_objects_or_texts(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "schema": {"enum": ["yes", "no"]}},
        {"id": 1, "prompt": "x", "schema": json.dumps(LETTERS)},
        {"id": 2, "prompt": "x", "regex": "[ab]{2}"},
        {"id": 3, "prompt": "x", "schema": True, "max_tokens": 3},
        {"id": 4, "prompt": "x", "schema": LETTERS},
    )
    result = cdec(*SAMPLE, "--whitespace", "compact", stdin=data)
    found = texts(result)
    assert json.loads(found[0]) in ("yes", "no")
    for text in (found[1], found[4]):
        assert set(json.loads(text)) <= {"a", "b"} and " " not in text
    assert all(record["valid"] for record in result.records if record["id"] != 3)


def test_a_bad_schema_is_an_error_in_its_place(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "schema": {"type": "nothing"}},
        {"id": 1, "prompt": "x", "schema": "{"},
        {"id": 2, "prompt": "x", "schema": False},
        {"id": 3, "prompt": "x", "schema": {"$ref": "other.json"}},
        {"id": 4, "prompt": "x", "schema": {"const": 1}},
        {"id": 5, "prompt": "x", "schema": []},
    )
    result = cdec(*SAMPLE, stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [
        "E_SCHEMA_INVALID", "E_SCHEMA_JSON", "E_EMPTY_LANGUAGE", "E_SCHEMA_REF", None, "E_FIELD"
    ]  # fmt: skip
    assert "field 'schema'" in result.records[0]["error"]["message"]


def test_what_is_left_open_stands_in_every_sample(cdec: Runner) -> None:
    data = jsonl({"prompt": "x", "schema": {"not": {"pattern": "(a)\\1"}, "type": "string"}})
    refused = cdec(*SAMPLE, stdin=data)
    assert refused.status == 3
    assert refused.records[0]["error"]["code"] in ("E_SCHEMA_UNSUPPORTED", "E_REGEX_UNSUPPORTED")
    (record,) = cdec(*SAMPLE, "--lenient", stdin=data).records
    assert [item["keyword"] for item in record["unenforced"]] == ["pattern"]
    assert record["unenforced"][0]["path"] == "/not/pattern"


def test_limits_that_were_typed_hold_for_schemas_too() -> None:
    typed = RecordSourceOptions(grammar_limits=GrammarLimits(max_nesting=7, compile_seconds=2.0))
    limits: Any = record_sources(typed).options["schema"].limits
    usual: Any = record_sources().options["schema"].limits
    assert (limits.max_nesting, limits.compile_seconds) == (7, 2.0)
    assert limits.max_states == usual.max_states and usual.compile_seconds == 60.0
