"""Chat templates on the command line: arguments of the run and of records, hostile templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Runner, jsonl
from tests.core.models.chat_models import CALL, END_CALL, END_THINK, byte_tokenizer, chat_model

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
WORDS = ("sample", "--choices", "yes,no", "--method", "masked", "--fields", "id,logprob,input")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("chat"))


def test_the_template_is_told_what_the_run_and_the_record_say(cdec: Runner, model: Path) -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    records = jsonl(
        {"id": 1, "messages": [USER], "seed": 1},
        {"id": 2, "messages": [USER], "seed": 1, **off},
        {"id": 3, "messages": [USER], "seed": 1, "tools": [TOOL]},
    )
    plain = [r["logprob"] for r in cdec(*WORDS, "-m", model, stdin=records).records]
    assert len(set(plain)) == 3
    switched = ("--template-args", '{"enable_thinking": false}')
    told = [r["logprob"] for r in cdec(*WORDS, "-m", model, *switched, stdin=records).records]
    assert told[0] == pytest.approx(plain[1], abs=1e-4)
    assert told[1] == pytest.approx(plain[1], abs=1e-4)


def test_a_prompt_that_is_a_text_has_no_template_to_tell(cdec: Runner, model: Path) -> None:
    records = jsonl({"id": 1, "prompt": "hi", "tools": [TOOL]})
    ran = cdec(*WORDS, "-m", model, stdin=records)
    (refused,) = ran.records
    assert (ran.status, refused["error"]["code"], refused["error"]["field"]) == (
        3,
        "E_FIELD",
        "tools",
    )
    assert "logprob" in cdec(*WORDS, "-m", model, "--chat", stdin=records).records[0]


@pytest.mark.parametrize("text", ["{", "[]", '{"messages": []}', '{"tools": 1}'])
def test_arguments_that_are_none_are_refused_before_a_model_is_loaded(
    cdec: Runner, text: str
) -> None:
    ran = cdec(*WORDS, "-m", "no/such", "--template-args", text, "--prompt", "x")
    assert (ran.status, ran.error_code) == (2, "E_USAGE")
    assert "--template-args" in ran.stderr


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("{% if stop %}{{ raise_exception('no') }}{% endif %}x", "E_FIELD"),
        ("{% if stop %}{{ messages.__class__.__mro__ }}{% endif %}x", "E_FIELD"),
        pytest.param(
            "{% if stop %}{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}"
            "{% endfor %}{% endif %}x",
            "E_LIMIT",
            # tests/core/models/test_template_arguments.py has one that never ends.
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_template_that_fails_one_record_fails_that_record_alone(
    cdec: Runner, tmp_path: Path, template: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdec.core.models.chat_templates.MAX_SECONDS", 1.0)
    model = chat_model(tmp_path / "model", template)
    records = jsonl(
        {"id": 1, "messages": [USER], "chat_template_kwargs": {"stop": True}},
        {"id": 2, "messages": [USER]},
    )
    ran = cdec(*WORDS, "-m", model, stdin=records)
    refused, drawn = ran.records
    assert (ran.status, refused["error"]["code"]) == (3, code)
    assert "logprob" in drawn


def test_special_tokens_are_markers(cdec: Runner, model: Path) -> None:
    words = ("sample", "--choices", "yes,no", "--method", "masked", "-m", model, "--prompt", "x")
    kept = ("--fields", "text,free_text,free_tokens,marker,valid,regions,token_ids")
    after = ("--after", "</think>\n", "--budget", "5", "-n", "4")
    for record in cdec(*words, *kept, *after).records:
        assert (record["marker"], record["valid"]) == ("</think>\n", True)
        place = record["free_tokens"]
        assert record["token_ids"][place - 2 : place] == [END_THINK, ord_token("\n")]
    between = ("--between", "<tool_call>", "</tool_call>", "--regions", "1", "--budget", "3")
    for record in cdec(*words, *kept, *between, "--max-new-tokens", "60", "-n", "4").records:
        ids = record["token_ids"]
        for region in record["regions"]:
            assert region["text"] in ("yes", "no")
            first = region["first_token"]
            assert (ids[first - 1], ids[first + region["tokens"] - 1]) == (CALL, END_CALL)
    refused = cdec(*words, "--after", "<|end|>")
    assert (refused.status, refused.error_code) == (2, "E_USAGE")


def ord_token(text: str) -> int:
    return int(byte_tokenizer()(text)["input_ids"][0])


THINKING = ("sample", "--choices", "yes,no", "--method", "masked", "-n", "3")
SHOWN = ("--fields", "text,free_text,free_tokens,forced,marker,valid,token_ids,logprob,log_weight")


def test_a_model_thinks_as_long_as_it_may(cdec: Runner, model: Path) -> None:
    records = jsonl({"id": 1, "messages": [USER]})
    for tokens in (0, 4):
        words = (*THINKING, "-m", model, *SHOWN, "--thinking", str(tokens))
        for record in cdec(*words, stdin=records).records:
            free = record["free_tokens"]
            assert free <= tokens + 3 and record["valid"] and record["logprob"] is not None
            # The template has two line breaks behind the end of the thinking.
            assert record["token_ids"][free - 3] == END_THINK
            assert (record["marker"], record["free_text"][-2:]) == ("</think>\n\n", "\n\n")


def test_thinking_is_switched_off_as_the_template_has_it(cdec: Runner, model: Path) -> None:
    records = jsonl({"id": 1, "messages": [USER]})
    words = (*THINKING, "-m", model, "--fields", "text,logprob")
    off = cdec(*words, "--thinking", "off", stdin=records).records
    told = cdec(*words, "--template-args", '{"enable_thinking": false}', stdin=records).records
    assert [r["text"] for r in off] == [r["text"] for r in told]
    assert [r["logprob"] for r in off] == pytest.approx([r["logprob"] for r in told], abs=1e-4)
    # A record's own word goes before.
    own = jsonl({"id": 1, "messages": [USER], "chat_template_kwargs": {"enable_thinking": False}})
    mixed = cdec(*words, "--thinking", "4", stdin=own).records
    assert [r["text"] for r in mixed] == [r["text"] for r in told]


def test_thinking_comes_before_tagged_regions(cdec: Runner, model: Path) -> None:
    records = jsonl({"id": 1, "messages": [USER]})
    words = (*THINKING, "-m", model, "--thinking", "3", "--max-new-tokens", "80")
    between = ("--between", "<tool_call>", "</tool_call>", "--regions", "1", "--budget", "4")
    kept = ("--fields", "thinking_tokens,free_tokens,regions,token_ids")
    for record in cdec(*words, *between, *kept, stdin=records).records:
        assert record["token_ids"][record["thinking_tokens"] - 1] == END_THINK
        for region in record["regions"]:
            assert region["first_token"] > record["thinking_tokens"]
            assert record["token_ids"][region["first_token"] - 1] == CALL


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--thinking", "much"), "--thinking is 'much'"),
        (("--thinking", "-1"), "--thinking is '-1'"),
        (("--thinking-tags", "a", "b"), "--thinking-tags"),
        (("--thinking", "5", "--prefill", "y"), "--prefill"),
        (("--thinking", "5", "--heal"), "--heal"),
    ],
)
def test_thinking_that_makes_no_sense_is_refused(
    cdec: Runner, model: Path, words: tuple[str, ...], said: str
) -> None:
    ran = cdec(*THINKING[:-2], "-m", model, *words, "--prompt", "x")
    assert (ran.status, ran.error_code) == (2, "E_USAGE")
    assert said in ran.stderr


def test_a_model_that_does_not_tell_how_it_thinks_is_told(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", "x", "--method", "masked", "--thinking", "2")
    refused = cdec(*words)
    assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert "give --thinking-tags" in refused.stderr
    (record,) = cdec(*words, "--thinking-tags", "<think>", "</think>").records
    assert record["free_text"].endswith("</think>") and record["valid"]
