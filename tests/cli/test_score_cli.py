"""The commands score and retokenize."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.score import pooled
from cdec.core.record_fields import fields_of
from cdec.integrations.records.tasks import Task
from tests.cli.conftest import Runner, jsonl
from tests.laws.rounding import near

# --- cdec score end to end: samples and texts in, probabilities, weights and bounds out.

PLAIN = ["text", "token_ids", "tokens", "scored_text", "logprob", "perplexity", "events"]
HELD = ["log_z_sum", "log_masked", "member", "valid"]
BOUNDS = [
    "log_mass_lower",
    "log_mass_upper",
    "probability",
    "probability_lower",
    "probability_upper",
]
SUMS = [
    "spellings",
    "log_text_lower",
    "log_text_upper",
    "text_probability_lower",
    "text_probability_upper",
]
QUARTER = math.log(0.25)


def assert_scored_as_drawn(scores: list[Any], samples: list[Any]) -> None:
    assert len(scores) == len(samples)
    for score, sample in zip(scores, samples, strict=True):
        for name in ("id", "index", "text", "token_ids", "valid"):
            assert score[name] == sample[name]
        assert score["member"] is True
        assert score["logprob"] == near(sample["logprob"], score["events"])
        assert score["log_z_sum"] == near(sample["log_candidate_weight"], score["events"])
        assert score["log_mass_lower"] <= score["log_mass_upper"] <= 0


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("method", ["masked", "disc"])
def test_samples_of_a_set_score_as_they_were_drawn(cdec: Runner, cities: Path, method: str) -> None:
    prompts = jsonl({"id": "x", "prompt": "A city: "}, {"prompt": "Capital of Italy: ", "n": 2})
    Path("prompts.txt").write_bytes(prompts + b"A plain line\n")
    words = ("-a", cities, "--method", method, "-n", "4", "-i", "prompts.txt")
    drawn = cdec("sample", *words)
    result = cdec("score", "-a", cities, "--prompts", "prompts.txt", stdin=drawn.stdout)
    assert (result.status, result.stderr) == (0, "")
    assert_scored_as_drawn(result.records, drawn.records)
    for score, sample in zip(result.records, drawn.records, strict=True):
        assert list(score) == ["id", "index", *PLAIN[:4], "entity_ids", *PLAIN[4:], *HELD, *BOUNDS]
        assert score["entity_ids"] == sample["entity_ids"]
        assert score["perplexity"] == pytest.approx(math.exp(-score["logprob"] / score["events"]))
        assert len(score["tokens"]) == len(score["token_ids"]) == score["events"] - 1
    # Without ids, a member's text is spelt as its row.
    texts = jsonl(*({"id": r["id"], "text": r["text"]} for r in drawn.records))
    again = cdec("score", "-a", cities, "--prompts", "prompts.txt", stdin=texts).records
    for first, second in zip(again, result.records, strict=True):
        assert (first["token_ids"], first["entity_ids"]) == (
            second["token_ids"],
            second["entity_ids"],
        )
        assert first["probability_lower"] == near(second["probability_lower"], 2 * first["events"])


@pytest.mark.usefixtures("loaded")
def test_samples_of_a_grammar_score_as_they_were_drawn(cdec: Runner, word: Path) -> None:
    words = ("-a", word, "--prompt", "A word")
    drawn = cdec("sample", *words, "--method", "masked", "-n", "5", "--temperature", "0.8")
    scored = cdec("score", *words, "--temperature", "0.8", stdin=drawn.stdout)
    assert_scored_as_drawn(scored.records, drawn.records)
    healed = cdec("sample", *words, "--heal", "--method", "masked", "-n", "5")
    assert_scored_as_drawn(
        cdec("score", *words, "--heal", stdin=healed.stdout).records, healed.records
    )
    texts = jsonl(*({"text": record["text"]} for record in healed.records))
    spelt = cdec("score", *words, "--heal", stdin=texts).records
    assert [(r["text"], r["member"]) for r in spelt] == [(r["text"], True) for r in healed.records]
    # Without --heal the ids begin with what is already in the prompt: told, not scored wrongly.
    plain = cdec("score", *words, stdin=healed.stdout)
    assert plain.status == 3
    assert {record["error"]["code"] for record in plain.records} == {"E_FIELD"}
    assert all("--heal" in record["error"]["hint"] for record in plain.records)


@pytest.mark.usefixtures("loaded")
def test_texts_of_a_grammar_are_spelt_by_the_tokenizer(cdec: Runner, word: Path) -> None:
    words = ("score", "-a", word, "--prompt", "A word:")
    member, other = cdec(*words, stdin=b" some words.\nNo word\n").records
    assert (member["member"], member["valid"]) == (True, True)
    assert member["log_masked"] == pytest.approx(member["logprob"] - member["log_z_sum"])
    assert (other["member"], other["valid"], other["log_z_sum"]) == (False, False, None)
    assert other["first_refused"] == {"token": 0, "byte": 0}


@pytest.mark.usefixtures("loaded")
def test_a_text_that_is_no_member_of_a_set_is_spelt_by_the_tokenizer(
    cdec: Runner, cities: Path
) -> None:
    result = cdec("score", "-a", cities, "--prompt", "A city:", stdin=b"Parisian\nParis\n")
    other, member = result.records
    assert (other["text"], other["member"], other["valid"]) == ("Parisian", False, False)
    assert (member["member"], member["valid"], member["entity_ids"]) == (True, True, ["Q0"])


@pytest.mark.usefixtures("loaded")
def test_without_artifact_there_is_log_p_alone(cdec: Runner, embedded_model: Any) -> None:
    words = ("score", "--prompt", "Question: ")
    (ended,) = cdec(*words, stdin=b"The capital.\n").records
    (cut,) = cdec(*words, "--no-end", stdin=b"The capital.\n").records
    assert list(ended) == list(cut) == PLAIN
    assert ended["events"] == cut["events"] + 1 == len(cut["token_ids"]) + 1
    root = embedded_model.prefill(["Question: "])
    log_p, _ = embedded_model.extend(int(root[0]), cut["token_ids"])
    first = embedded_model.next_logprobs(root)[0][cut["token_ids"][0]]
    rest = sum(float(log_p[i, t]) for i, t in enumerate(cut["token_ids"][1:]))
    embedded_model.release(root)
    assert cut["logprob"] == near(float(first) + rest, cut["events"])
    assert ended["logprob"] < cut["logprob"]


def test_numbers_on_a_uniform_model(cdec: Runner, letters: Path) -> None:
    # Members a, ab, éa, éba, bé, béé; a quarter for each of a, b, é and the end.
    result = cdec("score", "-a", letters, "--prompt", "x", stdin=b'{"text": "ab"}\n')
    (record,) = result.records
    assert record["logprob"] == pytest.approx(3 * QUARTER)
    # Root: a, b, é. Then b or the end. Then the end alone.
    assert record["log_z_sum"] == pytest.approx(math.log(0.75 * 0.5 * 0.25))
    assert record["log_masked"] == pytest.approx(math.log(1 / 6))
    # Found: a and ab. Left: all behind b and é.
    assert record["log_mass_lower"] == pytest.approx(math.log(1 / 16 + 1 / 64))
    assert record["log_mass_upper"] == pytest.approx(math.log(1 / 16 + 1 / 64 + 0.5))
    for side, other in (("lower", "upper"), ("upper", "lower")):
        q = math.exp(3 * QUARTER - record[f"log_mass_{other}"])
        assert record[f"probability_{side}"] == pytest.approx(q)
    assert record["perplexity"] == pytest.approx(4.0)


def test_records_bring_their_prompts(cdec: Runner, letters: Path) -> None:
    data = jsonl(
        {"id": 1, "index": 0, "text": "a", "prompt": "own"},
        {"id": "m", "token_ids": [0, 1], "messages": [{"role": "user", "content": "hi"}]},
        {"text": "a"},
    )
    result = cdec("score", "-a", letters, stdin=data)
    assert result.status == 3
    first, second, third = result.records
    assert (first["id"], first["index"], first["text"]) == (1, 0, "a")
    assert (second["id"], second["text"]) == ("m", "ab")
    assert third["id"] == "line 3"
    assert third["error"]["code"] == "E_FIELD"
    assert "--prompts" in third["error"]["hint"]


def test_prompts_are_joined_by_id_with_what_they_ask_for(cdec: Runner, letters: Path) -> None:
    prompts = jsonl(
        {"id": 1, "prompt": "x", "candidates": ["a", "ab"]},
        {"id": 2, "prompt": "x", "temperature": 0.5},
        {"id": 3, "prompt": 4},
        {"city": "Rome"},
    )
    Path("prompts.jsonl").write_bytes(prompts)
    Path("template.txt").write_text("In {city}:")
    drawn = cdec("sample", "-a", letters, "-i", "prompts.jsonl", "--template", "template.txt")
    derived = drawn.records[-1]["id"]
    rows = jsonl(
        *({"id": i, "token_ids": row} for i in (1, 2) for row in ([0], [0, 1], [2, 0])),
        {"id": 3, "text": "a"},
        {"id": "1", "text": "a"},
        {"text": "a"},
    )
    result = cdec("score", "-a", letters, "--prompts", "prompts.jsonl", stdin=rows)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None] * 6 + ["E_FIELD"] * 3
    # Held to a and ab: only b or the end may follow, and the bounds close.
    assert [r["member"] for r in result.records[:6]] == [True, True, False, True, True, True]
    closed = result.records[0]
    assert closed["log_mass_lower"] == pytest.approx(math.log(1 / 16 + 1 / 64))
    assert closed["log_mass_upper"] == pytest.approx(closed["log_mass_lower"])
    words = ("--prompts", "prompts.jsonl", "--template", "template.txt")
    (filled,) = cdec(
        "score", "-a", letters, *words, stdin=jsonl({"id": derived, "text": "a"})
    ).records
    assert filled["member"] is True
    assert cdec("score", "--template", "template.txt", stdin=rows).error_code == "E_USAGE"


def test_batches_change_no_result(cdec: Runner, letters: Path) -> None:
    texts = ["a", "ab", "b", "éa", "a", "bé", "zzz", "éba"]
    rows = jsonl(
        *({"text": text, "prompt": prompt} for prompt in ("x", "y") for text in texts),
        *({"text": text, "prompt": "x" if i % 2 else "y"} for i, text in enumerate(texts)),
    )
    words = ("score", "-a", letters, "--candidates", "2")
    whole = cdec(*words, stdin=rows)
    assert whole.stdout.count(b"\n") == 24
    for size in ("1", "3", "8"):
        assert cdec(*words, "--batch-size", size, stdin=rows).stdout == whole.stdout
    assert cdec(*words, "--seed", "5", stdin=rows).stdout != whole.stdout


def test_pools_are_cut_where_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from cdec.cli import score
    from cdec.samplers.scoring.score import ScoreRequest

    monkeypatch.setattr(score, "MAX_POOL", 4)
    tasks = [Task(i, ScoreRequest("x", None, "a")) for i in range(10)]
    for size in (1, 3, 20):
        cut = list(pooled(tasks, size, is_pooled=True))
        pools = [task.request.pool for batch in cut for task in batch]
        assert pools == [1] * 4 + [2] * 4 + [3] * 2
        assert [task.name for batch in cut for task in batch] == list(range(10))
    assert [len(batch) for batch in pooled(tasks, 3, is_pooled=False)] == [3, 3, 3, 1]


def test_candidates_and_limits(cdec: Runner, letters: Path) -> None:
    words = ("score", "-a", letters, "--prompt", "x")
    (alone,) = cdec(*words, stdin=b"a\n").records
    (drawn,) = cdec(*words, "--candidates", "200", stdin=b"a\n").records
    # All six members: 3 of two events or so: 1/16 + 1/64 + 1/64 + 1/256 + 1/64 + 1/256.
    truth = math.log(sum(4.0**-n for n in (2, 3, 3, 4, 3, 4)))
    assert drawn["log_mass_lower"] == pytest.approx(truth)
    assert drawn["log_mass_upper"] == pytest.approx(truth)
    assert alone["log_mass_lower"] < truth < alone["log_mass_upper"]
    (cut,) = cdec(*words, "--max-new-tokens", "1", stdin=b"ab\n").records
    assert (cut["member"], cut["valid"]) == (False, True)
    Path("deny.txt").write_text("ab\n")
    (denied,) = cdec(*words, "--deny", "deny.txt", stdin=jsonl({"token_ids": [0, 1]})).records
    assert (denied["member"], denied["valid"]) == (False, False)


@pytest.mark.usefixtures("loaded")
def test_spellings_are_summed_where_asked_for(cdec: Runner, word: Path) -> None:
    texts = jsonl({"text": " the man."}, {"text": "in.", "temperature": 0.5}, {"text": "no"})
    words = ("--prompt", "x", "--max-new-tokens", "9")
    plain = cdec("score", "-a", word, *words, stdin=texts)
    summed = cdec("score", "-a", word, *words, "--all-spellings", stdin=texts)
    for before, record in zip(plain.records, summed.records, strict=True):
        added = {name: record[name] for name in set(record) - set(before)}
        assert record == before | added and set(added) == set(SUMS)
        if record["member"]:
            assert record["spellings"] > 1
            # The bounds are widened by the rounding of the model, logprob is not.
            assert record["logprob"] - 0.01 < record["log_text_lower"] <= record["log_text_upper"]
    assert [record["member"] for record in summed.records] == [True, True, False]
    few = cdec("score", "-a", word, "--max-evaluations", "5", stdin=texts)
    assert few.status == 2 and "--all-spellings" in few.stderr


def test_and_narrows_what_counts_as_a_member(cdec: Runner, letters: Path) -> None:
    from cdec.compilers import compile_token_set
    from cdec.core import open_artifact

    some = letters.parent / "some.arrow"
    compile_token_set([[0], [1]], open_artifact(letters).vocabulary, some)
    words = ("score", "-a", letters, "--prompt", "x")
    for tokens, member in (([0], True), ([0, 1], False)):
        row = jsonl({"token_ids": tokens})
        assert cdec(*words, stdin=row).records[0]["member"] is True
        (both,) = cdec(*words, "--and", some, stdin=row).records
        assert both["member"] is member


# --- cdec score: which fields come out, bad records, options that are refused.


def test_fields_are_chosen_and_misspelt_ones_refused(cdec: Runner, letters: Path) -> None:
    words = ("score", "-a", letters, "--prompt", "x")
    (record,) = cdec(*words, "--fields", "member,text", stdin=b"a\n").records
    assert record == {"member": True, "text": "a"}
    assert list(record) == ["member", "text"]
    wrong = cdec(*words, "--fields", "probability_lowr", stdin=b"a\n")
    assert (wrong.status, wrong.stdout) == (2, b"")
    assert "probability_lower" in wrong.stderr
    assert cdec(*words, "--fields", ",", stdin=b"a\n").status == 2
    (whole,) = cdec(*words, stdin=jsonl({"id": 1, "index": 2, "token_ids": [0, 0]})).records
    assert set(whole) <= set(fields_of("score"))
    # The field of the text is another matter.
    (named,) = cdec(*words, "--field", "name", stdin=b'{"name": "a"}\n').records
    assert named["text"] == "a"


def test_bad_records_become_errors_in_their_place(cdec: Runner, letters: Path) -> None:
    lines = (
        b'a\n\xff\xfe\xfd\n{"title": 1}\n{"id": "x", "text": 3}\n{"id": 1, "token_ids": [9]}\n'
        b'{"id": 2, "error": {"code": "E_X"}}\n{"id": 3, "text": "b", "token_ids": [0]}\n'
        b'{"id": 4, "token_ids": [0, 1.5]}\n{"id": 5, "text": "a", "index": "0"}\n'
        b'{"id": 6, "text": "a", "prompt": "p", "messages": [{"role": "user", "content": "c"}]}\n'
        b'{"id": 7, "text": "a", "token_ids": null}\n{"text": '
    )
    words = ("score", "-a", letters, "--prompt", "x")
    result = cdec(*words, stdin=lines)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_ENCODING", *["E_FIELD"] * 8, None, "E_JSON"]
    names = [record.get("id") for record in result.records]
    assert names == [None, "line 2", "line 3", "x", 1, 2, 3, 4, 5, 6, 7, "line 12"]
    hints = [record["error"].get("hint") for record in result.records[2:10]]
    assert all(hints)
    strict = cdec(*words, "--strict", stdin=lines)
    assert (strict.status, strict.error_code) == (65, "E_ENCODING")
    long = cdec(*words, "--max-line-bytes", "5", stdin=b"x" * 11 + b"\na\n")
    assert [r.get("error", {}).get("code") for r in long.records] == ["E_LINE_TOO_LONG", None]


@pytest.mark.usefixtures("loaded")
def test_a_text_beyond_the_context_is_an_error(cdec: Runner) -> None:
    result = cdec("score", "--prompt", "x", stdin=b"0 1 " * 3000)
    assert result.status == 3
    assert result.records[0]["error"]["code"] == "E_CONTEXT_LENGTH"


def test_an_empty_file_is_told(cdec: Runner, letters: Path) -> None:
    Path("empty.jsonl").write_bytes(b"\n")
    result = cdec("score", "-a", letters, "--prompt", "x", "-i", "empty.jsonl")
    assert (result.status, result.stdout) == (0, b"")
    assert "W_NO_INPUT" in result.stderr


# --- cdec retokenize end to end: lines and records in, spellings with perplexities out.

KEYS = [
    "text",
    "token_ids",
    "tokens",
    "logprob",
    "perplexity",
    "canonical_token_ids",
    "canonical_logprob",
    "canonical_perplexity",
]
TEXTS = ["The capital of France is Paris.", '{"name": "Ada", "age": 36}', "  two  spaces\t"]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
PROMPT = ("--prompt", "Question: ")


@pytest.mark.usefixtures("loaded")
def test_texts_are_spelt_in_the_tokens_the_model_prefers(cdec: Runner, embedded_model: Any) -> None:
    result = cdec("retokenize", *PROMPT, stdin=LINES)
    assert (result.status, result.stderr) == (0, "")
    assert [record["text"] for record in result.records] == TEXTS
    vocabulary = embedded_model.vocabulary
    for record in result.records:
        assert list(record) == KEYS
        assert vocabulary.decode(record["token_ids"]).decode() == record["text"]
        assert "".join(record["tokens"]) == record["text"]
        assert record["canonical_token_ids"] == vocabulary.encode([record["text"]])[0]
        n = len(record["token_ids"])
        assert record["perplexity"] == pytest.approx(math.exp(-record["logprob"] / n))
        _follows_the_model(record, embedded_model)


def _follows_the_model(record: dict[str, Any], model: Any) -> None:
    """Each token is the most probable prefix of the rest; and the sum is the log probability."""
    vocabulary = model.vocabulary
    root = model.prefill(["Question: "])
    context, left, total = root, record["text"].encode(), 0.0
    for token in record["token_ids"]:
        row = model.next_logprobs(context)[0].double().numpy()
        fitting = [
            t for t, text in enumerate(vocabulary.token_bytes) if text and left.startswith(text)
        ]
        assert row[token] == near(float(max(row[fitting])), 1)
        total += row[token]
        left = left.removeprefix(vocabulary.token_bytes[token])
        context = model.advance(context, [token])
    assert total == near(record["logprob"], len(record["token_ids"]))
    model.release(root)


@pytest.mark.usefixtures("loaded")
def test_records_bring_ids_and_prompts(cdec: Runner) -> None:
    lines = (
        json.dumps({"id": 7, "title": TEXTS[0], "prompt": "Answer: "}) + "\n" + TEXTS[0] + "\n"
    ).encode()
    first, second = cdec("retokenize", *PROMPT, "--field", "title", stdin=lines).records
    assert list(first) == ["id", *KEYS]
    assert first["id"] == 7
    (alone,) = cdec("retokenize", "--prompt", "Answer: ", stdin=TEXTS[0].encode()).records
    assert first["logprob"] == near(alone["logprob"], len(alone["token_ids"]))
    assert first["logprob"] != pytest.approx(second["logprob"], abs=1e-2)


@pytest.mark.usefixtures("loaded")
def test_the_end_is_an_event_where_it_is_asked_for(cdec: Runner) -> None:
    (plain,) = cdec("retokenize", *PROMPT, stdin=TEXTS[0].encode()).records
    (ended,) = cdec("retokenize", *PROMPT, "--end", stdin=TEXTS[0].encode()).records
    assert ended["token_ids"] == plain["token_ids"]
    assert ended["logprob"] < plain["logprob"]
    n = len(ended["token_ids"]) + 1
    assert ended["perplexity"] == pytest.approx(math.exp(-ended["logprob"] / n))


@pytest.mark.usefixtures("loaded")
def test_the_batch_size_changes_no_spelling(cdec: Runner, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(LINES)
    together = cdec("retokenize", *PROMPT, "-i", path).records
    alone = cdec("retokenize", *PROMPT, "-i", path, "--batch-size", "1").records
    assert [r["token_ids"] for r in together] == [r["token_ids"] for r in alone]
    for a, b in zip(together, alone, strict=True):
        assert a["logprob"] == near(b["logprob"], len(b["token_ids"]))


@pytest.mark.usefixtures("loaded")
def test_retokenize_makes_errors_of_bad_records_in_their_place(cdec: Runner) -> None:
    lines = b'ok\n\xff\xfe\xfd\n{"title": 1}\n{"id": "x", "text": 3}\n{"text": "fine"}\n{"text": '
    result = cdec("retokenize", *PROMPT, stdin=lines)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_ENCODING", "E_FIELD", "E_FIELD", None, "E_JSON"]
    assert [record.get("id") for record in result.records] == [
        None,
        "line 2",
        "line 3",
        "x",
        None,
        "line 6",
    ]
    strict = cdec("retokenize", *PROMPT, "--strict", stdin=lines)
    assert (strict.status, strict.error_code) == (65, "E_ENCODING")


@pytest.mark.usefixtures("loaded")
def test_overlong_lines_are_errors_in_their_place(cdec: Runner) -> None:
    result = cdec("retokenize", *PROMPT, "--max-line-bytes", "10", stdin=b"x" * 11 + b"\nshort\n")
    assert result.status == 3
    assert result.records[0]["error"]["code"] == "E_LINE_TOO_LONG"
    assert result.records[1]["text"] == "short"


@pytest.mark.usefixtures("loaded")
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_example_of_the_help_gives_one_record(cdec: Runner) -> None:
    shown = cdec("retokenize", "--help").stdout.decode()
    line = next(line for line in shown.splitlines() if "| jq" in line and "echo" in line)
    made, options = line.split("| cdec retokenize")
    lines = subprocess.run(["sh", "-c", made], capture_output=True, check=True).stdout
    result = cdec("retokenize", *shlex.split(options), stdin=lines)
    assert [record["text"] for record in result.records] == ['{"name": "Ada"}']


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_retokenize_takes_no_text_beyond_the_context(cdec: Runner) -> None:
    result = cdec("retokenize", *PROMPT, stdin=b"0 1 " * 3000)
    assert result.records[0]["error"]["code"] == "E_CONTEXT_LENGTH"
