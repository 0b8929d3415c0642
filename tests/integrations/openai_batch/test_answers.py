"""Requests of batch files are answered: the samples of records, in the form of responses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_token_set
from cdec.core import TabularModel, Vocabulary
from cdec.core.combine.free_text import FreeText
from cdec.core.errors import CdecError, ChatTemplateMissingError, UsageError
from cdec.core.seeds import derive_seed
from cdec.integrations.openai_batch import answer_batch
from cdec.integrations.records import sample_records
from cdec.samplers.registry import METHODS

ROWS = [[0], [0, 1], [2, 0], [2, 1, 0], [1, 2], [1, 2, 2]]
TEXTS = {"a", "ab", "éa", "éba", "bé", "béé"}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Where?"}]
P = [0.5, 0.125, 0.125, 0.25]


class Letters(TabularModel):
    """One law at every step; prompts are as long as their texts, and chats may be refused."""

    def __init__(self, *, takes_chats: bool = True) -> None:
        super().__init__(lambda prefix: P, Vocabulary([b"a", b"b", "é".encode(), b""], [3], [3]))
        self._takes_chats = takes_chats

    def encode_prompt(self, prompt: Any) -> list[int]:
        if not isinstance(prompt, str) and isinstance(prompt[0], Mapping):
            if not self._takes_chats:
                raise ChatTemplateMissingError("no template", hint="take another model")
            return [0] * 7
        return [0] * len(prompt)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("letters") / "letters.arrow"
    compile_token_set(ROWS, Letters().vocabulary, path)
    return path


def chat(name: str, **body: Any) -> dict[str, Any]:
    return {
        "custom_id": name,
        "method": "POST",
        "url": CHAT,
        "body": {"messages": MESSAGES} | body,
    }


def text(name: str, prompt: object = "Where?", **body: Any) -> dict[str, Any]:
    return {"custom_id": name, "method": "POST", "url": TEXT, "body": {"prompt": prompt} | body}


def body_of(line: dict[str, Any]) -> Any:
    assert line["error"] is None, line
    assert line["response"]["status_code"] == 200
    return line["response"]["body"]


def test_samples_are_those_of_records_with_the_same_prompts(letters: Path) -> None:
    common: dict[str, Any] = {"method": "masked", "artifact": letters, "n": 2, "seed": 5}
    requests = [chat("a", n=3, temperature=0.5), text("b", seed=9), chat("c", max_tokens=1)]
    records = [
        {"id": "a", "messages": MESSAGES, "n": 3, "temperature": 0.5},
        {"id": "b", "prompt": "Where?", "seed": 9},
        {"id": "c", "messages": MESSAGES, "max_tokens": 1},
    ]
    drawn = list(sample_records(records, Letters(), **common))
    lines = list(answer_batch(requests, Letters(), **common))
    assert [line["custom_id"] for line in lines] == ["a", "b", "c"]
    ends = {"complete": "stop", "length": "length"}
    found = [(line, choice) for line in lines for choice in body_of(line)["choices"]]
    assert len(found) == len(drawn) == 7
    for sample, (line, choice) in zip(drawn, found, strict=True):
        own = {name: sample.pop(name) for name in ("id", "index", "text")}
        said = choice["message"]["content"] if "message" in choice else choice["text"]
        assert own == {"id": line["custom_id"], "index": choice["index"], "text": said}
        assert choice["finish_reason"] == ends[sample["finish_reason"]]
        sample.pop("schema_version")
        assert choice["cdec"] == sample


def test_a_temperature_of_0_takes_the_best_tokens_whatever_the_method(letters: Path) -> None:
    common: dict[str, Any] = {"artifact": letters, "n": 2}
    requests = [text("zero", temperature=0), text("one")]
    zero, one = answer_batch(requests, Letters(), method="masked", **common)
    best = list(sample_records([{"prompt": "Where?"}], Letters(), method="greedy", **common))
    assert [choice["text"] for choice in body_of(zero)["choices"]] == [s["text"] for s in best]
    assert {choice["cdec"]["method"] for choice in body_of(zero)["choices"]} == {"greedy"}
    assert {choice["cdec"]["method"] for choice in body_of(one)["choices"]} == {"masked"}


def test_a_response_has_the_form_that_clients_read(letters: Path) -> None:
    settings: dict[str, Any] = {"method": "masked", "artifact": letters, "served_name": "tiny"}
    one, two = answer_batch([chat("a", n=2), text("b", model="tiny")], Letters(), **settings)
    body = body_of(one)
    assert set(one) == {"id", "custom_id", "response", "error"}
    assert set(one["response"]) == {"status_code", "request_id", "body"}
    assert (body["object"], body["model"]) == ("chat.completion", "tiny")
    assert body["id"].startswith("chatcmpl-") and isinstance(body["created"], int)
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    for choice in body["choices"]:
        assert choice["message"] == {
            "role": "assistant",
            "content": choice["message"]["content"],
            "refusal": None,
        }
        assert choice["message"]["content"] in TEXTS and choice["logprobs"] is None
    tokens = sum(len(choice["cdec"]["token_ids"]) for choice in body["choices"])
    assert body["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": tokens,
        "total_tokens": 7 + tokens,
    }
    body = body_of(two)
    assert (body["object"], body["usage"]["prompt_tokens"]) == ("text_completion", 6)
    assert set(body["choices"][0]) == {"index", "text", "logprobs", "finish_reason", "cdec"}
    again = answer_batch([chat("a", n=2)], Letters(), **settings)
    assert next(again)["id"] == one["id"]


def test_several_prompts_are_choices_in_their_order(letters: Path) -> None:
    settings: dict[str, Any] = {"method": "masked", "artifact": letters}
    for size in (1, 2, 16):
        (line,) = answer_batch(
            [text("p", ["a", "bb", "ccc"], n=2)], Letters(), batch_size=size, **settings
        )
        body = body_of(line)
        assert [choice["index"] for choice in body["choices"]] == list(range(6))
        seeds = [choice["cdec"]["seed"] for choice in body["choices"]]
        assert seeds == [derive_seed(0, "p", index) for index in range(6)]
        assert body["usage"]["prompt_tokens"] == 6
    (alone,) = answer_batch([text("p", "a", n=2)], Letters(), **settings)
    first = [choice["text"] for choice in body["choices"][:2]]
    assert [choice["text"] for choice in body_of(alone)["choices"]] == first


def test_each_token_comes_with_its_probability_and_with_what_else_there_was(
    letters: Path,
) -> None:
    requests = [chat("a", logprobs=True, top_logprobs=2), text("b", logprobs=3), chat("c")]
    settings: dict[str, Any] = {"method": "masked", "artifact": letters}
    one, two, three = answer_batch(requests, Letters(), **settings)
    (choice,) = body_of(one)["choices"]
    listed = choice["logprobs"]["content"]
    assert "".join(token["token"] for token in listed) == choice["message"]["content"]
    for token in listed:
        law = dict(zip("abé", P, strict=False))
        assert token["logprob"] == pytest.approx(math.log(law[token["token"]]))
        assert bytes(token["bytes"]).decode() == token["token"]
        best = [(each["token"], each["logprob"]) for each in token["top_logprobs"]]
        # The end of the text is an event without bytes.
        assert best == [("a", pytest.approx(math.log(0.5))), ("", pytest.approx(math.log(0.25)))]
    ends = 0 if choice["finish_reason"] == "length" else math.log(0.25)
    total = sum(token["logprob"] for token in listed) + ends
    assert choice["cdec"]["logprob"] == pytest.approx(total)
    (choice,) = body_of(two)["choices"]
    said = choice["logprobs"]
    assert "".join(said["tokens"]) == choice["text"]
    assert [choice["text"][at:][:1] for at in said["text_offset"]] == said["tokens"]
    assert all(len(each) == 3 for each in said["top_logprobs"])
    assert body_of(three)["choices"][0]["logprobs"] is None
    plain = answer_batch([chat("a"), text("b"), chat("c")], Letters(), **settings)
    for line, other in zip((one, two, three), plain, strict=True):
        for each, same in zip(body_of(line)["choices"], body_of(other)["choices"], strict=True):
            assert each["cdec"]["token_ids"] == same["cdec"]["token_ids"]


def test_tokens_that_pad_the_models_scores_are_listed_without_bytes(letters: Path) -> None:
    vocabulary = Letters().vocabulary.with_width(6)
    model = TabularModel(lambda prefix: [0.2, 0.1, 0.1, 0.2, 0.1, 0.3], vocabulary)
    requests = [text("a", logprobs=1)]
    (line,) = answer_batch(requests, model, method="masked", artifact=letters)
    said = body_of(line)["choices"][0]["logprobs"]
    best = [{"": pytest.approx(math.log(0.3))}] * len(said["tokens"])
    assert said["tokens"] and said["top_logprobs"] == best


def test_a_nucleus_of_its_own_changes_the_law_of_that_request_alone(letters: Path) -> None:
    requests = [text("a", top_p=0.1, n=4), text("b", n=4), text("c", top_p=1, n=4)]
    lines = list(answer_batch(requests, Letters(), method="unconstrained", top_p=0.5))
    laws = [{choice["cdec"]["logprob"] for choice in body_of(line)["choices"]} for line in lines]
    assert laws[0] == laws[1] == {None}  # only a is left, and such a text never ends
    assert laws[2] != {None}


def test_constraints_come_by_registered_name_and_lose_texts(letters: Path) -> None:
    requests = [
        chat("a", cdec={"artifact": "letters", "candidates": ["a", "ab", "bé"], "deny": ["ab"]}),
        chat("b", cdec={"artifact": "letters", "deny": ["a", "ab", "éa", "éba", "bé"]}),
        chat("c", cdec={"artifact": "letters", "deny": sorted(TEXTS)}),
        chat("d", cdec={"artifact": "letters", "candidates": ["aaa"]}),
        chat("e", cdec={"artifact": str(letters)}),
        chat("f"),
    ]
    settings: dict[str, Any] = {"method": "masked", "n": 20, "constraint": {"letters": letters}}
    lines = list(answer_batch(requests, Letters(), **settings))
    texts = [
        {choice["message"]["content"] for choice in body_of(line)["choices"]}
        for line in lines
        if line["error"] is None
    ]
    assert texts == [{"a", "bé"}, {"béé"}]
    errors = {line["custom_id"]: line["error"]["code"] for line in lines if line["error"]}
    assert errors == {"c": "E_EMPTY_SET", "d": "E_FIELD", "e": "E_FIELD", "f": "E_FIELD"}


def test_an_error_stands_in_its_place_in_both_forms_that_clients_read(letters: Path) -> None:
    requests = [chat("a", stream=True), chat("b"), {"custom_id": 7}, chat("b", n=2)]
    lines = list(answer_batch(requests, Letters(), method="masked", artifact=letters))
    assert [line["custom_id"] for line in lines] == ["a", "b", None, "b"]
    assert len({line["id"] for line in lines}) == 4
    body_of(lines[1])
    for line in lines[:1] + lines[2:]:
        assert line["response"]["status_code"] == 400
        said = line["response"]["body"]["error"]
        assert said["code"] == line["error"]["code"]
        assert said["param"] == line["error"].get("field")
        assert said["type"] == "invalid_request_error"
        assert said["message"].startswith(line["error"]["message"])


def test_what_all_chats_miss_is_the_error_of_each_and_of_no_text(letters: Path) -> None:
    requests = [chat("a"), text("b"), chat("c", cdec={"artifact": "letters"})]
    model = Letters(takes_chats=False)
    settings = {"artifact": letters, "constraint": {"letters": letters}, "method": "masked"}
    one, two, three = answer_batch(requests, model, **settings)
    assert body_of(two)["choices"]
    for line in (one, three):
        assert (line["error"]["code"], line["error"]["field"]) == ("E_FIELD", "messages")


def test_a_fault_of_the_model_is_a_servers_error_of_one_request(
    letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Letters()
    encode = model.encode_prompt

    def broken(prompt: Any) -> list[int]:
        if prompt == "bad":
            raise ZeroDivisionError
        return encode(prompt)

    monkeypatch.setattr(model, "encode_prompt", broken)
    requests = [text("a"), text("b", ["fine", "bad"]), text("c")]
    lines = list(answer_batch(requests, model, method="masked", artifact=letters))
    assert [line["response"]["status_code"] for line in lines] == [200, 500, 200]
    assert lines[1]["response"]["body"]["error"]["type"] == "server_error"


def test_fields_are_those_of_the_choices_and_strict_raises(letters: Path) -> None:
    settings: dict[str, Any] = {"method": "masked", "artifact": letters}
    (line,) = answer_batch([chat("a")], Letters(), fields=["logprob", "text"], **settings)
    assert set(body_of(line)["choices"][0]["cdec"]) == {"logprob"}
    with pytest.raises(CdecError, match="stream"):
        list(answer_batch([chat("a", stream=True)], Letters(), strict=True, **settings))


def test_traces_come_before_their_answers_and_after_free_text(letters: Path) -> None:
    lines: list[Mapping[str, object]] = []
    settings: dict[str, Any] = {"method": "masked", "artifact": letters, "trace": lines.append}
    free = FreeText(after=("b",), budget=6)
    requests = [chat("a", n=2), text("b", logprobs=2)]
    one, two = answer_batch(requests, Letters(), free=free, **settings)
    tokens = {(line["id"], line["index"]) for line in lines}
    assert tokens == {("a", 0), ("a", 1), ("b", 0)}
    assert len(body_of(one)["choices"]) == 2
    (choice,) = body_of(two)["choices"]
    assert len(choice["logprobs"]["tokens"]) == len(choice["cdec"]["token_ids"])


def test_settings_that_mean_nothing_here_are_refused(letters: Path) -> None:
    for wrong in ({"allow": ["python"]}, {"strict_fields": True}):
        with pytest.raises(UsageError):
            list(answer_batch([chat("a")], Letters(), artifact=letters, **wrong))


def test_requests_are_read_as_they_come(letters: Path) -> None:
    endless = (text(f"q{number}") for number in itertools.count())
    answers = answer_batch(endless, Letters(), method="masked", artifact=letters, batch_size=2)
    assert [line["custom_id"] for line in itertools.islice(answers, 5)] == [
        f"q{number}" for number in range(5)
    ]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_line_by_line(letters: Path, name: str) -> None:
    method, settings = METHODS[name], dict[str, Any]()
    if method.needs_draft:
        settings["draft"] = Letters()
    if method.needs_reward:
        settings["reward"] = "regex:a"
    if method.option("max_evaluations") is not None:
        settings["max_evaluations"] = 50
    requests = [
        text("several", ["x", "y"], n=2, logprobs=5),
        chat("many", n=10),
        chat("cold", temperature=1e-300, top_p=0.5),
        chat("long", max_tokens=2**31 - 1, seed=2**63 - 1),
        chat("too long", max_tokens=2**31),
        chat("stopped", stop=["c"]),
    ]
    lines = list(
        answer_batch(
            requests, Letters(), method=name, artifact=letters, max_new_tokens=4, **settings
        )
    )
    refused = {line["custom_id"] for line in lines if line["error"] is not None}
    # A beam search finds no more texts than it has beams.
    assert refused - {"many" if name == "beam" else ""} == {"too long"}
    choices = body_of(lines[0])["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert all(choice["logprobs"]["tokens"] for choice in choices if choice["text"])
