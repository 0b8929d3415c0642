"""Models that ship with the package, without transformers: Llama in plain torch, and its tokenizer.

``Llama`` computes what ``LlamaForCausalLM`` of transformers computes, in the same order, and is
called as that is; importing transformers takes seconds. Touvron et al. 2023, "LLaMA: Open and
Efficient Foundation Language Models", section 2.2; groups of heads: Ainslie et al. 2023, "GQA",
section 2.2. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import orjson
import torch
from torch import Tensor, nn
from torch.nn import functional

from cdec.core.models.transformers.kv_pool import PassCache
from cdec.core.tokens.files import special_roles


class Settings(SimpleNamespace):
    """What a ``config.json`` or ``generation_config.json`` says, read as transformers' are."""

    is_encoder_decoder = False

    @classmethod
    def read(cls, file: Path) -> Settings:
        """Read a file of the package's own."""
        return cls(**orjson.loads(file.read_bytes()))

    def get_text_config(self, decoder: bool = True) -> Settings:
        """Return the whole: these models know nothing but text."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return vars(self)


class Output(NamedTuple):
    """What a call returns: ``logits`` float[B, kept columns, V]."""

    logits: Tensor


class Llama(nn.Module):
    """A causal model whose output matrix is its embedding.

    Args:
        config: Its ``config.json``.
        generation_config: Its ``generation_config.json``.
        weights: Tensors by their names in the file; used as they are.
    """

    def __init__(
        self, config: Settings, generation_config: Settings, weights: Mapping[str, Tensor]
    ) -> None:
        super().__init__()
        self.config = config
        self.generation_config = generation_config
        matrix = weights["model.embed_tokens.weight"]
        self.embedding = nn.Embedding(matrix.shape[0], matrix.shape[1], _weight=matrix)
        self.norm = nn.Parameter(weights["model.norm.weight"])
        self.layers = nn.ModuleList(
            nn.ParameterDict(_of_layer(index, weights)) for index in range(config.num_hidden_layers)
        )
        size: int = config.head_dim
        half = torch.arange(0, size, 2, dtype=torch.float32) / size
        self._frequencies = 1.0 / (config.rope_parameters["rope_theta"] ** half)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return what turns ids into states."""
        return self.embedding

    def get_output_embeddings(self) -> nn.Embedding:
        """Return what turns states into scores: the same matrix."""
        return self.embedding

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: PassCache | None = None,
        logits_to_keep: int | Tensor = 0,
        use_cache: bool = True,
        return_dict: bool = True,
    ) -> Output:
        """Return the scores after the tokens of a batch.

        Args:
            input_ids: int64[B, Q] new tokens.
            position_ids: int64[B, Q] their places; None: 0 to Q - 1.
            attention_mask: int64[B, K] 0 where rows are padded; None where none is.
            past_key_values: Keys and values of the K columns that end with these; None where K = Q.
            logits_to_keep: So many columns from the right, or the columns int64[n]; 0: all.
            use_cache, return_dict: As transformers has them; nothing depends on them.
        """
        states = self.embedding(input_ids)
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        rotation = self._rotation(position_ids, states)
        past = 0 if past_key_values is None else past_key_values.past
        mask = _mask(input_ids, attention_mask, past)
        for index, layer in enumerate(self.layers):
            weights: Any = layer
            normed = self._normed(states, weights["input_layernorm"])
            query, key, value = (self._heads(normed, weights[f"{name}_proj"]) for name in "qkv")
            query, key = _rotated(query, *rotation), _rotated(key, *rotation)
            if past_key_values is not None:
                key, value = past_key_values.write_and_read(index, key, value)
            mixed = _attended(query, key, value, mask)
            states = states + functional.linear(mixed, weights["o_proj"])
            normed = self._normed(states, weights["post_attention_layernorm"])
            gate = functional.silu(functional.linear(normed, weights["gate_proj"]))
            inner = gate * functional.linear(normed, weights["up_proj"])
            states = states + functional.linear(inner, weights["down_proj"])
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        states = self._normed(states, self.norm)[:, kept]
        return Output(functional.linear(states, self.embedding.weight))

    def _normed(self, states: Tensor, scale: Tensor) -> Tensor:
        """Divide by the root mean square, in float32 whatever the dtype."""
        wide = states.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps)
        return scale * wide.to(states.dtype)

    def _heads(self, states: Tensor, matrix: Tensor) -> Tensor:
        """Return queries, keys or values [B, heads, Q, head size]."""
        mapped = functional.linear(states, matrix)
        return mapped.view(*states.shape[:2], -1, self.config.head_dim).transpose(1, 2)

    def _rotation(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [B, 1, Q, head size] of positions int64[B, Q]."""
        angles = positions[:, None, :, None].float() * self._frequencies.to(like.device)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def read_llama(folder: Path, device: str, dtype: torch.dtype | None) -> Llama:
    """Read a model's folder; ``dtype`` None keeps the weights as they are stored."""
    from safetensors.torch import load_file

    stored = load_file(folder / "model.safetensors")
    weights = {name: tensor.to(device, dtype) for name, tensor in stored.items()}
    config, generation = folder / "config.json", folder / "generation_config.json"
    module = Llama(Settings.read(config), Settings.read(generation), weights)
    return module.requires_grad_(False).eval()


def _of_layer(index: int, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a layer's tensors by the last word of their names, ``q_proj`` say."""
    start = f"model.layers.{index}."
    return {n.split(".")[-2]: tensor for n, tensor in weights.items() if n.startswith(start)}


def _rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of numbers by their position's angles: Su et al. 2021, "RoFormer", (34).

    Deviation: number i is paired with i + half of the head's size, as Llama's weights are stored.
    """
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


def _mask(tokens: Tensor, padding: Tensor | None, past: int) -> Tensor | None:
    """Return which columns the new ones may see, bool[B or 1, 1, Q, K]; None: those up to it.

    Args:
        tokens: int64[B, Q].
        padding: int64[B, K] 0 where rows are padded.
        past: K - Q.
    """
    queries = tokens.shape[1]
    if padding is None and (past == 0 or queries == 1):
        return None
    columns = torch.arange(past + queries, device=tokens.device)
    seen = (columns <= columns[past:, None])[None, None]
    return seen if padding is None else seen & padding[:, None, None].bool()


def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mixed values of all heads [B, Q, heads x head size].

    subtle: as transformers has it in each case, so that the sums are those of its own arithmetic.
    """
    batch, heads, queries, size = query.shape
    groups = key.shape[1]
    shared = False
    if mask is None:
        shared = True
    elif queries == 1:
        query = query.reshape(batch, groups, -1, size)
    else:
        key, value = (part.repeat_interleave(heads // groups, dim=1) for part in (key, value))
    mixed = functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=mask is None and queries > 1, enable_gqa=shared
    )
    mixed = mixed.reshape(batch, heads, queries, size)
    return mixed.transpose(1, 2).reshape(batch, queries, -1)


class ShippedTokenizer:
    """What prompts ask of a tokenizer of transformers, from the files of a shipped model.

    Args:
        folder: Of the model.

    Attributes:
        chat_template: Source of the template.
        init_kwargs: What ``tokenizer_config.json`` says.
        special_tokens_map: Token by role, ``bos_token`` say.
        unk_token_id: None: every text can be spelled.
    """

    unk_token_id = None

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.init_kwargs: dict[str, Any] = orjson.loads(
            (folder / "tokenizer_config.json").read_bytes()
        )
        self.chat_template = str(self.init_kwargs["chat_template"])
        roles = special_roles(self.init_kwargs)
        self.special_tokens_map = {role: tokens[0] for role, tokens in roles.items() if tokens}

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Added tokens by id."""
        found: Mapping[int, Any] = self._backend.get_added_tokens_decoder()
        return found

    @property
    def all_special_tokens(self) -> list[str]:
        """Texts of the tokens that have a role."""
        return list(self.special_tokens_map.values())

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of the tokens that have a role."""
        ids = {str(token): token_id for token_id, token in self.added_tokens_decoder.items()}
        return [ids[token] for token in self.all_special_tokens]

    def get_chat_template(self) -> str:
        """Return the source of the template."""
        return self.chat_template

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, Any]], tokenize: bool, add_generation_prompt: bool
    ) -> str:
        """Return the text of a conversation; ``tokenize`` as transformers has it, False."""
        said = {"messages": conversation, "add_generation_prompt": add_generation_prompt}
        return str(self._template.render(**said, **self.special_tokens_map))

    @cached_property
    def _template(self) -> Any:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(self.chat_template)

    def __call__(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool, **_: object
    ) -> dict[str, list[int]]:
        """Return ``input_ids`` of a text; what else transformers takes has no effect here."""
        self._backend.encode_special_tokens = split_special_tokens
        found = self._backend.encode(text, add_special_tokens=add_special_tokens)
        return {"input_ids": found.ids}
