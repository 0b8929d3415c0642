"""Trees of real models: told apart by weights and settings, the same however they are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import TreeMismatchError
from cdec.core.models.base import LanguageModel
from cdec.core.models.fingerprint import model_fingerprint
from cdec.core.models.transformers.causal import CausalModel
from cdec.core.models.transformers.encoder_decoder import EncoderDecoderModel
from cdec.core.models.transformers.full_forward import FullForwardModel
from cdec.samplers.exact import ExactSampler
from cdec.samplers.learning.saved import TreeFile
from tests.core.models.tiny_models import VOCABULARY, plain_encoder, tiny_module
from tests.laws.toys import toy_set

ROWS = [(5, 6), (5, 6, 7), (5, 9), (11,), (12, 13, 14), (12, 13)]


def wrapped(module: Any, *, pooled: bool = True) -> LanguageModel:
    kind: Any = CausalModel if pooled else FullForwardModel
    if module.config.is_encoder_decoder:
        kind = EncoderDecoderModel
    model: LanguageModel = kind(module, VOCABULARY, plain_encoder(), context_length=64)
    return model


def draw(model: LanguageModel, path: Path) -> list[Any]:
    sampler = ExactSampler(tree=TreeFile(path), max_draws=5)
    constraint = toy_set(ROWS, VOCABULARY)
    samples: list[Any] = sampler.draw(
        model, constraint, [5, 6, 7], n=8, rng=np.random.default_rng(3)
    )
    return samples


@pytest.mark.parametrize("name", ["llama", "gpt2", "bart", "t5"])
def test_a_tree_goes_on_with_the_same_weights_and_no_others(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tree.arrow"
    first = draw(wrapped(tiny_module(name)), path)
    second = draw(wrapped(tiny_module(name), pooled=False), path)
    assert second[0].diagnostics["iteration"] > first[-1].diagnostics["draws"]
    for bound, sign in (("log_mass_lower", 1), ("log_mass_upper", -1)):
        gap = sign * (second[0].diagnostics[bound] - first[-1].diagnostics[bound])
        assert gap >= -1e-9
    trained = tiny_module(name)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1.01)
    with pytest.raises(TreeMismatchError, match="another model"):
        draw(wrapped(trained), path)


def test_fingerprints_know_weights_precision_and_settings() -> None:
    def of(change: Any = None) -> str:
        module = tiny_module("llama")
        if change is not None:
            with torch.no_grad():
                change(module)
        return model_fingerprint(wrapped(module))

    plain = of()
    assert of() == plain
    assert model_fingerprint(wrapped(tiny_module("llama"), pooled=False)) == plain

    def renamed(module: Any) -> None:
        module.config._name_or_path = "/somewhere/else"

    assert of(renamed) == plain

    def normalised(module: Any) -> None:
        module.config.rms_norm_eps = 1e-3

    changes = [
        lambda module: module.to(torch.bfloat16),
        lambda module: module.lm_head.weight.add_(1e-3),
        lambda module: module.model.layers[1].mlp.up_proj.weight.mul_(-1),
        normalised,
    ]
    assert len({plain, *map(of, changes)}) == 1 + len(changes)
    assert of() != model_fingerprint(wrapped(tiny_module("gpt2")))
