"""Texts of records that end at the first of some texts."""

from __future__ import annotations

from typing import Any

import pytest

from cdec.compilers.one_line import regex
from cdec.core.errors import FieldError
from cdec.integrations.records.sampling import RecordSampler, sample_records

PROMPT = "What is the capital of France?"
DIGITS = regex("[0-9]{6,9}")
RECORDS = [{"id": n, "prompt": PROMPT} for n in range(6)]
WHOLE_DRAW = ("token_ids", "logprob", "log_weight", "log_candidate_weight", "finish_reason", "seed")


def drawn(more: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"artifact": DIGITS, "method": "masked", "n": 3} | settings
    return list(sample_records([record | more for record in RECORDS], **given))


def test_a_text_ends_at_the_first_of_them_and_all_else_is_of_the_whole_draw() -> None:
    whole, cut = drawn({}), drawn({"stop": ["7", "23", "2"]})
    found = 0
    for before, after in zip(whole, cut, strict=True):
        text = before["text"]
        places = {text.find(stop): stop for stop in ("7", "2", "23") if stop in text}
        assert [before[name] for name in WHOLE_DRAW] == [after[name] for name in WHOLE_DRAW]
        if not places:
            assert (after["text"], after["stop"], after["valid"]) == (text, None, True)
            continue
        found += 1
        first = min(places)
        # Of two that begin at one place the one that was given first.
        assert after["stop"] == places[first]
        assert after["text"] == text[:first] and after["valid"] == (first >= 6)
    assert found and "stop" not in whole[0]


def test_a_text_alone_is_one_of_them_and_none_is_none() -> None:
    one = drawn({"stop": "5"})
    assert [each["text"] for each in one] == [each["text"] for each in drawn({"stop": ["5"]})]
    assert all("5" not in each["text"] for each in one)
    assert all("stop" not in each for each in drawn({"stop": []}))


def test_stops_may_lie_across_tokens_and_hold_any_letters() -> None:
    given = {"artifact": regex("(ab\u00e9){3}"), "n": 1}
    for each in drawn({"stop": "\u00e9a"}, **given):
        assert (each["text"], each["stop"], each["valid"]) == ("ab", "\u00e9a", False)


def test_without_a_constraint_texts_are_cut_too() -> None:
    settings = {"artifact": None, "method": "unconstrained", "max_new_tokens": 12}
    whole, cut = drawn({}, **settings), drawn({"stop": "a"}, **settings)
    for before, after in zip(whole, cut, strict=True):
        assert after["text"] == before["text"].partition("a")[0]


@pytest.mark.parametrize("stop", [3, [""], ["a"] * 17, {"a": 1}, None])
def test_what_is_no_stop_is_refused(stop: Any) -> None:
    (record,) = sample_records([{"prompt": PROMPT, "stop": stop}], artifact=DIGITS, method="greedy")
    assert (record["error"]["code"], record["error"]["field"]) == ("E_FIELD", "stop")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"after": ":", "budget": 2}, "free text"),
        ({"tools": [{"name": "now"}], "tool_choice": "now"}, "call of a tool"),
    ],
)
def test_texts_that_cannot_be_cut_are_refused(more: dict[str, Any], said: str) -> None:
    record = {"prompt": PROMPT, "stop": "1", **more}
    settings: dict[str, Any] = {"tool_style": "json", "method": "greedy"}
    if "after" in more:
        settings["artifact"] = DIGITS
    else:
        record["messages"] = [{"role": "user", "content": record.pop("prompt")}]
    (found,) = sample_records([record], **settings)
    assert said in found["error"]["message"] and found["error"]["field"] == "stop"


def test_a_text_that_is_streamed_is_not_cut() -> None:
    with RecordSampler(artifact=DIGITS, method="masked") as sampler:
        (read,) = sampler.checked([{"prompt": PROMPT, "stop": "1"}])
        (task,) = sampler.tasks(is_streamed=True).of([read])
        assert task is not None and isinstance(task.request, FieldError)
        assert "while it grows" in task.request.message
