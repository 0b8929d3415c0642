"""classify on the embedded model: what plain forward passes of transformers say of each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import set_constraint
from cdec.core import load_model
from cdec.core.models.base import LanguageModel
from cdec.data.assets import embedded_model_path
from cdec.samplers import classify
from tests.laws.rounding import near

LABELS = ["Paris", "Parma", "Berlin", "New York", "New Delhi", "ein Haus", "été", "1,234"]
PROMPTS = [
    "Question: What is the capital of France?\nAnswer:",
    'Question: Name the German word for "flower".\nAnswer:',
    "A",
]
EVENTS = 8
"""Most tokens of a label here, its end counted."""


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model(embedded_model_path())


@pytest.fixture(scope="module")
def module() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(embedded_model_path(), dtype=torch.float32).eval()


def plainly(module: Any, model: LanguageModel, prompt: str, texts: list[str]) -> Any:
    """log P of texts and their end, each with a forward pass of its own, float64[L]."""
    found = []
    start = model.encode_prompt(prompt)
    for text in texts:
        row = model.vocabulary.encode([text])[0]
        with torch.no_grad():
            logits = module(torch.tensor([[*start, *row]])).logits[0, len(start) - 1 :].double()
        log_p = torch.log_softmax(logits, -1)
        events = log_p[torch.arange(len(row)), torch.tensor(row)].sum()
        ends = torch.logsumexp(log_p[len(row), list(model.vocabulary.eos_token_ids)], 0)
        found.append(float(events + ends))
    return np.array(found)


def test_labels_are_scored_as_by_plain_forward_passes(model: LanguageModel, module: Any) -> None:
    for prompt, found in zip(PROMPTS, classify(model, LABELS, PROMPTS), strict=True):
        expected = plainly(module, model, prompt, [f" {label}" for label in LABELS])
        mine = {label.text: label for label in found.labels}
        log_p = [mine[label].logprob for label in LABELS]
        assert log_p == near(expected.tolist(), EVENTS)
        law = np.exp(expected - np.logaddexp.reduce(expected))
        assert [mine[text].probability for text in LABELS] == near(law.tolist(), 2 * EVENTS)
        assert found.log_mass == near(float(np.logaddexp.reduce(expected)), EVENTS)
        assert sum(label.probability or 0.0 for label in found.labels) == pytest.approx(
            1.0, abs=1e-12
        )


def test_batches_of_any_size_agree(model: LanguageModel) -> None:
    labels = set_constraint(LABELS, model.vocabulary)
    together = classify(model, labels, PROMPTS * 2)
    for prompt, found in zip(PROMPTS * 2, together, strict=True):
        (alone,) = classify(model, labels, [prompt])
        mine = {label.text: label.logprob for label in found.labels}
        theirs = {label.text: label.logprob for label in alone.labels}
        assert mine == near(theirs, EVENTS)


def test_a_prompts_caches_are_released(model: LanguageModel) -> None:
    before = model.tree.live
    classify(model, LABELS, PROMPTS, calibrate="contextual")
    assert model.tree.live == before
