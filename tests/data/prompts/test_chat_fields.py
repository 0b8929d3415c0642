"""Fields of records for the chat template: tools, arguments, messages of tools."""

from __future__ import annotations

from typing import Any

import pytest

from cdec.data.prompts.read import BadRecord, PromptRecord, prompts_from_records
from cdec.data.prompts.templates import PromptTemplate

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "add"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def one(fields: dict[str, Any], **options: Any) -> PromptRecord:
    (record,) = prompts_from_records([fields], **options)
    assert isinstance(record, PromptRecord), record
    return record


def refused(fields: dict[str, Any]) -> str:
    (record,) = prompts_from_records([fields])
    assert isinstance(record, BadRecord)
    assert record.error.code == "E_FIELD"
    return str(record.error.details["field"])


def test_a_record_tells_its_template() -> None:
    told = {"enable_thinking": False}
    record = one({"messages": [USER], "tools": [TOOL], "chat_template_kwargs": told, "own": 1})
    assert record.template_arguments == {**told, "tools": [TOOL]}
    assert record.input == {"own": 1}
    assert one({"messages": [USER]}).template_arguments == {}


def test_tools_that_a_prompt_template_reads_are_data() -> None:
    record = one({"tools": "hammer"}, template=PromptTemplate.parse("Use a {tools}."))
    assert record.prompt == "Use a hammer."
    assert record.template_arguments == {}
    assert record.input == {"tools": "hammer"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": []}, "tools"),
        ({"tools": ["add"]}, "tools"),
        ({"tools": {"add": 1}}, "tools"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tools": [TOOL]}}, "chat_template_kwargs"),
        ({"chat_template_kwarg": {}}, "chat_template_kwarg"),
    ],
)
def test_what_no_template_is_told_is_refused(fields: dict[str, Any], field: str) -> None:
    assert refused({"messages": [USER], **fields}) == field


def test_messages_say_what_was_called_and_what_came_of_it() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "2"}
    _, read, told = one({"messages": [USER, called, answer]}).messages or ()
    assert read["content"] == ""
    # Templates read objects, and OpenAI's form has their text.
    assert read["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert told == answer


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "add"}]},
        {"role": "assistant", "content": 1, "tool_calls": [CALL]},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "2", "tool_call_id": 1},
        {"role": "user", "content": "hi", "image": "x"},
    ],
)
def test_messages_of_another_form_are_refused(message: dict[str, Any]) -> None:
    assert refused({"messages": [message, USER]}) == "messages"


def test_calls_that_nothing_answers_are_refused() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert refused({"messages": [USER, called]}) == "messages"
