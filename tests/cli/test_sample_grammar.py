"""Sampling under grammars, of texts that begin already too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_grammar, compile_set, set_constraint
from cdec.samplers import sample
from tests.cli.conftest import Result, Runner, jsonl
from tests.laws.rounding import near, near_records

# --- cdec sample on grammars: every method, speculation, opportunistic masks, lookahead, healing.

GRAMMAR = """
start: "{" name "," age "," tags "}"
name: "\\"name\\":" STRING
age: "\\"age\\":" INT
tags: "\\"tags\\":" "[" STRING ("," STRING)~0..1 "]"
STRING: /"[a-zA-Z]{1,6}"/
INT: /[1-9][0-9]{0,2}/
"""
PROMPT = ("--prompt", "A person as JSON:")
COSTS = (
    *("target_calls", "path_calls", "target_tokens", "distinct_evaluations"),
    "acceptance_rate",
)


@pytest.fixture(scope="module")
def person(embedded_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of objects of one shape, for the embedded tokenizer."""
    path = tmp_path_factory.mktemp("person") / "person.arrow"
    compile_grammar(GRAMMAR, embedded_model.vocabulary, path)
    return path


def bare(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.stderr
    return [{k: v for k, v in record.items() if k not in COSTS} for record in result.records]


def calls(result: Result) -> int:
    return sum(record["target_calls"] for record in result.records)


def refused(result: Result) -> str:
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    return result.stderr


@pytest.mark.usefixtures("loaded")
@pytest.mark.share(2)
@pytest.mark.parametrize("method", ["greedy", "masked", "disc", "beam", "unconstrained"])
def test_every_method_draws_from_a_grammar(cdec: Runner, person: Path, method: str) -> None:
    words = ("--method", method, "-n", "2", "--max-new-tokens", "80")
    records = cdec("sample", "-a", person, *PROMPT, *words).records
    assert len(records) == 2
    for record in records:
        if method == "unconstrained":
            assert record["valid"] is False
            continue
        assert (record["valid"], record["finish_reason"]) == (True, "complete")
        assert set(json.loads(record["text"])) == {"name", "age", "tags"}


@pytest.mark.usefixtures("loaded")
@pytest.mark.share(1)
@pytest.mark.parametrize("method", ["greedy", "masked"])
def test_speculation_changes_calls_and_no_text(
    cdec: Runner, person: Path, tmp_path: Path, method: str
) -> None:
    counts = tmp_path / "counts.json"
    words = ("sample", "-a", person, *PROMPT, "--prompt", "Another:", "--method", method, "-n", "3")
    words += ("--max-new-tokens", "60", "--batch-size", "1")
    plain = cdec(*words)
    guess = ("--draft", "counts", "--gamma")
    guessed = cdec(*words, *guess, "8", "--save-counts", counts)
    again = cdec(*words, *guess, "8", "--counts", counts, "--save-counts", counts)
    timid = cdec(*words, *guess, "1", "--counts", counts)
    assert bare(guessed)[0]["text"] == bare(plain)[0]["text"]
    for result in (guessed, again, timid):
        assert [r["token_ids"] for r in bare(result)] == [r["token_ids"] for r in bare(plain)]
        for mine, given in zip(bare(result), bare(plain), strict=True):
            assert mine["logprob"] == near(given["logprob"], 1 + len(given["token_ids"]))
    assert calls(again) < calls(guessed) < calls(plain)
    assert calls(again) < calls(timid)
    assert "acceptance_rate" not in plain.records[0]
    assert 0 < again.records[0]["acceptance_rate"] <= 1


@pytest.mark.usefixtures("loaded")
def test_a_place_where_counts_cannot_be_written_is_refused_before_the_run(
    cdec: Runner, person: Path, tmp_path: Path
) -> None:
    words = ("--method", "greedy", "--draft", "counts", "--max-new-tokens", "4")
    for place in (tmp_path / "no" / "counts.json", tmp_path):
        run = cdec("sample", "-a", person, *PROMPT, *words, "--save-counts", place, "--force")
        assert (run.status, run.error_code, run.stdout) == (74, "E_IO", b"")


@pytest.mark.usefixtures("loaded")
def test_counts_are_bound_to_artifact_and_file(
    cdec: Runner, person: Path, word: Path, tmp_path: Path
) -> None:
    counts = tmp_path / "counts.json"
    words = ("--method", "greedy", "--draft", "counts", "--max-new-tokens", "20")
    assert cdec("sample", "-a", person, *PROMPT, *words, "--save-counts", counts).status == 0
    other = cdec("sample", "-a", word, *PROMPT, *words, "--counts", counts)
    assert (other.status, other.error_code) == (65, "E_DATA")
    assert "the counts belong to the artifacts" in other.stderr
    there = cdec("sample", "-a", person, *PROMPT, *words, "--save-counts", counts)
    assert (there.status, there.error_code) == (73, "E_EXISTS")
    forced = cdec("sample", "-a", person, *PROMPT, *words, "--save-counts", counts, "--force")
    assert forced.status == 0
    missing = cdec("sample", "-a", person, *PROMPT, *words, "--counts", tmp_path / "none")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")
    body = json.loads(counts.read_text())
    body["vocabulary_hash"] = "0" * 64
    counts.write_text(json.dumps(body))
    foreign = cdec("sample", "-a", person, *PROMPT, *words, "--counts", counts)
    assert (foreign.status, foreign.error_code) == (65, "E_TOKENIZER_MISMATCH")


@pytest.mark.usefixtures("loaded")
def test_counts_named_in_the_configuration_wait_for_speculation(
    cdec: Runner, person: Path, word: Path
) -> None:
    words = ("--method", "greedy", "--max-new-tokens", "20")
    guess = ("--draft", "counts", "--gamma", "4")
    cdec("sample", "-a", word, *PROMPT, *words, *guess, "--save-counts", "counts.json")
    Path("cdec.toml").write_text('[sample]\ncounts = "counts.json"\n')
    assert cdec("sample", "-a", person, *PROMPT, *words).status == 0
    assert cdec("sample", "-a", person, *PROMPT, *words, *guess).error_code == "E_DATA"


@pytest.mark.usefixtures("loaded")
def test_opportunistic_greedy_is_greedy_without_weights(cdec: Runner, person: Path) -> None:
    words = ("sample", "-a", person, *PROMPT, "--method", "greedy", "--max-new-tokens", "60")
    (plain,) = cdec(*words).records
    (quick,) = cdec(*words, "--opportunistic").records
    assert quick["token_ids"] == plain["token_ids"]
    assert plain["log_candidate_weight"] is not None
    assert quick["log_candidate_weight"] is None


@pytest.mark.usefixtures("loaded")
def test_opportunistic_draws_are_members_with_weights(cdec: Runner, person: Path) -> None:
    words = ("--method", "masked", "--opportunistic", "-n", "8", "--max-new-tokens", "80")
    records = cdec("sample", "-a", person, *PROMPT, *words).records
    assert all(record["valid"] for record in records)
    for record in records:
        assert record["log_weight"] == record["log_candidate_weight"] <= 0.0
        assert record["log_mass"] <= 0.0 and record["length_mass_upper"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_a_lookahead_is_noted_in_every_record(cdec: Runner, person: Path) -> None:
    words = ("sample", "-a", person, *PROMPT, "--method", "greedy", "--max-new-tokens", "80")
    (plain,) = cdec(*words).records
    (narrow,) = cdec(*words, "--lookahead", "0").records
    (picked,) = cdec(*words, "--lookahead", "3", "--fields", "lookahead,text").records
    assert "lookahead" not in plain
    assert (narrow["lookahead"], narrow["valid"]) == (0, True)
    # One terminal at a time: a quote and what follows it are two tokens.
    assert len(narrow["token_ids"]) > len(plain["token_ids"])
    assert picked["lookahead"] == 3


@pytest.mark.usefixtures("loaded")
def test_healing_lets_a_longer_token_bridge_the_prompts_end(
    cdec: Runner, word: Path, embedded_model: Any
) -> None:
    words = ("--method", "masked", "-n", "20", "--max-new-tokens", "30")
    prompt = "The capital of France is Par"
    records = cdec("sample", "-a", word, "--prompt", prompt, *words, "--heal").records
    plain = cdec("sample", "-a", word, "--prompt", prompt, *words).records
    vocabulary = embedded_model.vocabulary
    tail = " Par"
    bridged = 0
    for record in records:
        whole = vocabulary.decode(record["token_ids"]).decode()
        assert (record["finish_reason"], record["valid"]) == ("complete", True)
        cut = whole.removesuffix(record["text"])
        assert prompt.endswith(cut) and 0 < len(cut) <= len(tail)
        bridged += not cut.startswith(vocabulary.decode(record["token_ids"][:1]).decode())
    assert bridged
    assert all(
        vocabulary.decode(record["token_ids"]).decode() == record["text"] for record in plain
    )


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("--lookahead", "1"), "one tokenisation"),
        (("--heal",), "token boundary"),
        (("--draft", "counts"), "evaluated ahead"),
    ],
)
def test_sets_refuse_what_needs_a_grammar(
    cdec: Runner, cities: Path, option: tuple[str, ...], reason: str
) -> None:
    result = cdec("sample", "-a", cities, *PROMPT, "--method", "masked", *option)
    assert reason in refused(result)
    assert option[0] in refused(cdec("sample", *PROMPT, "--method", "greedy", *option))


@pytest.mark.usefixtures("loaded")
def test_records_without_a_grammar_are_errors_beside_healed_ones(cdec: Runner) -> None:
    lines = b"".join(
        json.dumps({"id": i, "prompt": "One wo"} | own).encode() + b"\n"
        for i, own in enumerate([{"grammar": "start: /[a-z]{1,3}/\n"}, {}])
    )
    result = cdec("sample", "--heal", "--method", "greedy", stdin=lines)
    assert result.status == 3
    healed, bad = result.records
    assert healed["valid"] is True
    assert bad["error"]["code"] == "E_USAGE"
    assert "--heal needs a grammar" in bad["error"]["message"]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "words",
    [
        ("--method", "disc", "--opportunistic"),
        ("--method", "beam", "--draft", "counts"),
        ("--method", "unconstrained", "--lookahead", "1"),
        ("--method", "masked", "--opportunistic", "--top-m", "4"),
        ("--method", "masked", "--draft", "counts", "--gamma", "0"),
        ("--method", "masked", "--gamma", "4"),
        ("--method", "masked", "--draft", "counts", "--draft-temperature", "1"),
        ("--method", "masked", "--speculate", "4"),
        ("--method", "masked", "--save-counts", "x.json"),
        ("--method", "masked", "--counts", "x.json"),
        ("--method", "masked", "--lookahead", "-1"),
    ],
)
def test_contradictions_are_usage_errors(
    cdec: Runner, person: Path, words: tuple[str, ...]
) -> None:
    refused(cdec("sample", "-a", person, *PROMPT, *words))


@pytest.mark.usefixtures("loaded")
def test_resume_refuses_other_masks(cdec: Runner, word: Path) -> None:
    words = ("sample", "-a", word, *PROMPT, "--method", "greedy", "-o", "out.jsonl")
    assert cdec(*words, "--heal").status == 0
    assert cdec(*words, "--heal", "--resume").status == 0
    assert cdec(*words, "--resume").error_code == "E_RESUME_MISMATCH"
    assert cdec(*words, "--heal", "--lookahead", "1", "--resume").error_code == "E_RESUME_MISMATCH"


# --- Begun answers on the command line: --prefill, a field, the assistant's last message.

ASKED = "What is the capital of France?"
JSON = 'start: "{" "\\"action\\"" ":" VALUE "}"\nVALUE: /"[a-z]{1,8}"/\n%ignore " "\n'


@pytest.fixture
def action(tmp_path: Path, embedded_model: Any) -> Path:
    """A grammar of one member's JSON objects."""
    from cdec.compilers import compile_grammar

    path = tmp_path / "action.arrow"
    compile_grammar(JSON, embedded_model.vocabulary, path)
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_three_ways_to_begin_an_answer_are_one(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "-n", "4", "--method")
    asked = {"role": "user", "content": ASKED}
    ways = {
        "field": {"id": 1, "prompt": ASKED, "prefill": "Pa"},
        "messages": {"id": 1, "messages": [asked, {"role": "assistant", "content": "Pa"}]},
    }
    for method in ("disc", "exact", "greedy", "masked", "beam", "smc", "asap"):
        option = cdec(*words, method, "--prefill", "Pa", stdin=jsonl({"id": 1, "prompt": ASKED}))
        assert option.status == 0
        for record in option.records:
            assert record["prefill"] == "Pa"
            if record["finish_reason"] == "complete":  # a beam may find fewer texts
                assert record["text"].startswith("Paris") and record["valid"]
        for own in ways.values():
            # A record's own beginning wins.
            assert cdec(*words, method, stdin=jsonl(own)).records == option.records
            other = cdec(*words, method, "--prefill", "Ro", stdin=jsonl(own))
            assert other.records == option.records


@pytest.mark.usefixtures("loaded")
def test_an_object_goes_on_as_the_member_that_is_begun(cdec: Runner, action: Path) -> None:
    words = ("sample", "-a", action, "--prompt", "Do: ", "--prefill", '{"acti', "-n", "3")
    for record in cdec(*words, "--method", "masked").records:
        assert record["text"].startswith('{"action"') and record["valid"]
        assert record["prefill"] == '{"acti'


@pytest.mark.usefixtures("loaded")
def test_mass_and_score_know_it(cdec: Runner, cities: Path) -> None:
    line = {"id": 1, "prompt": ASKED, "text": "Paris, Texas"}
    words = ("-a", cities, "--prefill", "Par")
    (mass,) = cdec("mass", *words, stdin=jsonl(line)).records
    (whole,) = cdec("mass", "-a", cities, stdin=jsonl(line)).records
    (score,) = cdec("score", *words, stdin=jsonl(line)).records
    own = jsonl({**line, "prefill": "Par"})
    assert cdec("score", "-a", cities, stdin=own).records == [score]
    assert score["member"] and score["valid"] and score["text"] == "Paris, Texas"
    assert mass["log_mass_lower"] - 1e-6 <= mass["log_mass"] <= mass["log_mass_upper"] + 1e-6
    assert score["log_mass_lower"] <= mass["log_mass_upper"] + 1e-6
    assert mass["mass"] != whole["mass"]
    (drawn,) = cdec("sample", *words, "--method", "greedy", stdin=jsonl(line)).records
    again = jsonl({"id": 1, "prompt": ASKED, **{k: drawn[k] for k in ("text", "token_ids")}})
    (scored,) = cdec("score", *words, stdin=again).records
    assert scored["logprob"] == near(drawn["logprob"], 1 + len(drawn["token_ids"]))
    other = jsonl({**line, "text": "Rome"})
    assert cdec("score", *words, stdin=other).records[0]["member"] is False


@pytest.mark.usefixtures("loaded")
def test_what_nothing_begins_with_is_the_records_error(cdec: Runner, cities: Path) -> None:
    data = jsonl(
        {"id": 1, "prompt": ASKED, "prefill": "Pax"}, {"id": 2, "prompt": ASKED, "prefill": ""}
    )
    result = cdec("sample", "-a", cities, "--method", "greedy", stdin=data)
    bad, good = result.records
    assert result.status == 3 and "prefill" not in good
    assert (bad["error"]["code"], bad["error"]["byte"]) == ("E_PREFILL", 2)
    assert bad["error"]["allowed"]


@pytest.mark.usefixtures("loaded")
def test_it_needs_a_constraint_and_stands_once(cdec: Runner, cities: Path) -> None:
    free = cdec("sample", "--method", "unconstrained", "--prompt", "a", "--prefill", "b")
    assert free.records[0]["error"]["code"] == "E_FIELD"
    answer = {"role": "assistant", "content": "P"}
    twice = {"id": 1, "messages": [{"role": "user", "content": "a"}, answer], "prefill": "P"}
    (record,) = cdec("sample", "-a", cities, stdin=jsonl(twice)).records
    assert record["error"]["field"] == "prefill"


@pytest.mark.usefixtures("loaded")
def test_free_draws_are_judged_with_it(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--method", "unconstrained", "-n", "8", "--prefill", "Pari")
    records = cdec(*words, "--prompt", ASKED).records
    assert all("Pari" in record["text"] for record in records)
    assert any(record["valid"] and record["text"] == "Paris" for record in records)


# --- What ``cdec sample`` draws, ``cdec.samplers.sample`` draws: same texts, seeds and fields.

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome"]
PROMPTS = [
    "The capital of France is",
    "What is the capital of France?",
    "The capital of France is",
]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("disc", {"K": 2, "temperature": 0.7}, ("--K", "2", "--temperature", "0.7")),
        ("exact", {"max_draws": 50, "top_k": 40}, ("--max-draws", "50", "--top-k", "40")),
        ("masked", {"top_p": 0.9}, ("--top-p", "0.9")),
    ],
)
def test_draws_are_those_of_the_command_line(
    method: str,
    options: dict[str, Any],
    words: tuple[str, ...],
    cdec: Runner,
    embedded_model: Any,
) -> None:
    compile_set(CITIES, embedded_model.vocabulary, "cities.arrow")
    prompts = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    all_words = ("-a", "cities.arrow", "-n", 4, "--seed", 5, *prompts, "--method", method, *words)
    result = cdec("sample", *all_words)
    cities = set_constraint(CITIES, embedded_model.vocabulary)
    found = sample(embedded_model, cities, PROMPTS, method=method, n=4, seed=5, **options)
    ours = [json.loads(json.dumps(each.to_json())) for drawn in found for each in drawn]
    assert result.status == 0, result.stderr
    assert ours == near_records(result.records)


@pytest.mark.usefixtures("loaded")
def test_counts_and_a_draft_model_propose_together(
    cdec: Runner, person: Path, tmp_path: Path
) -> None:
    counts = tmp_path / "counts.json"
    words = ("sample", "-a", person, *PROMPT, "--method", "greedy", "--max-new-tokens", "60")
    draft = ("--draft", "embedded-draft", "--gamma", "4")
    plain, alone = cdec(*words), cdec(*words, *draft)
    first = cdec(*words, *draft, "--save-counts", counts)
    again = cdec(*words, *draft, "--counts", counts, "--freeze-counts")
    for result in (first, again):
        assert bare(result)[0]["text"] == bare(plain)[0]["text"]
    # The text was seen before: what its states were followed by costs no call.
    assert again.records[0]["counted_proposals"] > 0
    assert again.records[0]["draft_calls"] < alone.records[0]["draft_calls"]
    assert "counted_proposals" not in alone.records[0]
    assert "--count-threshold means nothing" in refused(
        cdec(*words, *draft, "--count-threshold", "0.5")
    )
