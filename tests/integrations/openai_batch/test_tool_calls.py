"""Requests that call tools, end at texts of their own, and tell their chat template something."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdec.core.models.loading import load_model
from cdec.integrations.openai_batch import answer_batch
from tests.core.models.chat_models import chat_model

USER = {"role": "user", "content": "hi"}
PARAMETERS = {
    "type": "object",
    "properties": {"unit": {"enum": ["c", "f"]}},
    "required": ["unit"],
    "additionalProperties": False,
}
HEAT = {"type": "function", "function": {"name": "heat", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now"}}
NAMED = {"type": "function", "function": {"name": "now"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(chat_model(tmp_path_factory.mktemp("chat")))


def answers(model: Any, *bodies: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    requests = [
        {
            "custom_id": f"q{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"messages": [USER], "max_tokens": 150, **body},
        }
        for n, body in enumerate(bodies)
    ]
    settings = {"method": "masked", "allow": ["schema"], **settings}
    return list(answer_batch(requests, model, **settings))


def choices(line: dict[str, Any]) -> list[dict[str, Any]]:
    assert line["error"] is None, line
    found: list[dict[str, Any]] = line["response"]["body"]["choices"]
    return found


def arguments_of(call: dict[str, Any]) -> tuple[str, Any]:
    assert call["type"] == "function" and call["id"].startswith("call_")
    return call["function"]["name"], json.loads(call["function"]["arguments"])


@pytest.mark.parametrize("parallel", [True, False])
def test_required_calls_are_answered_as_messages_have_them(model: Any, parallel: bool) -> None:
    asked = {"tools": [HEAT, NOW], "tool_choice": "required", "n": 6}
    (line,) = answers(model, asked | {"parallel_tool_calls": parallel})
    called = [c for c in choices(line) if c["finish_reason"] == "tool_calls"]
    assert called
    ids = [call["id"] for each in called for call in each["message"]["tool_calls"]]
    assert len(set(ids)) == len(ids)
    for each in called:
        message = each["message"]
        assert message["role"] == "assistant" and each["cdec"]["valid"]
        assert parallel or (message["content"] is None and len(message["tool_calls"]) == 1)
        for call in message["tool_calls"]:
            name, given = arguments_of(call)
            assert (given in ({"unit": "c"}, {"unit": "f"})) if name == "heat" else given == {}


def test_calls_that_are_no_json_are_answered_as_json(tmp_path: Path) -> None:
    words = ("<|end|>", "<|start|>", "<tool_call>", "</tool_call>")
    told = load_model(chat_model(tmp_path, "{{ messages[0].content }}{# <function= #}", words))
    one = {"tool_choice": "required", "parallel_tool_calls": False}
    (line,) = answers(told, {"tools": [HEAT], "n": 2, **one})
    for each in choices(line):
        assert each["finish_reason"] == "tool_calls" and each["cdec"]["valid"]
        ((name, given),) = map(arguments_of, each["message"]["tool_calls"])
        assert name == "heat" and given in ({"unit": "c"}, {"unit": "f"})


def test_texts_may_call_or_not_and_keep_what_they_say(model: Any) -> None:
    (line,) = answers(model, {"tools": [NOW], "n": 40, "max_tokens": 120})
    reasons = {each["finish_reason"] for each in choices(line)}
    assert "stop" in reasons
    for each in choices(line):
        if each["finish_reason"] == "stop":
            assert "tool_calls" not in each["message"]
            assert isinstance(each["message"]["content"], str)


def test_a_named_function_alone_is_called_and_none_calls_nothing(model: Any) -> None:
    asked = {"tools": [HEAT, NOW], "n": 3}
    (named,) = answers(model, {**asked, "tool_choice": NAMED})
    free = {**asked, "tool_choice": "none", "max_tokens": 20}
    (none,) = answers(model, free, method="unconstrained")
    for each in choices(named):
        if each["finish_reason"] == "tool_calls":
            (call,) = each["message"]["tool_calls"]
            assert arguments_of(call) == ("now", {})
    assert all("tool_calls" not in each["message"] for each in choices(none))


def test_the_conversation_may_hold_calls_and_what_came_of_them(model: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    ]
    (line,) = answers(model, {"messages": messages, "max_tokens": 5}, method="unconstrained")
    assert choices(line)[0]["message"]["role"] == "assistant"


def test_the_template_is_told_what_the_request_says(model: Any) -> None:
    kept = {"seed": 3, "max_tokens": 3}
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    plain, told = answers(model, kept, kept | off, method="unconstrained")
    counts = [each["response"]["body"]["usage"]["prompt_tokens"] for each in (plain, told)]
    assert counts[1] == counts[0] + len("<") + len("\n\n") + len("<") + len("\n\n")


def test_texts_end_before_the_first_text_at_which_they_are_to_end(model: Any) -> None:
    kept = {"n": 20, "seed": 5, "max_tokens": 30, "logprobs": True}
    (plain,) = answers(model, kept, method="unconstrained")
    texts = [each["message"]["content"] for each in choices(plain)]
    counted = sorted("".join(texts))
    stops = [counted[len(counted) // 2], counted[len(counted) // 3]]
    (cut,) = answers(model, kept | {"stop": stops}, method="unconstrained")
    tokens = 0
    for each, text in zip(choices(cut), texts, strict=True):
        ends = [text.find(stop) for stop in stops if stop in text]
        assert each["message"]["content"] == text[: min(ends, default=len(text))]
        if ends:
            assert each["finish_reason"] == "stop"
            spelt = b"".join(bytes(line["bytes"]) for line in each["logprobs"]["content"])
            assert spelt.decode("utf-8", "replace") == each["message"]["content"]
        tokens += len(each["logprobs"]["content"])
    usage = cut["response"]["body"]["usage"]
    assert usage["completion_tokens"] <= tokens
    (held,) = answers(model, {"stop": "a", "tools": [NOW], "tool_choice": "required"})
    assert held["error"]["field"] == "stop" and held["error"]["code"] == "E_FIELD"


def test_texts_of_a_constraint_are_cut_and_judged_as_they_are_answered(model: Any) -> None:
    """The draw is the same; of the text before the first stop it is said whether it is a member."""
    form = {"name": "s", "schema": {"enum": [1, 12, 121, 3]}}
    asked = {
        "response_format": {"type": "json_schema", "json_schema": form},
        "n": 24,
        "seed": 3,
        "logprobs": True,
    }
    (whole,), (cut,) = answers(model, asked), answers(model, asked | {"stop": ["2", "3"]})
    seen = set()
    for one, other in zip(choices(whole), choices(cut), strict=True):
        text = one["message"]["content"]
        shown = text.split("2")[0].split("3")[0]
        assert other["message"]["content"] == shown
        assert other["finish_reason"] == "stop"
        is_member = re.fullmatch(r"-?\d.*\d|\d", shown) and float(shown) in (1, 12, 121, 3)
        assert other["cdec"]["valid"] is bool(is_member)
        assert other["cdec"]["token_ids"] == one["cdec"]["token_ids"]
        assert len(other["logprobs"]["content"]) == len(shown)
        seen.add((text == shown, bool(is_member)))
    assert len(seen) > 2


def test_tools_are_compiled_only_if_schemas_are(model: Any) -> None:
    none = {"tools": [NOW], "tool_choice": "none", "max_tokens": 3}
    refused, told = answers(model, {"tools": [NOW]}, none, allow=[], method="unconstrained")
    assert refused["error"]["field"] == "tools"
    assert told["error"] is None
    (line,) = answers(model, {"tools": [{"type": "function"}]})
    assert line["response"]["status_code"] == 400
