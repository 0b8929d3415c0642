"""Repositories of models as strangers write them: each loads or is one error, none by a pickle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from cdec.core.errors import CdecError
from cdec.core.models.loading import load_model
from tests.core.models.test_prompts import make_tokenizer
from tools.campaign.attack import Try
from tools.campaign.mutants import damaged, edited_json

_INDEX = "model.safetensors.index.json"
_SHARDS = ("w.bin", "../w.safetensors", "/etc/passwd", "a/../w.safetensors", "w.pkl", "", 7, None)
_CONFIG: tuple[tuple[str, Any], ...] = (
    ("_attn_implementation", "owner/kernel"), ("attn_implementation", {"": "owner/kernel"}),
    ("num_hidden_layers", 10**9), ("num_hidden_layers", -1), ("vocab_size", 10**13),
    ("hidden_size", 10**9), ("transformers_weights", "adapter_model.bin"), ("model_type", "x"),
    ("transformers_weights", "../w.safetensors"), ("auto_map", {"AutoModelForCausalLM": "a.B"}),
    ("max_position_embeddings", 10**15), ("rope_parameters", {"rope_theta": 0}), ("dtype", "int8"),
    ("quantization_config", {"quant_method": "bitsandbytes"}), ("tie_word_embeddings", True),
)  # fmt: skip
_TEMPLATES = (
    "{{ messages[0]['content'] }}", "{% for i in range(9999) %}{% endfor %}", "{{ 1 / 0 }}", "{%",
    "{{ ''.__class__.__mro__ }}", "{{ raise_exception('no') }}", "{{ messages * 3 }}",
)  # fmt: skip
_MESSAGES = [[{"role": "user", "content": "a"}]]


def open_repositories(folder: Path) -> Try:
    """Return what loads a repository with something odd in it, and encodes a chat."""
    good = folder / "good"
    _write(good)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was read")

    torch.load = refuse

    def load(seed: int) -> str:
        rng = np.random.default_rng(seed)
        odd = folder / "odd"
        shutil.rmtree(odd, ignore_errors=True)
        shutil.copytree(good, odd)
        _WAYS[seed % len(_WAYS)](odd, rng)
        try:
            load_model(odd).prefill(_MESSAGES)
        except CdecError as error:
            assert error.code != "E_INTERNAL", error
            return error.code
        return "loaded"

    assert load(len(_WAYS) * 3 - 1) == "loaded"
    return load


def _write(folder: Path) -> None:
    """Write a tiny model whose weights stand in one shard of an index, with a chat template."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "eos_token_id": 257}
    module = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes, **heads))
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").rename(folder / "w.safetensors")
    (folder / "w.bin").write_bytes(b"\x80\x04.")
    _index(folder, "w.safetensors")


def _index(folder: Path, shard: object) -> None:
    with safe_open(folder / "w.safetensors", "pt") as file:
        weights = dict.fromkeys(file.keys(), shard)
    (folder / _INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weights}))


def _odd_index(folder: Path, rng: np.random.Generator) -> None:
    _index(folder, _SHARDS[int(rng.integers(len(_SHARDS)))])


def _odd_config(folder: Path, rng: np.random.Generator) -> None:
    key, value = _CONFIG[int(rng.integers(len(_CONFIG)))]
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {key: value}))


def _odd_template(folder: Path, rng: np.random.Generator) -> None:
    template = _TEMPLATES[int(rng.integers(len(_TEMPLATES)))]
    (folder / "chat_template.jinja").write_text(template)


def _mutated(name: str) -> Callable[[Path, np.random.Generator], None]:
    def mutate(folder: Path, rng: np.random.Generator) -> None:
        file = folder / name
        is_json = name.endswith(".json") and rng.random() < 0.6
        file.write_bytes((edited_json if is_json else damaged)(file.read_bytes(), rng))

    return mutate


_WAYS: tuple[Callable[[Path, np.random.Generator], None], ...] = (
    _odd_index, _odd_config, _odd_template,
    *map(_mutated, (_INDEX, "config.json", "tokenizer_config.json", "w.safetensors")),
    lambda folder, rng: None,
)  # fmt: skip
