"""Lines of batch files become requests, or errors that name the field; no model is needed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import CdecError
from cdec.data.ids import Shard
from cdec.data.input.source import InputLimits, SourceStats
from cdec.integrations.openai_batch.body import CHAT, LABELS, NEUTRAL, READ, TEXT, Asking
from cdec.integrations.openai_batch.reading import (
    BadRequest,
    BatchRequest,
    read_requests,
    requests_from_objects,
)
from cdec.integrations.serving.settings import SOURCES, ServingLimits, ServingSettings

ASKING = Asking(
    ServingSettings(
        {"cities": Path("cities.arrow")},
        frozenset(SOURCES),
        limits=ServingLimits(max_candidates=3, max_text_bytes=300),
    ),
    model="tiny",
    max_n=8,
)
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]


def line(body: dict[str, Any] | None = None, url: str = CHAT, **other: Any) -> dict[str, Any]:
    needed: dict[str, Any] = {"messages": MESSAGES} if url == CHAT else {"prompt": "Where?"}
    body = needed if body is None else needed | body
    return {"custom_id": "q", "method": "POST", "url": url, "body": body} | other


def read(*lines: dict[str, Any], asking: Asking = ASKING) -> list[Any]:
    return list(requests_from_objects(lines, asking))


def good(each: dict[str, Any], asking: Asking = ASKING) -> BatchRequest:
    (found,) = read(each, asking=asking)
    assert isinstance(found, BatchRequest), found.error
    return found


def error(each: dict[str, Any], asking: Asking = ASKING) -> CdecError:
    (found,) = read(each, asking=asking)
    assert isinstance(found, BadRequest), found
    assert found.error.hint and found.error.details["line"] == 1
    return found.error


def schema_format(schema: object, **other: object) -> dict[str, object]:
    named = {"name": "answer", "schema": schema} | other
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def test_a_chat_and_a_text_say_what_is_drawn_and_how() -> None:
    chat = good(
        line(
            {
                "model": "tiny",
                "n": 2,
                "seed": 7,
                "temperature": 0.5,
                "top_p": 0.9,
                "max_completion_tokens": 4,
                "logprobs": True,
                "top_logprobs": 3,
            }
        )
    )
    assert (chat.id, chat.messages, chat.prompts, chat.url) == ("q", tuple(MESSAGES), (), CHAT)
    assert (chat.n, chat.seed, chat.temperature, chat.top_p) == (2, 7, 0.5, 0.9)
    assert (chat.max_tokens, chat.alternatives, chat.model) == (4, 3, "tiny")
    text = good(line({"prompt": ["a", "b"], "max_tokens": 3, "logprobs": 0}, TEXT))
    assert (text.prompt, text.prompts, text.messages) == ("a", ("a", "b"), None)
    assert [each.prompt for each in text.of_each_prompt] == ["a", "b"]
    assert (text.max_tokens, text.alternatives, text.n, text.seed) == (3, 0, None, None)
    assert good(line({"logprobs": False})).alternatives is None


def test_text_parts_are_lines_and_a_developer_is_the_system() -> None:
    parts = [{"type": "text", "text": "Where?"}, {"type": "text", "text": "And when?"}]
    for given, content in ((parts[:1], "Where?"), (parts, "Where?\nAnd when?")):
        messages = [{"role": "developer", "content": given}, {"role": "user", "content": given}]
        said = good(line({"messages": messages})).messages
        assert said == tuple({"role": r, "content": content} for r in ("system", "user"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"cdec": {"artifact": "cities"}}, {"constraint": "cities"}),
        (
            {"cdec": {"artifact": "cities", "candidates": ["a"], "deny": ["b"]}},
            {"constraint": "cities", "candidates": ("a",), "deny": ("b",)},
        ),
        ({"cdec": {"regex": "a+"}}, {"regex": "a+"}),
        (
            {"cdec": {"regex": "a+", "after": "x", "budget": 3}},
            {"regex": "a+", "after": ("x",), "budget": 3},
        ),
        (
            {"cdec": {"regex": "a", "between": ["x", "y"], "regions": 1}},
            {"regex": "a", "between": ("x", "y"), "regions": 1},
        ),
        ({"cdec": {"grammar": 'start: "a"'}}, {"grammar": 'start: "a"'}),
        ({"cdec": {"candidates": ["a", "b"]}}, {"candidates": ("a", "b")}),
        (schema_format({"type": "null"}, strict=True), {"schema": '{"type":"null"}'}),
        (schema_format({"type": "null"}, description="d"), {"schema": '{"type":"null"}'}),
        ({"response_format": {"type": "json_object"}}, {"schema": '{"type":"object"}'}),
        ({"response_format": {"type": "text"}}, {}),
    ],
)
def test_constraints_are_named_or_brought(body: dict[str, Any], said: dict[str, Any]) -> None:
    for url in (CHAT, TEXT):
        found = good(line(body, url))
        fields = ("constraint", "candidates", "deny", "grammar", "regex", "schema")
        fields = (*fields, "after", "between", "budget", "regions")
        assert {name: getattr(found, name) for name in fields if getattr(found, name)} == said


def test_texts_are_held_to_their_tokens_by_the_run_and_not_by_a_request() -> None:
    (refused,) = read(line({"cdec": {"artifact": "cities", "fit": 5}}, TEXT))
    assert "max_tokens" in str(refused.error.hint)


@pytest.mark.parametrize(
    "brought", [{"artifact": "cities", "documents": {"page": "x"}}, {"document": "x"}]
)
def test_documents_are_for_servers(brought: dict[str, Any]) -> None:
    (refused,) = read(line({"cdec": brought}, TEXT))
    assert "document" in refused.error.message


@pytest.mark.parametrize("url", [CHAT, TEXT])
def test_what_asks_for_nothing_is_let_through(url: str) -> None:
    bodies: list[dict[str, Any]] = [{name: values[0]} for name, values in NEUTRAL.items()]
    bodies += [{name: None} for name in (*NEUTRAL, *READ[url] - {"messages", "prompt"})]
    bodies += [{name: "somebody"} for name in LABELS]
    for body in bodies:
        assert good(line(body, url)) == good(line({}, url)), body


ASKED_OF_OTHERS: dict[str, Any] = {
    "audio": {"voice": "alloy"},
    "best_of": 3,
    "echo": True,
    "frequency_penalty": 0.1,
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "guided_regex": "a",
    "logit_bias": {"7": 1},
    "modalities": ["audio"],
    "presence_penalty": -1,
    "prediction": {},
    "reasoning_effort": "low",
    "store": True,
    "stream": True,
    "structured_outputs": {"regex": "a"},
    "suffix": "b",
    "tool_choice": "auto",
    "top_k": 3,
    "vllm_xargs": {"cdec": "{}"},
    "a field of tomorrow": 0,
}


@pytest.mark.parametrize("name", ASKED_OF_OTHERS)
def test_what_is_not_honoured_is_refused_by_its_name(name: str) -> None:
    for url in (CHAT, TEXT):
        found = error(line({name: ASKED_OF_OTHERS[name]}, url))
        assert (found.code, found.details["field"]) == ("E_FIELD", name)


def test_false_is_not_0_and_0_is_not_false() -> None:
    assert error(line({"presence_penalty": False})).details["field"] == "presence_penalty"
    assert error(line({"stream": 0})).details["field"] == "stream"


@pytest.mark.parametrize(
    ("field", "each"),
    [
        ("custom_id", {"method": "POST", "url": CHAT, "body": {"messages": MESSAGES}}),
        ("custom_id", line(custom_id="")),
        ("custom_id", line(custom_id=7)),
        ("method", line(method="GET")),
        ("method", {"custom_id": "q", "url": CHAT, "body": {"messages": MESSAGES}}),
        ("url", line(url="/v1/embeddings")),
        ("url", line(url="https://example.org/v1/completions")),
        ("url", line(url=["/v1/completions"])),
        ("body", line() | {"body": []}),
        ("body", {"custom_id": "q", "method": "POST", "url": CHAT}),
        ("priority", line(priority=1)),
    ],
)
def test_what_stands_around_a_body_is_checked(field: str, each: dict[str, Any]) -> None:
    assert error(each).details["field"] == field


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("messages", {"messages": []}),
        ("messages", {"messages": None}),
        ("messages", {"messages": "Where?"}),
        ("messages", {"messages": [{"role": "user"}]}),
        ("messages", {"messages": [{"role": "user", "content": "a", "name": "b"}]}),
        ("messages", {"messages": [{"role": "function", "content": "a"}]}),
        ("stop", {"stop": [""]}),
        ("stop", {"stop": ["a"] * 17}),
        ("stop", {"stop": 3}),
        ("tools", {"tools": {"a": 1}}),
        ("tool_choice", {"tools": [{"name": "f"}], "tool_choice": {}}),
        ("parallel_tool_calls", {"tools": [{"name": "f"}], "parallel_tool_calls": 1}),
        ("chat_template_kwargs", {"chat_template_kwargs": [1]}),
        ("response_format", {"tools": [{"name": "f"}], **schema_format({})}),
        ("cdec", {"tools": [{"name": "f"}], "cdec": {"artifact": "cities"}}),
        ("messages", {"messages": [{"role": ["user"], "content": "a"}]}),
        ("messages", {"messages": [*MESSAGES, {"role": "assistant", "content": "In "}]}),
        (
            "messages",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
                        ],
                    }
                ]
            },
        ),
        ("prompt", {"prompt": "a"}),
        ("chat_template", {"chat_template": "{% for i in range(10**9) %}{% endfor %}"}),
        ("model", {"model": "huge"}),
        ("model", {"model": 7}),
        ("n", {"n": 0}),
        ("n", {"n": -1}),
        ("n", {"n": 1.5}),
        ("n", {"n": True}),
        ("n", {"n": 9}),
        ("seed", {"seed": -1}),
        ("temperature", {"temperature": -1}),
        ("temperature", {"temperature": "hot"}),
        ("top_p", {"top_p": 0}),
        ("top_p", {"top_p": 1.1}),
        ("top_p", {"top_p": True}),
        ("max_tokens", {"max_tokens": -5}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_completion_tokens", {"max_tokens": 5, "max_completion_tokens": 5}),
        ("logprobs", {"logprobs": 3}),
        ("top_logprobs", {"top_logprobs": 3}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": -1}),
        ("response_format", {"response_format": "json"}),
        ("response_format", {"response_format": {"type": "grammar"}}),
        ("response_format", {"response_format": {"type": ["text"]}}),
        ("response_format", {"response_format": {"type": "text", "schema": {}}}),
        ("response_format", {"response_format": {"type": "json_schema"}}),
        ("response_format", schema_format("{}")),
        ("response_format", schema_format({}, other=1)),
        ("response_format", schema_format({"enum": list(range(300))})),
        ("response_format", {"cdec": {"artifact": "cities"}, **schema_format({})}),
        ("cdec", {"cdec": {"artifact": "towns"}}),
        ("cdec", {"cdec": {"artifact": "cities.arrow"}}),
        ("cdec", {"cdec": {"artifact": "/etc/passwd"}}),
        ("cdec", {"cdec": {"artifact": "../cities"}}),
        ("cdec", {"cdec": {"artifact": ""}}),
        ("cdec", {"cdec": {"artifact": "cities", "candidates": list("abcd")}}),
        ("cdec", {"cdec": {"artifact": "cities", "deny": -1}}),
        ("cdec", {"cdec": {"regex": "a" * 400}}),
        ("cdec", {"cdec": {"path": "cities.arrow"}}),
        ("cdec", {"cdec": {}}),
    ],
)
def test_a_value_that_cannot_be_honoured_is_refused_by_its_name(
    field: str, body: dict[str, Any]
) -> None:
    found = error(line(body))
    assert found.code == ("E_LIMIT" if "limit" in found.details else "E_FIELD")
    assert found.details["field"] == field
    assert "line 1" in found.message


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": [1, 2]}),
        ("prompt", {"prompt": [[1, 2]]}),
        ("prompt", {"prompt": {"a": "b"}}),
        ("prompt", {"prompt": ["a"] * 9}),
        ("prompt", {"prompt": ["a"] * 3, "n": 3}),
        ("messages", {"messages": MESSAGES}),
        ("max_completion_tokens", {"max_completion_tokens": 3}),
        ("logprobs", {"logprobs": 6}),
        ("logprobs", {"logprobs": True}),
        ("top_logprobs", {"top_logprobs": 1}),
    ],
)
def test_a_text_request_has_its_own_form(field: str, body: dict[str, Any]) -> None:
    assert error(line(body, TEXT)).details["field"] == field


def test_nothing_is_compiled_that_is_not_allowed() -> None:
    asking = Asking(ServingSettings({"cities": Path("cities.arrow")}))
    brought: list[dict[str, Any]] = [
        {"cdec": {"grammar": 'start: "a"'}},
        {"cdec": {"regex": "a"}},
        {"cdec": {"schema": {}}},
        {"cdec": {"candidates": ["a"]}},
        schema_format({}),
        {"response_format": {"type": "json_object"}},
    ]
    for body in brought:
        assert error(line(body), asking).details["field"] in ("cdec", "response_format")
    assert good(line({"cdec": {"artifact": "cities", "candidates": ["a"]}}), asking).candidates


def test_a_temperature_of_0_is_taken_where_the_best_tokens_are_drawn() -> None:
    assert good(line({"temperature": 0}), Asking(is_greedy=True)).temperature is None
    assert good(line({"temperature": 0})).temperature == 0
    assert error(line({"temperature": False}), Asking(is_greedy=True)).code == "E_FIELD"


def test_any_model_is_answered_for_where_nobody_says_which_one_there_is() -> None:
    assert good(line({"model": "any"}), Asking()).model == "any"


def test_a_second_line_of_one_name_is_an_error_and_keeps_its_name() -> None:
    first, second, third, other = read(line(), line({"n": 2}), line({"n": 2}), line(custom_id="r"))
    assert isinstance(first, BatchRequest) and isinstance(other, BatchRequest)
    assert [each.error.code for each in (second, third)] == ["E_DUPLICATE_ID"] * 2
    assert [each.custom_id for each in (second, third)] == ["q", "q"]
    assert len({each.id for each in (first, second, third)}) == 3


def jsonl(*lines: bytes) -> io.BytesIO:
    return io.BytesIO(b"\n".join(lines) + b"\n")


def test_lines_that_are_no_objects_deep_or_too_long_leave_the_others_alone() -> None:
    one, two = (json.dumps(line(custom_id=name)).encode() for name in "ab")
    deep = b'{"custom_id":"d","body":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    nested = b'{"custom_id":"e","body":' + b"[" * 200 + b"]" * 200 + b"}"
    lines = [one, b"prompt", b"[]", deep, nested, b'{"custom_id":"l"' + b" " * 300_000, two, b""]
    lines += [b"\xff{", one[:-1] + b',"url":"/v1/completions"}']
    stats = SourceStats()
    limits = InputLimits(max_line_bytes=1 << 18)
    found = list(read_requests([jsonl(*lines)], ASKING, limits=limits, stats=stats))
    codes = [each.error.code if isinstance(each, BadRequest) else each.id for each in found]
    assert codes == [
        "a", "E_JSON", "E_JSON", "E_JSON", "E_JSON", "E_LINE_TOO_LONG", "b", "E_ENCODING", "E_JSON"
    ]  # fmt: skip
    assert stats.blank == 1
    assert [each.custom_id for each in found if isinstance(each, BadRequest)] == [None] * 7


def test_integers_beyond_64_bits_are_not_read_as_others() -> None:
    data = json.dumps(line({"metadata": {"k": 0}})).replace('"k": 0', '"k": 18446744073709551617')
    (found,) = read_requests([jsonl(data.encode())], ASKING)
    assert isinstance(found, BadRequest) and found.error.details["field"] == "body"


def test_an_empty_file_gets_a_notice() -> None:
    stats = SourceStats()
    assert list(read_requests([io.BytesIO(b"\n")], ASKING, stats=stats)) == []
    assert [notice.code for notice in stats.notices] == ["W_NO_INPUT"]


def test_shards_are_told_by_custom_ids() -> None:
    data = [json.dumps(line(custom_id=f"q{i}")).encode() for i in range(20)]
    parts = [
        [each.id for each in read_requests([jsonl(*data)], ASKING, shard=Shard(i, 3))]
        for i in (1, 2, 3)
    ]
    assert sorted(str(name) for part in parts for name in part) == sorted(
        f"q{i}" for i in range(20)
    )
    assert all(Shard(2, 3).has(name) for name in parts[1])
