"""Encoder-decoder models and models without a key-value cache equal plain forward passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.models.loading import load_model
from cdec.core.models.transformers.causal import can_pool
from cdec.core.models.transformers.encoder_decoder import EncoderDecoderModel
from cdec.core.models.transformers.full_forward import FullForwardModel
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.models.tiny_models import (
    VOCABULARY,
    plain_encoder,
    plain_logprobs,
    plain_pair_logprobs,
    tiny_module,
)
from tests.laws.rounding import tolerance

TOLERANCE = tolerance(1)


def pair(name: str, **options: Any) -> EncoderDecoderModel:
    length = None if name == "t5" else 64
    return EncoderDecoderModel(
        tiny_module(name), VOCABULARY, plain_encoder(length), context_length=length, **options
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bart", {}),
        ("t5", {}),
        ("bart", {"key_value_bytes": 20 * 512, "cache_bytes": 1000, "max_batch_rows": 3}),
    ],
)
def test_encoder_decoder_trees_equal_plain_forward_passes(
    name: str, options: dict[str, int]
) -> None:
    model = pair(name, **options)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(2, 60, n).tolist() for n in (2, 7, 3, 20)]
    roots = model.prefill(prompts)
    prompt_of = dict(zip(roots.tolist(), prompts, strict=True))
    contexts = roots
    for step in range(4):
        children = model.advance(rng.choice(contexts, 5), rng.integers(2, 60, 5))
        if step % 2:
            children = np.concatenate([children, model.advance(children, [9] * 5)])
        contexts = np.concatenate([contexts, children])
        asked = np.concatenate([children, rng.choice(contexts, 4)])
        for row, context in zip(model.next_logprobs(asked), asked.tolist(), strict=True):
            prompt = prompt_of[int(model.rollback([context], len(model.tokens(context)))[0])]
            start = model._module.config.decoder_start_token_id
            expected = plain_pair_logprobs(model._module, prompt, [start, *model.tokens(context)])
            torch.testing.assert_close(row, expected[-1], atol=TOLERANCE, rtol=0)
    assert model.prompt_length(int(roots[3])) == 20
    model.release(roots)
    assert model._pool.used == 0
    assert not model._cross


def test_a_forced_first_token_stands_before_the_text() -> None:
    module = tiny_module("bart")
    module.generation_config.forced_bos_token_id = 0
    model = EncoderDecoderModel(module, VOCABULARY, plain_encoder(), context_length=64)
    root = model.prefill([[4, 5, 6]])
    expected = plain_pair_logprobs(module, [4, 5, 6], [2, 0])[-1]
    torch.testing.assert_close(model.next_logprobs(root)[0], expected, atol=TOLERANCE, rtol=0)
    assert model.max_new_tokens(int(root[0])) == 62


def test_a_recurrent_model_reads_whole_prefixes() -> None:
    module = tiny_module("mamba")
    assert not can_pool(module)
    model = FullForwardModel(module, VOCABULARY, plain_encoder(), context_length=None)
    roots = model.prefill([[5, 6, 7], [8, 9]])
    _, end = model.extend(int(roots[0]), [10, 11])
    asked = np.concatenate([roots, model.advance([end, int(roots[1])], [12, 13])])
    tokens = [[5, 6, 7], [8, 9], [5, 6, 7, 10, 11, 12], [8, 9, 13]]
    for row, sequence in zip(model.next_logprobs(asked), tokens, strict=True):
        expected = plain_logprobs(module, sequence)[-1]
        torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
    # extend: one sequence of 5 tokens answers two positions; then three rows, prefixes included.
    assert model.usage(int(roots[0])).calls == 2
    assert model.usage(int(roots[0])).tokens == 5 + 6
    model.release(roots)
    assert model._tree.live == 0


def test_keeping_no_keys_reads_whole_prefixes_too(tmp_path: Path) -> None:
    module = tiny_module("llama")
    module.save_pretrained(tmp_path)
    model = load_model(tmp_path, vocabulary=VOCABULARY, key_value_bytes=0)
    assert isinstance(model, FullForwardModel)
    got = model.next_logprobs(model.prefill([[5, 6, 7]]))[0]
    expected = plain_logprobs(module, [5, 6, 7])[-1]
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


def test_rwkv_gives_the_recorded_logits(shared: Path) -> None:
    folder = shared / "data" / "model_rwkv_tiny"
    bytes_ = Vocabulary([bytes([i]) for i in range(256)], eos_token_ids=[0])
    model = load_model(folder / "hf", vocabulary=bytes_)
    assert isinstance(model, FullForwardModel)
    expected = np.fromfile(folder / "expected_logits_prompt_quote_in.f32", np.float32)
    got = model.evaluate(model.prefill([list(b'"in')])).scores[0].numpy()
    np.testing.assert_allclose(got, expected, atol=TOLERANCE)


def test_stories_model_equals_its_plain_forward_pass(shared: Path) -> None:
    model = load_model(shared / "data" / "model_stories260k" / "hf")
    root = int(model.prefill(["Once upon a time"])[0])
    token_ids = model.vocabulary.encode([", there was a little"])[0]
    logprobs, _ = model.extend(root, token_ids)
    plain = plain_logprobs(model._module, model._prompt_ids[root] + token_ids)
    torch.testing.assert_close(logprobs, plain[-len(token_ids) :], atol=TOLERANCE, rtol=0)


def test_rows_of_many_lengths_are_split_to_bound_their_logits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = tiny_module("mamba")
    prompts = [[5 + i] * (1 + i) for i in (4, 0, 3, 1, 2)]
    widest = 0

    class Watched(FullForwardModel):
        def _run(self, nodes: np.ndarray) -> torch.Tensor:
            nonlocal widest
            widest = max(widest, len(nodes) * len(np.unique(self._positions(nodes))))
            return super()._run(nodes)

    monkeypatch.setattr(
        "cdec.core.models.transformers.full_forward._LOGITS_BYTES", 4 * 4 * VOCABULARY.width
    )
    model = Watched(module, VOCABULARY, plain_encoder(), context_length=None)
    rows = model.next_logprobs(model.prefill(prompts))
    for row, prompt in zip(rows, prompts, strict=True):
        expected = plain_logprobs(module, prompt)[-1]
        torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
    assert widest == 4
