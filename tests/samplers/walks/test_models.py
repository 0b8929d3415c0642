"""Every sampler on every kind of model; what records claim is recomputed without cache or session.

The reference is one plain forward pass over the whole text and a brute-force list of what may
follow each prefix: log P(text), the product of step masses and the sampler's choice must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import compile_token_set
from cdec.core import CdecError, LanguageModel, Sample, load_model, open_artifact
from cdec.core.models.transformers.causal import CausalModel, can_pool
from cdec.core.models.transformers.encoder_decoder import EncoderDecoderModel
from cdec.core.models.transformers.full_forward import FullForwardModel
from cdec.data.assets import embedded_model_path
from cdec.samplers import SAMPLERS, Request
from tests.core.models.tiny_models import (
    VOCABULARY,
    plain_encoder,
    plain_logprobs,
    plain_pair_logprobs,
    tiny_module,
)
from tests.laws.rounding import near

PROMPTS = [[5, 6, 7, 8], [9], [5, 6, 11, 3, 2]]
Plain = Callable[[list[int], list[int]], torch.Tensor]
"""(prompt ids, text ids) -> log probabilities at every place of the text and after it."""
SAMPLER_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("masked", {}),
    ("greedy", {}),
    ("beam", {"beams": 3}),
    ("disc", {"K": 3}),
    ("disc", {"K": 2, "recycle": True}),
    ("unconstrained", {}),
]


def causal_plain(module: Any) -> Plain:
    def after(prompt: list[int], text: list[int]) -> torch.Tensor:
        return plain_logprobs(module, [*prompt, *text])[len(prompt) - 1 :]

    return after


def tiny(name: str) -> tuple[LanguageModel, Plain]:
    """Return a tiny random model of ours, and its plain forward pass."""
    module = tiny_module(name)
    if module.config.is_encoder_decoder:
        start = module.config.decoder_start_token_id

        def after(prompt: list[int], text: list[int]) -> torch.Tensor:
            return plain_pair_logprobs(module, prompt, [start, *text])

        return EncoderDecoderModel(module, VOCABULARY, plain_encoder(), context_length=64), after
    kind = CausalModel if can_pool(module) else FullForwardModel
    return kind(module, VOCABULARY, plain_encoder(), context_length=64), causal_plain(module)


def loaded(path: Path) -> tuple[LanguageModel, Plain]:
    """Return a model loaded from a folder, and its plain forward pass."""
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    return load_model(path), causal_plain(module)


def random_rows(vocabulary: Any, rng: np.random.Generator) -> list[list[int]]:
    """Return members that share beginnings, prefixes of one another among them."""
    ordinary = np.flatnonzero(vocabulary.is_ordinary)
    few = rng.choice(ordinary, 4, replace=False)
    rows = {tuple(rng.choice(few, rng.integers(1, 6)).tolist()) for _ in range(60)}
    return sorted(map(list, rows))


def allowed_after(rows: list[list[int]], prefix: list[int], end_ids: list[int]) -> list[int]:
    """Return what may follow a prefix, by looking at every row."""
    n = len(prefix)
    following = {row[n] for row in rows if row[:n] == prefix and len(row) > n}
    return sorted(following) + (end_ids if prefix in rows else [])


def reference(
    plain: Plain, prompt: list[int], text: list[int], rows: list[list[int]], end_ids: list[int]
) -> tuple[float, float]:
    """Return log P(text) with its end event, and the sum of log Z along it."""
    logprobs = plain(prompt, text).double()
    log_p = sum(float(logprobs[i, token]) for i, token in enumerate(text))
    log_p += float(torch.logsumexp(logprobs[len(text), end_ids], 0))
    log_x = sum(
        float(torch.logsumexp(logprobs[i, allowed_after(rows, text[:i], end_ids)], 0))
        for i in range(len(text) + 1)
    )
    return log_p, log_x


def draw(
    model: LanguageModel, constraint: Any, prompts: list[list[int]], name: str, **options: Any
) -> list[list[Sample]]:
    requests = [
        Request(prompt, constraint, [3 * i, 3 * i + 1, 3 * i + 2])
        for i, prompt in enumerate(prompts)
    ]
    results = []
    for drawn in SAMPLERS[name](**options).draw_batch(model, requests):
        assert not isinstance(drawn, CdecError), drawn
        results.append(drawn)
    return results


def assert_records_are_true(model: LanguageModel, plain: Plain, folder: Path) -> None:
    rows = random_rows(model.vocabulary, np.random.default_rng(4))
    compile_token_set(rows, model.vocabulary, folder / "rows.arrow")
    constraint = open_artifact(folder / "rows.arrow", vocabulary=model.vocabulary)
    end_ids = list(model.vocabulary.eos_token_ids)
    for name, options in SAMPLER_OPTIONS:
        for prompt, samples in zip(
            PROMPTS, draw(model, constraint, PROMPTS, name, **options), strict=True
        ):
            for sample in samples:
                if name == "unconstrained" and sample.finish_reason != "complete":
                    continue
                text = list(sample.token_ids)
                log_p, log_x = reference(plain, prompt, text, rows, end_ids)
                assert sample.logprob == near(float(log_p), 1 + len(text)), name
                if name == "unconstrained":
                    assert bool(sample.valid) >= (text in rows)
                    continue
                assert sample.finish_reason == "complete"
                assert sample.valid
                assert text in rows
                if name != "beam":
                    assert sample.log_candidate_weight == near(float(log_x), 1 + len(text)), name
                if name == "masked":
                    assert sample.log_weight == sample.log_candidate_weight


@pytest.mark.parametrize("name", ["llama", "gpt2", "mamba", "bart", "t5"])
def test_records_are_true_on_tiny_models(name: str, tmp_path: Path) -> None:
    assert_records_are_true(*tiny(name), tmp_path)


@pytest.mark.parametrize("name", ["target", "draft"])
def test_records_are_true_on_the_embedded_models(name: str, tmp_path: Path) -> None:
    assert_records_are_true(*loaded(embedded_model_path(name)), tmp_path)


@pytest.mark.parametrize("folder", ["model_stories260k", "model_rwkv_tiny"])
def test_records_are_true_on_shared_models(folder: str, shared: Path, tmp_path: Path) -> None:
    path = shared / "data" / folder / "hf"
    if not path.is_dir():
        pytest.skip(f"no {folder} in the shared data")
    if folder == "model_rwkv_tiny":
        # Its vocabulary is the bytes: token id = byte, and it has no tokenizer.
        from transformers import AutoModelForCausalLM

        from cdec.core.tokens.vocabulary import Vocabulary

        module = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        vocabulary = Vocabulary([bytes([i]) for i in range(256)], eos_token_ids=[0])
        model = load_model(path, vocabulary=vocabulary)
        assert_records_are_true(model, causal_plain(module), tmp_path)
        return
    assert_records_are_true(*loaded(path), tmp_path)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_greedy_is_the_best_allowed_token_at_every_step(name: str, tmp_path: Path) -> None:
    model, plain = tiny(name)
    rows = random_rows(model.vocabulary, np.random.default_rng(8))
    compile_token_set(rows, model.vocabulary, tmp_path / "rows.arrow")
    constraint = open_artifact(tmp_path / "rows.arrow", vocabulary=model.vocabulary)
    end_ids = list(model.vocabulary.eos_token_ids)
    for prompt, samples in zip(PROMPTS, draw(model, constraint, PROMPTS, "greedy"), strict=True):
        text = list(samples[0].token_ids)
        logprobs = plain(prompt, text)
        for i, token in enumerate([*text, end_ids[0]]):
            allowed = allowed_after(rows, text[:i], end_ids)
            best = max(float(logprobs[i, t]) for t in allowed)
            assert float(logprobs[i, token]) == near(best, 1)
