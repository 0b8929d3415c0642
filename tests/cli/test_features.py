"""One-line sources, free text, tools, sets within, pieces and fit, wherever texts are drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.laws.rounding import near

from .conftest import Result, Runner, jsonl

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child", "in_turn")

PAGE = "Lyon lies on two rivers. The Rhône is the longer one."
TOWNS = {"T1": "Oslo", "T2": "Os", "T3": 'A "B"', "T4": "Zürich"}
CITY = {"type": "string", "x-cdec-set": "cities"}
HAS_CITY = {
    "type": "object",
    "properties": {"c": CITY},
    "required": ["c"],
    "additionalProperties": False,
}
COLOURED = {
    "type": "array",
    "items": {"$ref": "https://x.org/colour.json"},
    "minItems": 1,
    "maxItems": 2,
}
TOOL = {"type": "function", "function": {"name": "now"}}
DIGITS = ("--regex", "[0-9]{2}")


@dataclass(frozen=True)
class Feature:
    """What is asked, and how a sample shows that it was heard.

    Attributes:
        words: Of the command line, the source of the constraint first.
        shows: Says so of a sample's record.
        record: Fields of the record.
    """

    words: tuple[str, ...]
    shows: Callable[[Mapping[str, Any]], bool]
    record: Mapping[str, Any] = field(default_factory=dict)


def _member(*ids: str) -> Callable[[Mapping[str, Any]], bool]:
    def shows(sample: Mapping[str, Any]) -> bool:
        (member,) = sample["members"]
        return member["id"] in ids and json.loads(sample["text"])["c"] == TOWNS[member["id"]]

    return shows


def _free(sample: Mapping[str, Any]) -> bool:
    return sample["text"].isdecimal() and sample["free_text"].endswith(sample["marker"])


SETS = ("--schema", "sets.json", "--set", "cities=towns.arrow")
FEATURES = {
    "choices": Feature(("--choices", "red,green"), lambda s: s["text"] in ("red", "green")),
    "regex": Feature(DIGITS, lambda s: s["text"].isdecimal()),
    "schema": Feature(("--schema", "small.json"), lambda s: s["text"] in ("true", "false")),
    "grammar": Feature(("--grammar", "g.lark"), lambda s: s["text"] in ("ab", "abab")),
    "references": Feature(
        ("--schema", "refs.json", "--ref", "https://x.org/colour.json=colour.json"),
        lambda s: json.loads(s["text"])[0] in ("red", "blue"),
    ),
    "tools": Feature(
        ("--tools", "tools.json", "--tool-style", "json"),
        lambda s: json.loads(s["text"])["name"] == "now",
    ),
    "after": Feature((*DIGITS, "--after", ":", "--budget", "4"), _free),
    "between": Feature(
        (*DIGITS, "--between", "<", ">", "--regions", "1", "--budget", "4"),
        lambda s: len(s["regions"]) >= 1,
    ),
    "thinking": Feature(
        (*DIGITS, "--thinking", "4", "--thinking-tags", "<think>", "</think>"),
        _free,
    ),
    "set": Feature(SETS, _member(*TOWNS)),
    "candidates": Feature(SETS, _member("T4"), {"candidates": {"cities": ["T4"]}}),
    "denied": Feature(
        SETS, _member("T3"), {"candidates": {"cities": {"deny": ["Oslo", "Os", "Zürich"]}}}
    ),
    "pieces": Feature(
        ("--span-of", "page", "--span-whole", "words"),
        lambda s: PAGE[s["span"]["offset"] :][: s["span"]["length"]] == s["text"],
        {"page": PAGE},
    ),
    "fit": Feature(
        ("--regex", "[0-9]{2}-[0-9]+", "--fit", "--max-new-tokens", "6"),
        lambda s: s["fit"] == "exact" and s["finish_reason"] == "complete",
    ),
}
EACH = pytest.mark.parametrize("name", FEATURES)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files that the features name, the set among them compiled."""
    from cdec.compilers import compile_set
    from cdec.core.tokens.vocabulary import Vocabulary

    place = tmp_path_factory.mktemp("towns") / "towns.arrow"
    towns = [{"id": id, "text": text} for id, text in TOWNS.items()]
    compile_set(towns, Vocabulary.from_tokenizer("embedded"), place)
    texts = {
        "sets.json": json.dumps(HAS_CITY),
        "refs.json": json.dumps(COLOURED),
        "colour.json": '{"enum": ["red", "blue"]}',
        "small.json": '{"type": "boolean"}',
        "g.lark": 'start: "ab" "ab"?',
        "tools.json": json.dumps([TOOL]),
    }
    return {name: text.encode() for name, text in texts.items()} | {
        "towns.arrow": place.read_bytes()
    }


@pytest.fixture(autouse=True)
def _folder(cdec: Runner, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        Path(name).write_bytes(data)


def sampled(cdec: Runner, feature: Feature, *more: object) -> Result:
    """Draw two samples of one record."""
    words = ("sample", "--method", "masked", "-n", "2", "--max-new-tokens", "60")
    record = jsonl({"id": "q", "prompt": "A city:", **feature.record})
    return cdec(*words, *feature.words, *more, stdin=record)


@EACH
@pytest.mark.share(2)
def test_a_trace_adds_up_to_the_records(cdec: Runner, name: str) -> None:
    feature = FEATURES[name]
    result = sampled(cdec, feature, "--trace", "t.jsonl")
    assert result.status == 0, result.stderr
    for sample, traced in zip(
        result.records, cdec("trace", "t.jsonl", "--json").records, strict=True
    ):
        assert feature.shows(sample) and sample["valid"], sample
        events = len(sample["token_ids"]) + 1
        assert traced["events"] == events
        assert traced["logprob"] == near(sample["logprob"], events)
        assert traced["log_z_sum"] == near(sample["log_candidate_weight"], events)
    assert cdec("trace", "t.jsonl", "--html", "t.html").status == 0


COMPILERS = {
    "--regex": ("compile-regex",),
    "--schema": ("compile-schema",),
    "--grammar": ("compile-grammar",),
}


def _compiled(cdec: Runner, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a run with its source compiled beforehand, where it is a source."""
    source, text, *more = words
    if source == "--choices":
        Path("choices.txt").write_text(text.replace(",", "\n"))
        compiling: tuple[object, ...] = ("compile-set", "choices.txt")
    elif source in COMPILERS:
        compiling = (*COMPILERS[source], text)
    else:
        return words
    if "--ref" in more:
        at = more.index("--ref")
        compiling, more = (*compiling, *more[at : at + 2]), more[:at] + more[at + 2 :]
    assert cdec(*compiling, "-o", "x.arrow").status == 0
    return ("-a", "x.arrow", *more)


@EACH
@pytest.mark.share(2)
def test_workers_on_ray_draw_what_one_process_draws(cdec: Runner, name: str) -> None:
    feature = FEATURES[name]
    compiled = Feature(_compiled(cdec, feature.words), feature.shows, feature.record)
    alone = sampled(cdec, compiled)
    dealt = sampled(cdec, compiled, "-o", "out", "--engine", "ray")
    assert dealt.status == 0, dealt.stderr
    drawn = [json.loads(line) for line in Path("out/part-00000.jsonl").read_bytes().splitlines()]
    assert [(s["text"], s["seed"]) for s in drawn] == [
        (s["text"], s["seed"]) for s in alone.records
    ]
    assert len(drawn) == 2 and all(map(feature.shows, drawn))
    if compiled.words != feature.words:
        refused = sampled(cdec, feature, "-o", "other", "--engine", "ray")
        assert (refused.status, refused.error_code) == (2, "E_USAGE")
        assert f"{feature.words[0]} is compiled into the cache of this machine" in refused.stderr
        assert "-a" in refused.stderr


OF_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    name: {"schema": HAS_CITY, **FEATURES[name].record} for name in ("candidates", "denied")
}
"""What requests say of their constraint, where records say it in fields of their own."""


def answered(cdec: Runner, feature: Feature, asked: Mapping[str, Any] | None) -> Result:
    """Answer a request of a batch file twice."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "A city:"}], "n": 2}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
    words = [*("sample", "--openai-batch", "--method", "masked", "--max-new-tokens", "60")]
    words += feature.words
    if asked is not None:
        body["cdec"] = asked
        words[-len(feature.words) :] = [*feature.words[2:], "--allow", "schema"]
    return cdec(*words, stdin=jsonl({**line, "body": body}))


@EACH
@pytest.mark.share(5)
def test_requests_of_batch_files_are_answered_or_refused_by_name(cdec: Runner, name: str) -> None:
    feature = FEATURES[name]
    done = answered(cdec, feature, OF_REQUESTS.get(name))
    if name == "pieces":
        assert (done.status, done.error_code) == (2, "E_USAGE")
        assert "--span-of means nothing with --openai-batch" in done.stderr
        return
    assert done.status == 0, done.stderr
    (line,) = done.records
    for choice in line["response"]["body"]["choices"]:
        message = choice["message"]
        text = message["content"]
        if "tool_calls" in message:
            (call,) = message["tool_calls"]
            text = json.dumps(call["function"])
        assert feature.shows({**choice["cdec"], "text": text}), choice


# --- What nobody should ask, and what changes while it is asked.

ZERO = {
    "thinking": ((*DIGITS, "--thinking", "0", "--thinking-tags", "<t>", "</t>"), {}),
    "budget": ((*DIGITS, "--after", ":", "--budget", "0"), {}),
    "the record's budget": ((*DIGITS, "--after", ":"), {"budget": 0}),
    "regions": ((*DIGITS, "--between", "<", ">", "--regions", "1", "--budget", "0"), {}),
}


@pytest.mark.parametrize("name", ZERO)
def test_a_budget_of_nothing_forces_the_marker_at_once(cdec: Runner, name: str) -> None:
    words, record = ZERO[name]
    result = sampled(cdec, Feature(words, bool, record))
    assert result.status == 0, result.stderr
    for sample in result.records:
        assert sample["forced"] and sample["valid"], sample
        marker = {"thinking": "</t>", "regions": "<"}.get(name, ":")
        held = sample["text"] if name == "regions" else sample["free_text"]
        assert held.startswith(marker)


@pytest.mark.parametrize("kept", [True, False])
def test_a_set_that_was_damaged_is_refused_though_its_texts_are_kept(
    cdec: Runner, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("cdec.core.sets.spelled._FEW_BYTES", 0)
    if kept:
        assert sampled(cdec, FEATURES["set"]).status == 0
        assert list((tmp_path / "cache" / "spelled").iterdir())
    data = bytearray(Path("towns.arrow").read_bytes())
    data[len(data) // 2] ^= 1
    Path("towns.arrow").unlink()
    Path("towns.arrow").write_bytes(data)
    refused = sampled(cdec, FEATURES["set"])
    assert (refused.status, refused.error_code) == (65, "E_ARTIFACT_CHECKSUM"), refused.stderr
