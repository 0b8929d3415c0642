"""Begun answers on the command line: --prefill, a field, the assistant's last message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runner
from tests.laws.rounding import near

ASKED = "What is the capital of France?"
JSON = 'start: "{" "\\"action\\"" ":" VALUE "}"\nVALUE: /"[a-z]{1,8}"/\n%ignore " "\n'


def _jsonl(*records: dict[str, object]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def action(tmp_path: Path, embedded_model: Any) -> Path:
    """A grammar of one member's JSON objects."""
    from cdec.compilers import compile_grammar

    path = tmp_path / "action.arrow"
    compile_grammar(JSON, embedded_model.vocabulary, path)
    return path


pytestmark = pytest.mark.usefixtures("loaded")


def test_three_ways_to_begin_an_answer_are_one(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "-n", "4", "--method")
    asked = {"role": "user", "content": ASKED}
    ways = {
        "field": {"id": 1, "prompt": ASKED, "prefill": "Pa"},
        "messages": {"id": 1, "messages": [asked, {"role": "assistant", "content": "Pa"}]},
    }
    for method in ("disc", "exact", "greedy", "masked", "beam", "smc", "asap"):
        option = cdec(*words, method, "--prefill", "Pa", stdin=_jsonl({"id": 1, "prompt": ASKED}))
        assert option.status == 0
        for record in option.records:
            assert record["prefill"] == "Pa"
            if record["finish_reason"] == "complete":  # a beam may find fewer texts
                assert record["text"].startswith("Paris") and record["valid"]
        for own in ways.values():
            # A record's own beginning wins.
            assert cdec(*words, method, stdin=_jsonl(own)).records == option.records
            other = cdec(*words, method, "--prefill", "Ro", stdin=_jsonl(own))
            assert other.records == option.records


def test_an_object_goes_on_as_the_member_that_is_begun(cdec: Runner, action: Path) -> None:
    words = ("sample", "-a", action, "--prompt", "Do: ", "--prefill", '{"acti', "-n", "3")
    for record in cdec(*words, "--method", "masked").records:
        assert record["text"].startswith('{"action"') and record["valid"]
        assert record["prefill"] == '{"acti'


def test_mass_and_score_know_it(cdec: Runner, cities: Path) -> None:
    line = {"id": 1, "prompt": ASKED, "text": "Paris, Texas"}
    words = ("-a", cities, "--prefill", "Par")
    (mass,) = cdec("mass", *words, stdin=_jsonl(line)).records
    (whole,) = cdec("mass", "-a", cities, stdin=_jsonl(line)).records
    (score,) = cdec("score", *words, stdin=_jsonl(line)).records
    own = _jsonl({**line, "prefill": "Par"})
    assert cdec("score", "-a", cities, stdin=own).records == [score]
    assert score["member"] and score["valid"] and score["text"] == "Paris, Texas"
    assert mass["log_mass_lower"] - 1e-6 <= mass["log_mass"] <= mass["log_mass_upper"] + 1e-6
    assert score["log_mass_lower"] <= mass["log_mass_upper"] + 1e-6
    assert mass["mass"] != whole["mass"]
    (drawn,) = cdec("sample", *words, "--method", "greedy", stdin=_jsonl(line)).records
    again = _jsonl({"id": 1, "prompt": ASKED, **{k: drawn[k] for k in ("text", "token_ids")}})
    (scored,) = cdec("score", *words, stdin=again).records
    assert scored["logprob"] == near(drawn["logprob"], 1 + len(drawn["token_ids"]))
    other = _jsonl({**line, "text": "Rome"})
    assert cdec("score", *words, stdin=other).records[0]["member"] is False


def test_what_nothing_begins_with_is_the_records_error(cdec: Runner, cities: Path) -> None:
    data = _jsonl(
        {"id": 1, "prompt": ASKED, "prefill": "Pax"}, {"id": 2, "prompt": ASKED, "prefill": ""}
    )
    result = cdec("sample", "-a", cities, "--method", "greedy", stdin=data)
    bad, good = result.records
    assert result.status == 3 and "prefill" not in good
    assert (bad["error"]["code"], bad["error"]["byte"]) == ("E_PREFILL", 2)
    assert bad["error"]["allowed"]


def test_it_needs_a_constraint_and_stands_once(cdec: Runner, cities: Path) -> None:
    free = cdec("sample", "--method", "unconstrained", "--prompt", "a", "--prefill", "b")
    assert free.records[0]["error"]["code"] == "E_FIELD"
    answer = {"role": "assistant", "content": "P"}
    twice = {"id": 1, "messages": [{"role": "user", "content": "a"}, answer], "prefill": "P"}
    (record,) = cdec("sample", "-a", cities, stdin=_jsonl(twice)).records
    assert record["error"]["field"] == "prefill"


def test_free_draws_are_judged_with_it(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--method", "unconstrained", "-n", "8", "--prefill", "Pari")
    records = cdec(*words, "--prompt", ASKED).records
    assert all("Pari" in record["text"] for record in records)
    assert any(record["valid"] and record["text"] == "Paris" for record in records)
