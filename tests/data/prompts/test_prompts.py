"""Prompt records: strict fields, stable ids, order kept, one bad record never hides another."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from cdec.core.errors import CdecError, EncodingError
from cdec.data.input.source import InputLimits, SourceStats
from cdec.data.prompts.fields import UNSUPPORTED_SAMPLING_FIELDS
from cdec.data.prompts.read import BadRecord, PromptRecord, prompts_from_texts, read_prompts
from cdec.data.prompts.templates import PromptTemplate


def read(data: bytes | str, **options: Any) -> list[PromptRecord | BadRecord]:
    data = data.encode() if isinstance(data, str) else data
    return list(read_prompts(io.BytesIO(data), **options))


def one(fields: dict[str, Any] | str, **options: Any) -> PromptRecord:
    (record,) = read(fields if isinstance(fields, str) else json.dumps(fields), **options)
    assert isinstance(record, PromptRecord), record
    return record


def refused(fields: dict[str, Any] | str, **options: Any) -> CdecError:
    (record,) = read(fields if isinstance(fields, str) else json.dumps(fields), **options)
    assert isinstance(record, BadRecord), record
    return record.error


def test_a_full_record_is_read_field_by_field() -> None:
    record = one(
        {
            "id": "q1",
            "prompt": "Where?",
            "n": 3,
            "seed": 5,
            "temperature": 1,
            "max_tokens": 9,
            "constraint": "cities",
            "candidates": ["Paris", 42],
            "query": {"x": [1]},
        }
    )
    assert record == PromptRecord(
        id="q1",
        line=1,
        prompt="Where?",
        n=3,
        seed=5,
        temperature=1.0,
        max_tokens=9,
        constraint="cities",
        candidates=("Paris", "42"),
        input={"query": {"x": [1]}},
    )


def test_what_a_record_does_not_say_is_left_to_the_options() -> None:
    assert one({"id": 1, "prompt": ""}) == PromptRecord(id=1, line=1, prompt="")


def test_messages_stand_for_a_prompt() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    assert one({"id": 1, "messages": messages}).messages == tuple(messages)


@pytest.mark.parametrize("field", ["grammar", "regex"])
def test_constraint_texts_are_kept(field: str) -> None:
    assert getattr(one({"prompt": "a", field: "x+"}), field) == "x+"


def test_a_schema_may_be_an_object_or_its_text() -> None:
    assert one({"prompt": "a", "schema": {"type": "null"}}).schema == '{"type":"null"}'
    assert one({"prompt": "a", "schema": '{"type": "null"}'}).schema == '{"type": "null"}'
    assert one({"prompt": "a", "schema": False}).schema == "false"


MESSAGE = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": 1}, "prompt"),
        ({}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "a", "messages": [MESSAGE]}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [MESSAGE | {"tool_calls": []}]}, "messages"),
        ({"messages": [MESSAGE | {"content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [MESSAGE], "chat_template": "{% x %}"}, "chat_template"),
        ({"prompt": "a", "id": None}, "id"),
        ({"prompt": "a", "id": ""}, "id"),
        ({"prompt": "a", "id": True}, "id"),
        ({"prompt": "a", "id": 1.5}, "id"),
        ({"prompt": "a", "id": 2**70}, "id"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": "3"}, "n"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "n": 10_001}, "n"),
        ({"prompt": "a", "seed": -1}, "seed"),
        ({"prompt": "a", "seed": 2**63}, "seed"),
        ({"prompt": "a", "seed": 2**70}, "seed"),
        ({"prompt": "a", "seed": 1.0}, "seed"),
        ({"prompt": "a", "temperature": -1}, "temperature"),
        ({"prompt": "a", "temperature": 0}, "temperature"),
        ({"prompt": "a", "temperature": "1"}, "temperature"),
        ({"prompt": "a", "temperature": True}, "temperature"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "constraint": ""}, "constraint"),
        ({"prompt": "a", "constraint": {"a": 1}}, "constraint"),
        ({"prompt": "a", "candidates": []}, "candidates"),
        ({"prompt": "a", "candidates": ["a", None]}, "candidates"),
        ({"prompt": "a", "candidates": [""]}, "candidates"),
        ({"prompt": "a", "candidates": [True]}, "candidates"),
        ({"prompt": "a", "regex": ""}, "regex"),
        ({"prompt": "a", "schema": []}, "schema"),
        ({"prompt": "a", "regex": "a", "grammar": "b"}, "regex"),
        ({"prompt": "a", "regex": "a", "candidates": ["b"]}, "candidates"),
        ({"prompt": "a", "meta": {"big": [2**70]}}, "meta"),
        ({"custom_id": "r1", "method": "POST", "url": "/v1/x", "body": {}}, "url"),
    ],
)
def test_bad_field_is_named(fields: dict[str, Any], field: str) -> None:
    error = refused(fields)
    assert error.details["field"] == field
    assert error.details["line"] == 1
    assert error.hint
    assert error.code == ("E_LIMIT" if fields.get("n") == 10_001 else "E_FIELD")


@pytest.mark.parametrize("field", sorted(UNSUPPORTED_SAMPLING_FIELDS))
def test_sampling_fields_that_would_be_ignored_are_refused(field: str) -> None:
    assert refused({"prompt": "a", field: 1}).details["field"] == field


def test_max_n_can_be_raised() -> None:
    assert one({"prompt": "a", "n": 20_000}, max_n=20_000).n == 20_000
    assert refused({"prompt": "a", "n": 2}, max_n=1).details["limit"] == "max_n 1"


# Lines


def test_text_and_json_lines_may_be_mixed_and_blank_ones_are_skipped() -> None:
    stats = SourceStats()
    records = read('plain text \r\n\n  {"prompt": "a"}\n   \n[not json', stats=stats)
    assert [record.prompt for record in records if isinstance(record, PromptRecord)] == [
        "plain text ",
        "a",
        "[not json",
    ]
    assert [record.line for record in records] == [1, 3, 5]
    assert (stats.lines, stats.blank) == (5, 2)
    assert stats.notices == []


def test_a_bad_record_stands_in_its_place() -> None:
    data = b'{"id":1,"prompt":"a"}\n{oops\n{"id":3,"prompt":"\xff"}\ntext \xff\n{"id":4,"n":0}\n'
    records = read(data + b'{"id":5,"prompt":"b"}')
    assert [type(record).__name__ for record in records] == [
        "PromptRecord",
        "BadRecord",
        "BadRecord",
        "BadRecord",
        "BadRecord",
        "PromptRecord",
    ]
    errors = [record.error for record in records if isinstance(record, BadRecord)]
    assert [error.code for error in errors] == ["E_JSON", "E_ENCODING", "E_ENCODING", "E_FIELD"]
    assert [error.details["line"] for error in errors] == [2, 3, 4, 5]
    assert records[4].id == 4


def test_an_overlong_line_is_a_bad_record_and_reading_goes_on() -> None:
    limits = InputLimits(max_line_bytes=30)
    data = '{"id":1,"prompt":"a"}\n{"id":2,"prompt":"' + "a" * 99 + '"}\n{"id":3,"prompt":"b"}\n'
    first, second, third = read(data, limits=limits)
    assert isinstance(second, BadRecord)
    assert second.error.code == "E_LINE_TOO_LONG"
    assert (first.id, second.line, third.id) == (1, 2, 3)
    again = read(data.split("\n")[1], limits=limits)
    assert again[0].id == second.id, "its id is its content's hash, wherever it stands"


def test_utf16_input_ends_the_run() -> None:
    with pytest.raises(EncodingError, match="UTF-16"):
        read("prompt\n".encode("utf-16"))


def test_empty_input_is_noticed() -> None:
    for data in (b"", b"\n\n"):
        stats = SourceStats()
        assert read(data, stats=stats) == []
        assert [notice.code for notice in stats.notices] == ["W_NO_INPUT"]


# Templates and --prompt


def test_template_makes_the_prompt_and_its_fields_are_passed_through() -> None:
    template = PromptTemplate.parse("Q: {query}\nA:")
    record = one({"id": 1, "query": "Where?", "prompt": "unused"}, template=template)
    assert record.prompt == "Q: Where?\nA:"
    assert record.input == {"query": "Where?", "prompt": "unused"}


def test_template_takes_a_text_line_as_its_prompt() -> None:
    template = PromptTemplate.parse("Q: {prompt}\nA:")
    assert one("Where?", template=template).prompt == "Q: Where?\nA:"
    assert refused("Where?", template=PromptTemplate.parse("{query}")).details["field"] == "query"


def test_template_field_that_a_record_lacks_is_its_error() -> None:
    template = PromptTemplate.parse("{query}")
    error = refused({"id": 1, "prompt": "x"}, template=template)
    assert (error.code, error.details["field"], error.details["line"]) == ("E_FIELD", "query", 1)
    assert refused({"messages": [MESSAGE]}, template=template).details["field"] == "messages"


def test_prompts_of_the_command_line_are_text_whatever_they_look_like() -> None:
    template = PromptTemplate.parse("<{prompt}>")
    records = list(prompts_from_texts(['{"a": 1}', "two\nlines", "", ""], template=template))
    assert [record.prompt for record in records if isinstance(record, PromptRecord)] == [
        '<{"a": 1}>',
        "<two\nlines>",
        "<>",
        "<>",
    ]
    assert len({record.id for record in records}) == 4
    assert records[1].id == next(prompts_from_texts(["two\nlines"])).id
