"""Calls of tools: styles told by templates, choices, several calls, what is parsed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cdec.core.errors import CdecError, UsageError
from cdec.core.models.loading import load_model
from cdec.core.schemas.errors import SchemaInvalidError
from cdec.integrations.records.sampling import RecordSampler
from cdec.integrations.records.tools import STYLES, ToolCalls, style_of
from tests.core.models.chat_models import SPECIAL, byte_tokenizer, chat_model
from tests.core.models.tiny_models import VOCABULARY

UNIT = {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}}, "required": ["unit"]}
CITY = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}}}
TOOLS = [
    {"type": "function", "function": {"name": "heat", "parameters": {**UNIT, **_closed}}}
    for _closed in ({"additionalProperties": False},)
] + [{"type": "function", "function": {"name": "now"}}]
DEFINED = json.dumps(TOOLS)
CALLS = (
    {"name": "heat", "arguments": {"unit": "c"}},
    {"name": "heat", "arguments": {"unit": "f"}},
    {"name": "now", "arguments": {}},
)
WORDS = {
    "hermes": ("<|end|>", "<|start|>", "<tool_call>", "</tool_call>"),
    "mistral": ("</s>", "[TOOL_CALLS]"),
    "llama3": ("<|eot_id|>", "<|python_tag|>"),
    "json": ("</s>",),
    "qwen": ("<|end|>", "<|start|>", "<tool_call>", "</tool_call>"),
    "harmony": (
        *("<|return|>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>"),
        "<|call|>",
    ),
    "pythonic": ("<|eot|>", "<|python_start|>", "<|python_end|>"),
}
TOLD = {"qwen": "{# <function=x> #}"}
"""What chat templates have that tells the style, where special tokens do not."""
USER = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    made = {}
    for style, special in WORDS.items():
        folder = tmp_path_factory.mktemp(style)
        template = "{% for t in tools %}{{ t.function.name }}{% endfor %}{{ messages[0].content }}"
        template += TOLD.get(style, "")
        made[style] = load_model(chat_model(folder, template, special))
    yield made


def drawn(
    model: Any,
    n: int = 6,
    record: dict[str, Any] | None = None,
    most: int = 150,
    **settings: Any,
) -> Any:
    """Return a sampler's samples of one record, and what held them."""
    from cdec.data.prompts.read import PromptRecord, prompts_from_records

    with RecordSampler(model, "masked", n=n, max_new_tokens=most, **settings) as sampler:
        (read,) = prompts_from_records([{"messages": [USER], "id": 1, **(record or {})}])
        assert isinstance(read, PromptRecord), read
        task = next(iter(sampler.tasks().of([read])))
        if isinstance(task.request, CdecError):
            raise task.request
        (found,) = sampler.work(None)([task])
        if isinstance(found, CdecError):
            raise found
        return found, sampler.resolver.calls_of(read)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.share(2)
def test_required_calls_are_drawn_as_the_style_writes_them(
    style: str, parallel: bool, models: dict[str, Any]
) -> None:
    told = None if style != "json" else "json"
    tools = ToolCalls(DEFINED, "required", told, parallel)
    samples, held = drawn(models[style], most=300 if style == "qwen" else 150, tools=tools)
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended
    for sample in ended:
        calls = held.calls(sample)
        assert sample.valid and calls and all(call in CALLS for call in calls)
        assert parallel or len(calls) == 1
        spelt = models[style].vocabulary.decode(sample.token_ids).decode("utf-8", "replace")
        if style == "hermes":
            assert spelt.startswith("\n{")
            assert sample.token_ids[0] == 258
            if not parallel:  # the text ends with its call
                assert sample.token_ids[-1] == 259 and held.content(sample) == ""
        if style == "mistral":
            assert sample.token_ids[0] == 257 and spelt.startswith("[")
        if style == "llama3":
            assert json.loads(spelt).keys() == {"name", "parameters"}
        if style == "json":
            assert isinstance(json.loads(spelt), list if parallel else dict)
        if style == "qwen":
            assert sample.token_ids[0] == 258 and spelt.startswith("\n<function=")
        if style == "harmony":
            assert sample.token_ids[0] == 259 and spelt.startswith("commentary to=functions.")
            assert len(calls) == 1 and sample.token_ids[-1] == 262
        if style == "pythonic":
            assert spelt.startswith("[") and len(ast.parse(spelt).body[0].value.elts) == len(calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("style", sorted(STYLES.keys() - {"json"}))
@pytest.mark.share(2)
def test_texts_may_call_or_not(style: str, models: dict[str, Any]) -> None:
    tools = ToolCalls(DEFINED, "auto")
    samples, held = drawn(models[style], n=16, tools=tools)
    ended = [s for s in samples if s.finish_reason == "complete"]
    found = [held.calls(sample) for sample in ended]
    assert any(not calls for calls in found)
    for sample, calls in zip(ended, found, strict=True):
        assert sample.valid and all(call in CALLS for call in calls)
        if style != "harmony" and not calls:
            assert held.content(sample) == (sample.text or "").strip()
        elif calls:
            assert calls[0]["name"] not in held.content(sample)


def test_a_name_is_the_only_function(models: dict[str, Any]) -> None:
    samples, held = drawn(models["hermes"], tools=ToolCalls(DEFINED, "now"))
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended and all(held.calls(s) == [CALLS[2]] for s in ended)
    with pytest.raises(SchemaInvalidError, match="no function 'cold'"):
        drawn(models["hermes"], tools=ToolCalls(DEFINED, "cold"))


def test_a_record_has_tools_and_a_choice_of_its_own(models: dict[str, Any]) -> None:
    record = {"tools": TOOLS[1:], "tool_choice": "required"}
    samples, held = drawn(models["hermes"], record=record)
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended and all(set(map(str, held.calls(s))) == {str(CALLS[2])} for s in ended)
    run = ToolCalls(DEFINED, "auto")
    _, held = drawn(models["hermes"], record={"tool_choice": "heat"}, tools=run)
    assert '"now"' not in held.schema
    samples, held = drawn(models["hermes"], record={"regex": "x", "tools": TOOLS}, tools=run)
    assert held is None and all(s.text in ("x", None) for s in samples)
    with pytest.raises(CdecError, match="there are none"):
        drawn(models["hermes"], record={"tool_choice": "auto"})


def test_the_template_is_told_of_the_tools(models: dict[str, Any]) -> None:
    told, plain = (
        drawn(models["hermes"], n=1, **more)[0][0].logprob
        for more in (
            {"tools": ToolCalls(DEFINED)},
            {"record": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}},
        )
    )
    assert told == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize(
    ("template", "special", "style"),
    [
        ("x[TOOL_CALLS]", ("</s>",), "mistral"),
        ("", SPECIAL, "hermes"),
        ("x<tool_call>", ("</s>",), "hermes"),
        ("x<|python_tag|>", ("</s>",), "llama3"),
        ("<tool_call>\n<function=x>", ("</s>",), "qwen"),
        ("", WORDS["harmony"], "harmony"),
        ("x<|python_start|>", ("</s>", "<|python_tag|>"), "pythonic"),
    ],
)
def test_the_style_is_told(template: str, special: tuple[str, ...], style: str) -> None:
    from cdec.core.tokens.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_tokenizer(byte_tokenizer(None, special))
    assert style_of(None, template, vocabulary) == (style, STYLES[style])


def test_a_model_that_does_not_tell_is_told() -> None:
    for template in ("", "<tool_call><arg_key>x"):
        with pytest.raises(UsageError, match="does not tell"):
            style_of(None, template, VOCABULARY)
    assert style_of("json", "", VOCABULARY)[1].begin is None
    with pytest.raises(UsageError, match="'xml'"):
        style_of("xml", "", VOCABULARY)


@pytest.mark.parametrize("style", ["json", "llama3", "pythonic"])
def test_calls_that_nothing_tells_from_text_are_required(style: str) -> None:
    class Model:
        chat_template, vocabulary = "", VOCABULARY

    with pytest.raises(UsageError, match="nothing tells calls"):
        ToolCalls(DEFINED, "auto", style).of(Model())  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{", "{}", '["a"]'])
def test_what_are_no_tools_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the tools are no"):
        assert ToolCalls(text).listed


def test_thinking_that_does_not_end_is_no_content(models: dict[str, Any]) -> None:
    tools = ToolCalls(DEFINED, "auto", parallel=True)
    on = {"thinking": "on", "thinking_tags": ("A", "never ends"), "tools": tools}
    (cut,), held = drawn(models["hermes"], n=1, **on)
    assert (cut.finish_reason, cut.thinking, held.content(cut)) == ("length", None, "")
    assert cut.text


def test_calls_of_harmony_come_behind_the_thinking(models: dict[str, Any]) -> None:
    """The turn begins anew between them, and nothing of the thinking is content."""
    model = models["harmony"]
    on = {"thinking": 3, "tools": ToolCalls(DEFINED, "now"), "n": 2}
    samples, held = drawn(model, **on)
    special = model.vocabulary.special_tokens
    for sample in samples:
        assert sample.finish_reason == "complete" and held.calls(sample) == [CALLS[2]]
        end = sample.token_ids.index(special["<|end|>"])
        assert sample.token_ids[end + 1] == special["<|start|>"] and end <= 3
        assert held.content(sample) == ""


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<|channel|>analysis<|message|>hm<|end|><|start|>a<|channel|>final<|message|>yes", "yes"),
        ("<|channel|>final<|message|>a<b", "a<b"),
        ("<|channel|>commentary<|message|>now<|end|>", "now"),
        ("<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>", ""),
        ("hm<|end|><|start|>assistant<|channel|>final<|message|>yes", "yes"),
        ("plain", "plain"),
    ],
)
def test_the_answer_of_channels_is_the_final_one(
    text: str, content: str, models: dict[str, Any]
) -> None:
    model = models["harmony"]
    special = model.vocabulary.special_tokens
    pieces = re.split("(" + "|".join(map(re.escape, special)) + ")", text)
    byte = {data: token for token, data in enumerate(model.vocabulary.token_bytes)}
    spelt = {piece: [byte[bytes([each])] for each in piece.encode()] for piece in pieces}
    ids = [token for p in pieces for token in ([special[p]] if p in special else spelt[p])]
    (sample, *_), held = drawn(model, n=1, tools=ToolCalls(DEFINED, "auto"))
    plain = model.vocabulary.decode(ids).decode()
    made = replace(sample, token_ids=tuple(ids), text=plain, diagnostics={"marker": None})
    assert held.content(made) == content
