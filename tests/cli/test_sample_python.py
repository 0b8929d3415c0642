"""What ``cdec sample`` draws, ``cdec.samplers.sample`` draws: same texts, seeds and fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdec.compilers import compile_set, set_constraint
from cdec.samplers import sample
from tests.cli.conftest import Runner
from tests.laws.rounding import near_records

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
