"""Texts that end within a number of tokens on the command line and in Python."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts.opened import open_artifact
from cdec.core.combine import fitting
from cdec.core.errors import UsageError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.integrations.records import RecordSampler
from cdec.samplers import sample
from tests.cli.conftest import Runner, jsonl, refused

ASKED = "What is the capital of France?"
WORDS = ("--raw", "--method", "masked", "--fit", "--max-new-tokens")


def lengths_of(artifact: Path, model: Any) -> list[int]:
    """Return how many tokens each member has, ascending."""
    constraint: Any = open_artifact(artifact, vocabulary=model.vocabulary)
    _, offsets = constraint.member_rows()
    return sorted((offsets[1:] - offsets[:-1]).tolist())


@pytest.mark.usefixtures("loaded")
def test_every_text_ends_within_the_tokens_that_the_run_or_its_record_allows(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    lengths = lengths_of(cities, embedded_model)
    shortest, longest = lengths[0], lengths[-1]
    assert shortest + 1 < longest
    records = jsonl(
        {"id": 1, "prompt": ASKED, "n": 20},
        {"id": 2, "prompt": ASKED, "n": 20, "max_tokens": shortest},
        {"id": 3, "prompt": ASKED, "max_tokens": shortest - 1},
    )
    free = cdec("sample", "-a", cities, *WORDS[:3], "--max-new-tokens", longest - 1, stdin=records)
    assert "length" in {record.get("finish_reason") for record in free.records}
    result = cdec("sample", "-a", cities, *WORDS, longest - 1, stdin=records)
    *drawn, failed = result.records
    for record in drawn:
        most = shortest if record["id"] == 2 else longest - 1
        assert (record["finish_reason"], record["fit"]) == ("complete", "exact"), record
        assert record["valid"] and len(record["token_ids"]) <= most
    assert failed["error"]["code"] == "E_FIT"
    assert (failed["error"]["shortest"], failed["error"]["limit"]) == (shortest, shortest - 1)
    assert result.status == 3
    apart = cdec("sample", "-a", cities, *WORDS, longest - 1, "--batch-size", 1, stdin=records)
    texts = [record.get("text") for record in result.records]
    assert [record.get("text") for record in apart.records] == texts


@pytest.mark.usefixtures("loaded")
def test_masses_and_scores_of_fitting_texts_are_those_of_the_smaller_set(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    lengths = lengths_of(cities, embedded_model)
    prompt = ("--prompt", ASKED, "--raw")
    fit = ("--fit", "--max-new-tokens", lengths[0])
    (whole,) = cdec("mass", "-a", cities, *prompt).records
    (short,) = cdec("mass", "-a", cities, *prompt, *fit).records
    drawn = cdec("sample", "-a", cities, *prompt, "--method", "topn", "-n", 20, *fit).records
    total = math.fsum(math.exp(record["logprob"]) for record in drawn)
    assert short["mass_lower"] - 1e-6 <= total <= short["mass_upper"] + 1e-6
    assert short["mass_upper"] < whole["mass_lower"] or total < whole["mass_upper"]
    assert (short["fit"], "fit" in whole) == ("exact", False)
    texts = jsonl({"text": drawn[0]["text"]}, {"text": "Paris, Texas"})
    scored = cdec("score", "-a", cities, "--prompt", ASKED, *fit, stdin=texts).records
    assert [record["member"] for record in scored] == [True, False]
    assert scored[0]["fit"] == "exact" and scored[1]["log_masked"] in (None, -math.inf)


@pytest.mark.usefixtures("loaded")
def test_what_cannot_be_fitted_is_refused_by_name(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", ASKED, "--fit")
    assert "--after" in refused(cdec(*words, "--after", ":"))
    assert "without masks" in refused(cdec(*words, "--method", "unconstrained"))
    labels = ("classify", cities, "--prompt", ASKED, "--fit")
    assert "--fit means nothing to cdec classify" in refused(cdec(*labels))
    own = cdec(*words[:3], "--fit", stdin=jsonl({"id": 1, "prompt": ASKED, "after": ":"}))
    (record,) = own.records
    assert "`fit`" in record["error"]["message"] or "--fit" in record["error"]["message"]


def test_python_says_the_same_in_one_call(cities: Path, embedded_model: Any) -> None:
    constraint = open_artifact(cities, vocabulary=embedded_model.vocabulary)
    shortest = lengths_of(cities, embedded_model)[0]
    fit: dict[str, Any] = {"fit": True, "max_new_tokens": shortest}
    drawn = sample(embedded_model, constraint, ASKED, "masked", n=10, **fit)
    assert {each.finish_reason for each in drawn} == {"complete"}
    assert max(len(each.token_ids) for each in drawn) == shortest
    with pytest.raises(UsageError, match="no masks"):
        sample(embedded_model, constraint, ASKED, "unconstrained", **fit)
    with pytest.raises(UsageError, match="has no constraint"):
        sample(embedded_model, None, ASKED, "greedy", **fit)


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_json_ends_within_its_tokens(cdec: Runner) -> None:
    words = ("sample", "--method", "masked", "-n", 8, "--max-new-tokens", 40)
    record = jsonl({"id": 1, "prompt": "As JSON:", "schema": PERSON})
    cut = cdec(*words, stdin=record).records
    assert "length" in {drawn["finish_reason"] for drawn in cut}
    whole = cdec(*words, "--fit", stdin=record).records
    for drawn in whole:
        assert (drawn["finish_reason"], drawn["valid"]) == ("complete", True), drawn
        assert drawn["fit"] == "conservative" and len(drawn["token_ids"]) <= 40
        assert set(json.loads(drawn["text"])) == {"name", "tags"}
    begun = cdec(*words, "--fit", "--prefill", '{"tags": ["a', stdin=record).records
    assert {drawn["finish_reason"] for drawn in begun} == {"complete"}
    short = jsonl({"id": 1, "prompt": "As JSON:", "schema": PERSON, "max_tokens": 3})
    (failed,) = cdec(*words, "--fit", stdin=short).records
    assert failed["error"]["code"] == "E_FIT" and failed["error"]["shortest"] > 3


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_small_regular_expression_is_fitted_exactly(cdec: Runner) -> None:
    words = ("sample", "--method", "masked", "-n", 8, "--fit", "--max-new-tokens", 5)
    record = jsonl({"id": 1, "prompt": "x", "regex": "[0-9]{2}-[0-9]+"})
    for drawn in cdec(*words, stdin=record).records:
        assert (drawn["finish_reason"], drawn["fit"]) == ("complete", "exact")
        assert len(drawn["token_ids"]) <= 5 and drawn["valid"]


@pytest.mark.usefixtures("grammar_child")
def test_records_in_python_are_held_to_their_own_tokens(embedded_model: Any) -> None:
    records = [
        {"id": n, "prompt": "As JSON:", "schema": PERSON, "max_tokens": n, "n": 3}
        for n in (20, 25, 60)
    ]
    with RecordSampler(embedded_model, "masked", fit=True) as sampler:
        drawn = list(sampler.sample(records))
    assert len(drawn) == 9
    for record in drawn:
        assert (record["finish_reason"], record["valid"]) == ("complete", True), record
        assert len(record["token_ids"]) <= record["id"]


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_texts_of_a_grammar_that_nests_without_end_are_closed_in_time(cdec: Runner) -> None:
    record = jsonl({"id": 1, "prompt": "x", "grammar": 'start: "(" start ")" | "a" start | "b"'})
    words = ("sample", "--method", "masked", "-n", 8, "--max-new-tokens", 9)
    cut = cdec(*words, stdin=record).records
    assert "length" in {drawn["finish_reason"] for drawn in cut}
    for drawn in cdec(*words, "--fit", stdin=record).records:
        assert (drawn["finish_reason"], drawn["valid"]) == ("complete", True), drawn
        assert drawn["fit"] == "conservative" and len(drawn["token_ids"]) <= 9


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_grammar_to_whose_end_no_way_is_known_is_searched_once_and_refused(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []
    monkeypatch.setattr(fitting, "distances_of", lambda *_, **__: searched.append(1))
    monkeypatch.setattr(GrammarConstraint, "_reach_is", None)
    nested = 'start: "(" start ")" | "a"'
    records = jsonl(*({"id": n, "prompt": "x", "grammar": nested} for n in range(5)))
    result = cdec("sample", "--method", "masked", "--fit", stdin=records)
    assert {record["error"]["code"] for record in result.records} == {"E_USAGE"}
    assert (len(result.records), len(searched)) == (5, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("loaded", "grammar_child")
def test_check_says_which_texts_are_drawn_within_so_many_tokens(
    cdec: Runner, cities: Path, embedded_model: Any, tmp_path: Path
) -> None:
    source = ("--grammar", tmp_path / "nested.lark")
    (tmp_path / "nested.lark").write_text('start: "(" start ")" | "a"')
    limit = ("--max-new-tokens", 4)
    texts = "a\n(a)\n" + "(" * 40 + "a" + ")" * 40 + "\n(a\n"
    free = cdec("check", *source, stdin=texts.encode()).records
    held = cdec("check", *source, *limit, stdin=texts.encode()).records
    assert [record["valid"] for record in free] == [True, True, True, False]
    assert [record["valid"] for record in held] == [True, True, False, False]
    assert (held[2]["max_tokens"], held[2]["byte"] < 40) == (4, True)
    assert held[3] == free[3]
    drawn = cdec("sample", *source, "--fit", *limit, "-n", 9, "--prompt", "x", "--method", "masked")
    rows = "".join(f"{json.dumps(record['token_ids'])}\n" for record in drawn.records)
    shown = cdec("check", *source, *limit, "--token-ids", stdin=rows.encode()).records
    assert all(record["valid"] for record in shown)
    again = "".join(f"{record['text']}\n" for record in drawn.records)
    assert all(
        record["valid"] for record in cdec("check", *source, *limit, stdin=again.encode()).records
    )
    lengths = lengths_of(cities, embedded_model)
    members = cdec("check", cities, "--max-new-tokens", lengths[0], stdin=b"Paris, Texas\n").records
    assert [record["valid"] for record in members] == [False]
    assert "max-new-tokens" in refused(cdec("check", *source, *limit, "--explain", stdin=b"a\n"))


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_batch_files_and_traces_know_texts_that_fit(cdec: Runner, tmp_path: Path) -> None:
    (tmp_path / "nested.lark").write_text('start: "(" start ")" | "a" start | "b"')
    words = ("sample", "--grammar", tmp_path / "nested.lark", "--method", "masked")
    body = {"prompt": "x", "max_tokens": 7, "n": 5}
    asked = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": body}
    for more, reasons in (((), {"length", "stop"}), (("--fit",), {"stop"})):
        (answer,) = cdec(*words, "--openai-batch", *more, stdin=jsonl(asked)).records
        choices = answer["response"]["body"]["choices"]
        assert {choice["finish_reason"] for choice in choices} <= reasons
        assert ("length" in {choice["finish_reason"] for choice in choices}) == (not more)
    traced = (*words, "--fit", "--max-new-tokens", 7, "-n", 5, "--prompt", "x", "--trace")
    drawn = cdec(*traced, tmp_path / "t.jsonl").records
    sums = cdec("trace", tmp_path / "t.jsonl", "--json").records
    assert [each["log_z_sum"] for each in sums] == pytest.approx(
        [record["log_candidate_weight"] for record in drawn]
    )
