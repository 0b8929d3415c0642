"""Texts as the tokenizer spells them, on the command line and in Python."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts.opened import open_artifact
from cdec.core.errors import UsageError
from cdec.samplers import sample
from tests.cli.conftest import Runner, jsonl, refused

ASKED = "What is the capital of France?"
WORDS = ("sample", "--raw", "--method", "masked", "--canonical")
PERSON = '{"type": "object", "properties": {"name": {"enum": ["Ada", "Bo Li", "Paris"]}}}'


def is_own(model: Any, record: dict[str, Any]) -> bool:
    """Say whether the tokenizer writes a record's tokens for its text."""
    (row,) = model.vocabulary.encode([record["text"]])
    return bool(row == record["token_ids"])


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_every_text_has_the_tokens_of_the_tokenizer(cdec: Runner, embedded_model: Any) -> None:
    record = jsonl({"id": 1, "prompt": "As JSON:", "schema": json.loads(PERSON), "n": 4})
    free = cdec(*WORDS[:-1], "--temperature", 2, stdin=record).records
    assert not all(is_own(embedded_model, drawn) for drawn in free)
    assert all("spelling" not in drawn for drawn in free)
    for drawn in cdec(*WORDS, "--temperature", 2, stdin=record).records:
        assert drawn["spelling"] == "canonical"
        if drawn["finish_reason"] == "complete":
            assert drawn["valid"] and is_own(embedded_model, drawn), drawn


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_masses_and_scores_are_those_of_the_canonical_spellings(
    cdec: Runner, embedded_model: Any
) -> None:
    few = ("--regex", "Paris|London|Par")
    prompt = ("--prompt", ASKED, "--raw")
    (whole,) = cdec("mass", *few, *prompt).records
    (own,) = cdec("mass", *few, *prompt, "--canonical").records
    drawn = cdec("sample", *few, *prompt, "--method", "topn", "-n", 9, "--canonical").records
    assert len(drawn) == 3 and all(is_own(embedded_model, record) for record in drawn)
    total = math.fsum(math.exp(record["logprob"]) for record in drawn)
    assert own["mass_lower"] - 1e-6 <= total <= own["mass_upper"] + 1e-6
    assert own["mass_upper"] <= whole["mass_upper"] + 1e-6
    assert (own["spelling"], "spelling" in whole) == ("canonical", False)
    letters = embedded_model.vocabulary.encode(list("Paris"))
    rows = [drawn[0]["token_ids"], [token for (token,) in letters]]
    texts = jsonl(*({"text": drawn[0]["text"], "token_ids": row} for row in rows[:1]))
    texts += jsonl({"text": "Paris", "token_ids": rows[1]})
    scored = cdec("score", *few, *prompt[:2], "--canonical", stdin=texts).records
    assert [record["member"] for record in scored] == [True, False]
    assert {record["spelling"] for record in scored} == {"canonical"}


@pytest.mark.usefixtures("loaded")
def test_what_cannot_be_canonical_is_refused_by_name(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", ASKED, "--canonical")
    assert "--after" in refused(cdec(*words, "--after", ":"))
    assert "without masks" in refused(cdec(*words, "--method", "unconstrained"))
    labels = ("classify", cities, "--prompt", ASKED, "--canonical")
    assert "--canonical means nothing to cdec classify" in refused(cdec(*labels))


@pytest.mark.usefixtures("loaded")
def test_check_asks_the_tokenizer_for_the_tokens_of_rows(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    constraint: Any = open_artifact(cities, vocabulary=embedded_model.vocabulary)
    flat, offsets = constraint.member_rows()
    row = flat[: offsets[1]].tolist()
    words = ("check", cities, "--token-ids", "--canonical", "--tokenizer", "embedded")
    assert [said["valid"] for said in cdec(*words, stdin=jsonl(row, [5, 6])).records] == [
        True,
        False,
    ]


def test_python_says_the_same_in_one_call(cities: Path, embedded_model: Any) -> None:
    constraint = open_artifact(cities, vocabulary=embedded_model.vocabulary)
    drawn = sample(embedded_model, constraint, ASKED, "masked", n=10, canonical=True)
    assert {each.to_json()["spelling"] for each in drawn} == {"canonical"}
    with pytest.raises(UsageError, match="`canonical` means nothing to unconstrained"):
        sample(embedded_model, constraint, ASKED, "unconstrained", canonical=True)
    with pytest.raises(UsageError, match="has no constraint"):
        sample(embedded_model, None, ASKED, "greedy", canonical=True)
