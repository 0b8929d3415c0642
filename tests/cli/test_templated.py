"""Fixed parts spelled apart, on the command line and in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts.opened import open_artifact
from cdec.core.combine.templated import templated
from cdec.core.errors import UsageError
from cdec.samplers import sample
from tests.cli.conftest import Runner, jsonl, refused

ASKED = "What is the capital of France?"
PERSON = r'\{"name": "[A-Z][a-z]{1,3}", "age": [1-9]\}'
HEAD = '{"name": "'


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_fixed_parts_have_the_tokens_that_they_have_alone(
    cdec: Runner, embedded_model: Any
) -> None:
    own = embedded_model.vocabulary.encode([HEAD])[0]
    words = ("--regex", PERSON, "--prompt", ASKED, "--raw")
    drawn = cdec("sample", *words, "--method", "masked", "-n", 4, "--templated").records
    for record in drawn:
        assert record["spelling"] == "templated" and record["valid"]
        assert record["token_ids"][: len(own)] == own
    texts = jsonl(*({"text": record["text"]} for record in drawn))
    texts += jsonl({"text": drawn[0]["text"], "token_ids": drawn[0]["token_ids"]})
    letters = [row[0] for row in embedded_model.vocabulary.encode(list(drawn[0]["text"]))]
    texts += jsonl({"text": drawn[0]["text"], "token_ids": letters})
    scored = cdec("score", *words[:-1], "--templated", stdin=texts).records
    assert [record["member"] for record in scored] == [True] * 5 + [False]
    assert scored[4]["logprob"] == pytest.approx(drawn[0]["logprob"], abs=1e-4)
    (mass,) = cdec("mass", *words, "--templated").records
    (free,) = cdec("mass", *words).records
    assert mass["spelling"] == "templated" and mass["mass_lower"] <= free["mass_upper"]


@pytest.mark.usefixtures("loaded")
def test_check_refuses_tokens_that_cross_a_border(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    constraint: Any = open_artifact(cities, vocabulary=embedded_model.vocabulary)
    flat, offsets = constraint.member_rows()
    row = flat[: offsets[1]].tolist()
    cut = templated(constraint).token_ids_of(constraint.member_text(row))
    words = ("check", cities, "--token-ids", "--templated", "--tokenizer", "embedded")
    found = cdec(*words, stdin=jsonl(row, cut)).records
    assert [said["valid"] for said in found] == [False, True]


@pytest.mark.usefixtures("loaded")
def test_what_has_no_fixed_parts_is_refused_by_name(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, "--prompt", ASKED, "--templated")
    assert "--after" in refused(cdec(*words, "--after", ":"))
    assert "without masks" in refused(cdec(*words, "--method", "unconstrained"))
    both = json.loads(cdec(*words, "--canonical").stdout)
    assert "--canonical" in both["error"]["message"]
    labels = ("classify", cities, "--prompt", ASKED, "--templated")
    assert "--templated means nothing to cdec classify" in refused(cdec(*labels))


def test_python_says_the_same_in_one_call(cities: Path, embedded_model: Any) -> None:
    constraint = open_artifact(cities, vocabulary=embedded_model.vocabulary)
    drawn = sample(embedded_model, constraint, ASKED, "masked", n=10, templated=True)
    assert {each.to_json()["spelling"] for each in drawn} == {"templated"}
    narrow = templated(constraint)
    for each in drawn:
        assert narrow.token_ids_of((each.text or "").encode()) is not None
    with pytest.raises(UsageError, match="`templated` means nothing to unconstrained"):
        sample(embedded_model, constraint, ASKED, "unconstrained", templated=True)
