"""A tiny random model of bytes that thinks and calls tools, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<|end|>", "<|start|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
"""Special tokens; their ids follow the 256 bytes."""
END, START, THINK, END_THINK, CALL, END_CALL = range(256, 262)

TEMPLATE = (
    "{% if tools %}<|start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|end|>"
    "{% endif %}{% for message in messages %}<|start|>{{ message.role }}\n"
    "{% set content = message.content %}"
    "{% if message.role == 'assistant' and '</think>' in content and not keep %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}{{ content }}<|end|>{% endfor %}"
    "<|start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% elif effort == 'high' %}<think hard>{% endif %}"
)
"""A template with the mechanisms of models that think and call tools."""


def byte_tokenizer(template: str | None = TEMPLATE, special: tuple[str, ...] = SPECIAL) -> Any:
    """Return a tokenizer of bytes without merges, with special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=special[0], additional_special_tokens=list(special[1:])
    )
    tokenizer.chat_template = template
    return tokenizer


def chat_model(
    folder: Path, template: str | None = TEMPLATE, special: tuple[str, ...] = SPECIAL
) -> Path:
    """Write a random llama of two layers, and its tokenizer, into a folder."""
    config = LlamaConfig(
        vocab_size=256 + len(special),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=None,
    )
    torch.manual_seed(3)
    module = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    module.save_pretrained(folder)
    byte_tokenizer(template, special).save_pretrained(folder)
    return folder
