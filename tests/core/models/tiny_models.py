"""Tiny random transformers models and the plain forward pass that cached ones must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from cdec.core.models.prompts import PromptEncoder
from cdec.core.tokens.vocabulary import Vocabulary

WIDTH = 61
"""Logits width; token 0 ends and begins, 1 is padding."""
VOCABULARY = Vocabulary(
    [bytes([i]) for i in range(60)],
    eos_token_ids=[0],
    special_token_ids=[0, 1],
    bos_token_id=0,
    width=WIDTH,
)
_COMMON: dict[str, Any] = {
    "vocab_size": WIDTH,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
_SIZES = {"d_model": 32, "vocab_size": WIDTH, "pad_token_id": 1, "eos_token_id": 0}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {**_COMMON, "num_key_value_heads": 2}),
    "mistral": ("MistralConfig", {**_COMMON, "num_key_value_heads": 2, "sliding_window": 4}),
    "gpt_neox": ("GPTNeoXConfig", _COMMON),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": WIDTH, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
    "opt": ("OPTConfig", {**_COMMON, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BloomConfig", {"vocab_size": WIDTH, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mamba": ("MambaConfig", {"vocab_size": WIDTH, "hidden_size": 32, "num_hidden_layers": 2}),
    "rwkv": (
        "RwkvConfig",
        {
            "vocab_size": WIDTH,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "attention_hidden_size": 32,
        },
    ),
    "bart": (
        "BartConfig",
        {
            **_SIZES,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
        },
    ),
    "t5": (
        "T5Config",
        {
            **_SIZES,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "num_heads": 4,
            "decoder_start_token_id": 1,
        },
    ),
}


def tiny_module(name: str, attention: str | None = None) -> Any:
    """Return a random model of peaked distributions, so that a wrong position shows."""
    torch.manual_seed(7)
    kind, options = CONFIGS[name]
    config = getattr(transformers, kind)(**options)
    is_pair = config.is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if is_pair else transformers.AutoModelForCausalLM
    module = auto.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return module.eval().requires_grad_(False)


def plain_encoder(context_length: int | None = 64) -> PromptEncoder:
    """Return the encoder of prompts given as token ids."""
    return PromptEncoder(None, VOCABULARY, context_length=context_length)


def plain_logprobs(module: Any, tokens: Sequence[int]) -> torch.Tensor:
    """Return log probabilities after every position, float[len(tokens), WIDTH], without cache."""
    with torch.no_grad():
        output = module(input_ids=torch.tensor([list(tokens)]), use_cache=False)
    return output.logits[0].float().log_softmax(-1)


def plain_pair_logprobs(module: Any, prompt: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
    """Return an encoder-decoder model's log probabilities after every decoder token."""
    with torch.no_grad():
        output = module(
            input_ids=torch.tensor([list(prompt)]),
            decoder_input_ids=torch.tensor([list(tokens)]),
            use_cache=False,
        )
    return output.logits[0].float().log_softmax(-1)
