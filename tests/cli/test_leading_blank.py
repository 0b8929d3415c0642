"""One rule for the blank that a set puts before its members, whichever command meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import MEMBERS, Runner

PROMPT = ("--prompt", "Question: What is the capital of Italy?\nAnswer:")


def jsonl(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def test_check_takes_a_text_with_the_blank_and_without(cdec: Runner, cities: Path) -> None:
    texts = jsonl("Rome", " Rome", "  Rome", " Romulus", "Romulus")
    verdicts = cdec("check", cities, "--format", "jsonl", "--field", "text", stdin=texts).records
    assert [v["valid"] for v in verdicts] == [True, True, False, False, False]
    assert [v["text"] for v in verdicts] == ["Rome", "Rome", " Rome", "Romulus", "Romulus"]
    assert verdicts[0]["entity_ids"] == verdicts[1]["entity_ids"]
    assert verdicts[3]["byte"] == verdicts[4]["byte"] == 3


@pytest.mark.usefixtures("loaded")
def test_unconstrained_texts_are_valid_where_check_says_so(cdec: Runner, cities: Path) -> None:
    words = ("-a", cities, "--method", "unconstrained", "-n", 200, "--temperature", 1.5)
    drawn = cdec("sample", *PROMPT, *words).records
    whole = [record for record in drawn if record["finish_reason"] == "complete"]
    texts = jsonl(*(record["text"] for record in whole))
    said = cdec("check", cities, "--format", "jsonl", "--field", "text", stdin=texts).records
    assert [v["valid"] for v in said] == [record["valid"] for record in whole]
    assert not any(record["text"].startswith(" ") and record["valid"] for record in whole)
    assert {record["text"] for record in whole if record["valid"]} <= set(MEMBERS)
    assert any(record["valid"] for record in whole)


@pytest.mark.usefixtures("loaded")
def test_score_reads_both_forms_alike_and_says_what_it_scored(cdec: Runner, cities: Path) -> None:
    texts = jsonl("Rome", " Rome")
    held = cdec("score", "-a", cities, *PROMPT, stdin=texts).records
    assert {score["logprob"] for score in held} == {held[0]["logprob"]}
    assert [score["scored_text"] for score in held] == [" Rome"] * 2
    assert all(score["member"] and score["valid"] for score in held)
    free = cdec("score", *PROMPT, stdin=texts).records
    assert [score["scored_text"] for score in free] == ["Rome", " Rome"]
    assert free[1]["logprob"] == pytest.approx(held[0]["logprob"], abs=1e-3)


@pytest.mark.usefixtures("loaded")
def test_candidates_and_denied_texts_may_have_the_blank(cdec: Runner, cities: Path) -> None:
    Path("denied.txt").write_text(" Rome\n")
    words = ("-a", cities, "--method", "topn", "-n", len(MEMBERS))
    left = cdec("sample", *PROMPT, *words, "--deny", "denied.txt").records
    assert {record["text"] for record in left} == set(MEMBERS) - {"Rome"}
    record = json.dumps({"prompt": "A city:", "candidates": [" Rome", "Oslo"]}).encode()
    chosen = cdec("sample", *words, "-i", "-", stdin=record + b"\n").records
    assert {record["text"] for record in chosen} == {"Rome", "Oslo"}
