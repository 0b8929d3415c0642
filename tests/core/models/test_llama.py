"""Decoders of Llama's family beside the modules of transformers that they stand for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from cdec.core import load_model
from cdec.core.errors import ExtraMissingError, ModelError, UsageError
from cdec.core.models.base import Budget
from cdec.core.models.transformers.base import TransformersModel
from cdec.core.models.transformers.llama import Llama, lean_decoder
from cdec.core.models.transformers.pooled import PooledModel
from tests.core.models.tiny_models import VOCABULARY, WIDTH, plain_encoder, plain_logprobs

_COMMON: dict[str, Any] = {
    "vocab_size": WIDTH,
    "hidden_size": 48,
    "intermediate_size": 76,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 600,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILY: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "biased": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True, "head_dim": 16}),
    "llama3": ("LlamaConfig", {"rope_parameters": _LLAMA3}),
    "yarn": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}},
    ),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 20}),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "sliding": ("MistralConfig", {"sliding_window": 4}),
    "sliding layers": (
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "gelu": ("LlamaConfig", {"hidden_act": "gelu"}),
    "dynamic": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
    ),
    "another": ("GPTNeoXConfig", {}),
}


def module_of(kind: str, options: dict[str, Any], **how: Any) -> Any:
    """Return a random module of peaked distributions, so that a wrong position shows."""
    torch.manual_seed(5)
    config = getattr(transformers, kind)(**_COMMON | options)
    module = transformers.AutoModelForCausalLM.from_config(config, **how)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3) if parameter.dim() > 1 else parameter.uniform_(-0.7, 1.3)
    return module.eval().requires_grad_(False)


def pooled(module: Any, **sizes: int) -> TransformersModel:
    """Return the model that runs a module over the pool; sizes as of ``Budget``."""
    from cdec.core.models.transformers.architectures import CausalModel

    kind = PooledModel if isinstance(module, Llama) else CausalModel
    return kind(module, VOCABULARY, plain_encoder(600), context_length=600, budget=Budget(**sizes))


@pytest.mark.parametrize("name", FAMILY)
def test_a_lean_decoder_gives_the_scores_of_its_module(name: str) -> None:
    module = module_of(*FAMILY[name])
    reference = pooled(copy.deepcopy(module))
    print_before = reference.fingerprint()
    lean = lean_decoder(module)
    assert lean is not None
    ours = pooled(lean)
    # Rows of several lengths, past the first table of rotations, then one and several new tokens.
    prompts = [[2 + (i * k) % 50 for i in range(3 + 97 * k)] for k in range(4)]
    found = []
    for model in (ours, reference):
        contexts = model.prefill(prompts)
        scores = [model.next_logprobs(contexts)]
        for step in range(5):
            for token in range(1 + step % 3):
                contexts = model.advance(contexts, [9 + step + token] * len(prompts))
            scores.append(model.next_logprobs(contexts))
        found.append(torch.stack([torch.as_tensor(each) for each in scores]))
    torch.testing.assert_close(*found, atol=2e-4, rtol=0)
    assert ours.fingerprint() == print_before


def test_short_rows_whose_keys_a_long_one_evicted_are_read_anew() -> None:
    module = module_of(*FAMILY["llama"])
    # Room for 400 tokens: the long prompt leaves the others some twenty.
    model: Any = pooled(module, key_value_bytes=400 * 384, cache_bytes=4000)
    model._padding = 8
    rng = np.random.default_rng(1)
    long = [2 + (i * 7) % 50 for i in range(372)]
    rows = model.prefill([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14], long])
    for step in range(30):
        for row, context in zip(model.next_logprobs(rows), rows.tolist(), strict=True):
            expected = plain_logprobs(module, model.whole_tokens(context))[-1]
            torch.testing.assert_close(row, expected, atol=2e-4, rtol=0)
        if step >= 11 and step % 3 == 0:
            # Another prompt takes the buffers: those of these rows come from the pool again.
            model.next_logprobs(model.prefill([[3, 3, 4]]))
        rows = model.advance(rows, rng.integers(2, 50, 3))


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_of_another_law_has_no_lean_decoder(name: str) -> None:
    assert lean_decoder(module_of(*REFUSED[name])) is None


def _hooked(module: Any) -> None:
    module.model.layers[1].mlp.register_forward_hook(lambda *_: None)


def _adapted(module: Any) -> None:
    module.model.layers[0].mlp.extra = torch.nn.Linear(2, 2)


def _mixed(module: Any) -> None:
    module.lm_head.to(torch.bfloat16)


def _doubled(module: Any) -> None:
    # What no configuration says: the scores of a few tokens tell it.
    forward = module.model.layers[0].mlp.forward
    module.model.layers[0].mlp.forward = lambda states: 2 * forward(states)


@pytest.mark.parametrize("change", [_hooked, _adapted, _mixed, _doubled])
def test_a_module_that_was_changed_has_no_lean_decoder(change: Callable[[Any], None]) -> None:
    module = module_of(*FAMILY["llama"])
    change(module)
    assert lean_decoder(module) is None


def test_the_eager_attention_that_was_asked_for_is_kept() -> None:
    module = module_of(*FAMILY["llama"], attn_implementation="eager")
    assert lean_decoder(module) is None


def test_weights_are_held_once() -> None:
    module = module_of(*FAMILY["qwen2"])
    held = sum(part.nbytes for part in module.parameters())
    lean = lean_decoder(module)
    assert lean is not None
    assert sum(part.nbytes for part in lean.parameters()) == held
    assert not lean.training
    assert not any(part.requires_grad for part in lean.parameters())
    ours = {part.untyped_storage().data_ptr() for part in lean.parameters()}
    assert {part.untyped_storage().data_ptr() for part in module.parameters()} == ours


def test_a_loaded_llama_runs_lean_and_a_wrapped_one_as_it_is(tmp_path: Any) -> None:
    module = module_of(*FAMILY["qwen3"])
    module.save_pretrained(tmp_path)
    model: Any = load_model(tmp_path, vocabulary=VOCABULARY)
    assert isinstance(model._module, Llama)
    eager: Any = load_model(tmp_path, vocabulary=VOCABULARY, attn_implementation="eager")
    assert not isinstance(eager._module, Llama)
    assert model.fingerprint() == eager.fingerprint()


def compiled_beside_plain(backend: Any, steps: int) -> float:
    """Return by how much log probabilities of compiled steps differ from plain ones, at most.

    Rows are of several lengths, leave, come twice, and outgrow their buffers.
    """
    models: list[Any] = [pooled(lean_decoder(module_of(*FAMILY["qwen3"]))) for _ in range(2)]
    models[0].compile_steps(backend)
    rng = np.random.default_rng(0)
    prompts = [[2 + (i * k) % 50 for i in range(3 + 9 * k)] for k in range(6)]
    contexts = [model.prefill(prompts) for model in models]
    worst = 0.0
    for step in range(steps):
        found = [
            torch.as_tensor(model.next_logprobs(rows))
            for model, rows in zip(models, contexts, strict=True)
        ]
        worst = max(worst, float((found[0] - found[1]).abs().max()))
        rows = np.arange(len(contexts[0]))
        if step % 9 == 8 and len(rows) > 1:
            rows = np.sort(rng.choice(rows, len(rows) - 1, replace=False))
        if step == steps // 2:
            rows = rows[[0, 0, 1, 1, 0]]
        tokens = rng.integers(2, 50, len(rows))
        contexts = [
            model.advance(each[rows], tokens) for model, each in zip(models, contexts, strict=True)
        ]
    return worst


@pytest.mark.slow
def test_compiled_steps_are_those_of_the_module_and_compiled_few_times() -> None:
    graphs = []

    def backend(graph: Any, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    assert compiled_beside_plain(backend, 60) < 1e-4
    assert 2 <= len(graphs) <= 6


@pytest.mark.slow
def test_steps_that_torch_compiles_are_those_of_the_module() -> None:
    assert compiled_beside_plain("inductor", 20) < 1e-4


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(UsageError, match="Llama's family"):
        load_model("embedded-draft", attn_implementation="sdpa", compile=True)
    with pytest.raises(UsageError, match="key-value cache"):
        load_model("embedded-draft", key_value_bytes=0, compile=True)


def test_a_missing_compiler_is_told_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import cpp_builder, exc

    def missing() -> str:
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", missing)
    with pytest.raises(ExtraMissingError, match="needs a C\\+\\+ compiler"):
        load_model("embedded-draft", compile=True)


@pytest.mark.slow
def test_a_compiler_that_fails_is_named() -> None:
    def backend(graph: Any, _: object) -> Any:
        raise RuntimeError("no compiler")

    with pytest.raises(ModelError, match="cannot compile") as raised:
        compiled_beside_plain(backend, 3)
    assert "g++" in raised.value.hint
