"""Methods on a CUDA device beside the host: the same seeds, the same draws up to rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from cdec.compilers import grammar_constraint, set_constraint
from cdec.core import Constraint, LanguageModel, Sample, load_model
from cdec.samplers import build_reward, classify, sample
from cdec.samplers.registry import METHODS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PROMPTS = ["The capital of France is", "A city in Italy:", "A list: "]
LIST = 'start: "[" [ITEM ("," ITEM)*] "]"\nITEM: /[a-c]{1,3}/'
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "asap": {"burn_in": 8},
    "topn": {"n": 2},
    "mentored": {"divergence": 0.2},
    "cdlh": {"reward": build_reward("regex:a")},
    "cdlh-approx": {"reward": build_reward("regex:a")},
    "cdsl": {"reward": build_reward("regex:a")},
}


@pytest.fixture(scope="module")
def models() -> dict[str, LanguageModel]:
    return {
        device: load_model("embedded", device=device, dtype="float32") for device in ("cpu", "cuda")
    }


@pytest.fixture(scope="module")
def drafts() -> dict[str, LanguageModel]:
    return {
        device: load_model("embedded-draft", device=device, dtype="float32")
        for device in ("cpu", "cuda")
    }


def _constraint(kind: str, model: LanguageModel) -> Constraint:
    if kind == "set":
        return set_constraint(["Paris", "Lyon", "New York", "New York City"], model.vocabulary)
    return grammar_constraint(LIST, model.vocabulary)


@pytest.mark.parametrize("kind", ["set", "grammar"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "unconstrained"])
def test_methods_draw_on_a_device_what_they_draw_on_the_host(
    method: str,
    kind: str,
    models: Mapping[str, LanguageModel],
    drafts: Mapping[str, LanguageModel],
) -> None:
    drawn: dict[str, list[list[Sample]]] = {}
    for device, model in models.items():
        options = dict(OPTIONS.get(method, {}))
        if METHODS[method].needs_draft or method in ("cdlh-approx", "cdsl"):
            options["draft"] = drafts[device]
        constraint = _constraint(kind, model)
        options.setdefault("n", 2)
        drawn[device] = sample(
            model, constraint, PROMPTS, method=method, seed=5, max_new_tokens=24, **options
        )
    pairs = [
        (here, there)
        for host, device in zip(drawn["cpu"], drawn["cuda"], strict=True)
        for here, there in zip(host, device, strict=True)
    ]
    assert pairs
    alike = [pair for pair in pairs if pair[0].text == pair[1].text]
    # A uniform between two rounded sums falls on either side: rare.
    assert len(alike) >= 0.8 * len(pairs)
    for here, there in alike:
        assert here.valid == there.valid and here.finish_reason == there.finish_reason
        if here.logprob is not None:
            room = models["cpu"].event_rounding * (1 + len(here.token_ids))
            assert here.logprob == pytest.approx(there.logprob, abs=room)
    for _, there in pairs:
        if there.finish_reason == "complete":
            assert there.valid


def test_labels_are_as_probable_as_on_the_host(models: Mapping[str, LanguageModel]) -> None:
    labels = ["Paris", "Lyon", "New York"]
    found = [classify(model, PROMPTS, labels) for model in models.values()]
    for here, there in zip(*found, strict=True):
        assert here.label == there.label
        for mine, its in zip(here.labels, there.labels, strict=True):
            assert mine.text == its.text
            assert mine.probability == pytest.approx(its.probability, abs=1e-3)
