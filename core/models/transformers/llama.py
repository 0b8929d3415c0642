"""Llama: the decoders of Llama's family in plain torch, and the modules that it can stand for.

It computes what ``LlamaForCausalLM`` of transformers and its kin compute, in the same order, and is
called as they are. What it leaves out is what a step of a small batch waits for: modules within
modules, masks made anew, three products where one matrix holds all weights. Touvron et al. 2023,
"LLaMA: Open and Efficient Foundation Language Models", section 2.2; groups of heads: Ainslie et al.
2023, "GQA", section 2.2. Imports torch: import it lazily.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from cdec.core.models.transformers.kv_pool import PassCache

FAMILY = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Classes of transformers that are the same decoder but for biases and norms of heads."""
_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions whose frequencies do not depend on the text's length."""


class Output(NamedTuple):
    """What a call returns: ``logits`` float[B, kept columns, V]."""

    logits: Tensor


class Linear(NamedTuple):
    """A linear map: ``weight`` [out, in] and ``bias`` [out] or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, states: Tensor) -> Tensor:
        """Return float[..., out]."""
        return functional.linear(states, self.weight, self.bias)


class Layer(NamedTuple):
    """Weights of one layer; queries, keys and values are one map.

    subtle: gate and up are not: rows that are not dense change the last digits of ``silu``.
    """

    input_norm: Tensor
    attention: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Linear
    inner_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


class StaticCache:
    """The cache of a compiled step: tensors of fixed shape, of which a pass writes one column.

    Args:
        layers: Keys and values [B, groups, C, head size] of each layer.
        column: int64[1] where the new ones stand.
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], column: Tensor) -> None:
        self._layers = layers
        self.column = column

    def write_and_read(
        self, index: int, key_states: Tensor, value_states: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write new states [B, groups, 1, head size] of a layer; return all columns."""
        keys, values = self._layers[index]
        keys.index_copy_(2, self.column, key_states)
        values.index_copy_(2, self.column, value_states)
        return keys, values


class Llama(nn.Module):
    """A causal decoder.

    Args:
        config: Its ``config.json``.
        generation_config: Its ``generation_config.json``.
        weights: Parameters by their names in the file; used as they are, and those of maps that
            become one are made views of it.
        frequencies: float32[head size / 2] of the rotary positions; None: the default's.
        scaling: Factor of cosines and sines.

    Attributes:
        identity: Name and weights by which a model is told from another; see ``fingerprint``.
    """

    def __init__(
        self,
        config: Any,
        generation_config: Any,
        weights: Mapping[str, Tensor],
        *,
        frequencies: Tensor | None = None,
        scaling: float = 1.0,
    ) -> None:
        super().__init__()
        self.config = config
        self.generation_config = generation_config
        self.identity: tuple[str, Mapping[str, Tensor]] = (type(self).__name__, _named(weights))
        matrix = weights["model.embed_tokens.weight"]
        self.embedding = nn.Embedding(matrix.shape[0], matrix.shape[1], _weight=matrix)
        self._head = weights.get("lm_head.weight", matrix)
        self._norm = weights["model.norm.weight"]
        self._layers = [_layer(weights, index) for index in range(config.num_hidden_layers)]
        flat = [each for layer in self._layers for each in layer if each is not None]
        maps = [part for each in flat if isinstance(each, Linear) for part in each]
        norms = [each for each in flat if isinstance(each, Tensor)]
        own = [] if self._head is matrix else [self._head]
        kept = [*own, self._norm, *norms, *(part for part in maps if part is not None)]
        self.weights = nn.ParameterList(kept)
        self._size: int = _head_size(config)
        # subtle: attributes of a config are slow to read, 4 microseconds each.
        self._heads_of_queries: int = config.num_attention_heads
        self._heads_of_keys: int = config.num_key_value_heads
        self._eps: float = config.rms_norm_eps
        if frequencies is None:
            half = torch.arange(0, self._size, 2, dtype=torch.float32) / self._size
            frequencies = 1.0 / (config.rope_parameters["rope_theta"] ** half)
        self._frequencies = frequencies.to(matrix.device, torch.float32)
        self._scaling = scaling
        self._rotations = (matrix.new_empty((0, self._size)),) * 2

    def get_input_embeddings(self) -> nn.Embedding:
        """Return what turns ids into states."""
        return self.embedding

    def get_output_embeddings(self) -> Linear:
        """Return what turns states into scores."""
        return Linear(self._head, None)

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
        past = 0 if past_key_values is None else past_key_values.past
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        parts = self.rotations(past + input_ids.shape[1])
        cos, sin = (functional.embedding(position_ids, part)[:, None] for part in parts)
        mask = _mask(input_ids, attention_mask, past, states.dtype)
        states = self._decoded(states, (cos, sin), mask, past_key_values)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return Output(functional.linear(states[:, kept], self._head))

    def step(
        self,
        tokens: Tensor,
        positions: Tensor,
        rotations: tuple[Tensor, Tensor],
        bias: Tensor,
        cache: StaticCache,
    ) -> Tensor:
        """Return the scores after one more token of each row, float[B, V]: what is compiled.

        Args:
            tokens, positions: int64[B, 1].
            rotations: Of all positions, [n, head size] each.
            bias: float[B, 1, 1, C] added to columns' scores; that of the new column becomes 0.
            cache: Keys and values of C columns.
        """
        bias.index_fill_(3, cache.column, 0.0)
        cos, sin = (functional.embedding(positions, part)[:, None] for part in rotations)
        states = self._decoded(self.embedding(tokens), (cos, sin), bias, cache)
        return functional.linear(states[:, 0], self._head)

    def rotations(self, count: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of at least so many positions, [n, head size] each."""
        if count > len(self._rotations[0]):
            count = max(count, 2 * len(self._rotations[0]), 256)
            places = torch.arange(count, device=self._frequencies.device).float()
            angles = places[:, None] * self._frequencies
            angles = torch.cat((angles, angles), dim=-1)
            made = angles.cos() * self._scaling, angles.sin() * self._scaling
            self._rotations = made[0].to(self._norm.dtype), made[1].to(self._norm.dtype)
        return self._rotations

    def _decoded(
        self,
        states: Tensor,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: PassCache | StaticCache | None,
    ) -> Tensor:
        """Return the states [B, Q, width] behind all layers."""
        for index, layer in enumerate(self._layers):
            query, key, value = self._heads(self._normed(states, layer.input_norm), layer, rotation)
            if cache is not None:
                key, value = cache.write_and_read(index, key, value)
            states = states + layer.output(_attended(query, key, value, mask))
            normed = self._normed(states, layer.inner_norm)
            states = states + layer.down(functional.silu(layer.gate(normed)) * layer.up(normed))
        return self._normed(states, self._norm)

    def _normed(self, states: Tensor, scale: Tensor) -> Tensor:
        """Divide by the root mean square, in float32 whatever the dtype."""
        if states.dtype == torch.float32:
            return functional.rms_norm(states, scale.shape, scale, self._eps)
        wide = states.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._eps)
        return scale * wide.to(states.dtype)

    def _heads(
        self, states: Tensor, layer: Layer, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries [B, heads, Q, size], and keys and values [B, groups, Q, size]."""
        mapped = layer.attention(states).view(*states.shape[:2], -1, self._size).transpose(1, 2)
        heads = self._heads_of_queries
        both, value = mapped.tensor_split((-self._heads_of_keys,), dim=1)
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = both.tensor_split((heads,), dim=1)
            norms = self._normed(query, layer.query_norm), self._normed(key, layer.key_norm)
            both = torch.cat(norms, dim=1)
        query, key = _rotated(both, *rotation).tensor_split((heads,), dim=1)
        return query, key, value


def lean_decoder(module: Any) -> Llama | None:
    """Return a ``Llama`` over the weights of a module of transformers; None where it is not one.

    The module's parameters become views of the Llama's. It stands for modules only that are as
    transformers made them: of one device and dtype, without hooks, adapters, quantised or sliding
    layers; and whose scores of a few tokens it gives.
    """
    if not _is_plain(module):
        return None
    rotary = module.model.rotary_emb
    tokens = torch.arange(4, device=rotary.inv_freq.device)[None] % module.config.vocab_size
    with torch.no_grad():
        expected = module(input_ids=tokens).logits.float()
        made = Llama(
            module.config,
            module.generation_config,
            dict(module.named_parameters()),
            frequencies=rotary.inv_freq,
            scaling=float(rotary.attention_scaling),
        )
        made.identity = (type(module).__name__, module.state_dict())
        found = made(tokens).logits.float()
    rounding = 64 * torch.finfo(made.embedding.weight.dtype).eps * float(expected.abs().max())
    if not torch.allclose(found, expected, rtol=0, atol=rounding):
        return None
    return made.requires_grad_(False).eval()


def _is_plain(module: Any) -> bool:
    kind, config = type(module), module.config
    if kind.__name__ not in FAMILY or not kind.__module__.startswith("transformers.models."):
        return False
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    window = getattr(config, "sliding_window", None)
    weights = dict(module.named_parameters())
    return (
        getattr(config, "_attn_implementation", None) == "sdpa"
        and config.hidden_act == "silu"
        and rope.get("rope_type") in _ROTATIONS
        and 2 * len(module.model.rotary_emb.inv_freq) == _head_size(config)
        and kinds == {"full_attention"}
        and (window is None or "layer_types" in config.to_dict())
        and set(weights) == set(_names(config, weights))
        and len({(type(part), part.dtype, part.device) for part in weights.values()}) == 1
        and weights["model.norm.weight"].dtype in (torch.float32, torch.bfloat16, torch.float16)
        and not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    )


def _head_size(config: Any) -> int:
    size: int | None = getattr(config, "head_dim", None)
    return config.hidden_size // config.num_attention_heads if size is None else size


_MAPS = (
    "self_attn.q",
    "self_attn.k",
    "self_attn.v",
    "self_attn.o",
    "mlp.gate",
    "mlp.up",
    "mlp.down",
)


def _names(config: Any, given: Mapping[str, Tensor]) -> list[str]:
    """Return the names of all weights that a decoder reads; those it may lack, if given."""
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    optional = ["lm_head.weight"]
    for index in range(config.num_hidden_layers):
        start = f"model.layers.{index}."
        norms = "input_layernorm", "post_attention_layernorm"
        names += [f"{start}{name}.weight" for name in norms]
        names += [f"{start}{name}_proj.weight" for name in _MAPS]
        optional += [f"{start}{name}_proj.bias" for name in _MAPS]
        optional += [f"{start}self_attn.{name}_norm.weight" for name in "qk"]
    return [*names, *(name for name in optional if name in given)]


def _layer(weights: Mapping[str, Tensor], index: int) -> Layer:
    start = f"model.layers.{index}."
    return Layer(
        input_norm=weights[f"{start}input_layernorm.weight"],
        attention=_joined(weights, start, _MAPS[:3]),
        query_norm=weights.get(f"{start}self_attn.q_norm.weight"),
        key_norm=weights.get(f"{start}self_attn.k_norm.weight"),
        output=_joined(weights, start, _MAPS[3:4]),
        inner_norm=weights[f"{start}post_attention_layernorm.weight"],
        gate=_joined(weights, start, _MAPS[4:5]),
        up=_joined(weights, start, _MAPS[5:6]),
        down=_joined(weights, start, _MAPS[6:]),
    )


def _joined(weights: Mapping[str, Tensor], start: str, names: Sequence[str]) -> Linear:
    """Return one map for several of the same states; their weights become views of it."""
    found = []
    for kind in ("weight", "bias"):
        parts = [weights.get(f"{start}{name}_proj.{kind}") for name in names]
        present = [part for part in parts if part is not None]
        if len(present) == 1 or not present:
            found.append(present[0] if present else None)
            continue
        whole = torch.cat([part.detach() for part in present])
        sizes = [len(part) for part in present]
        for part, view in zip(present, torch.split(whole, sizes), strict=True):
            part.data = view
        found.append(whole)
    weight, bias = found
    assert weight is not None
    return Linear(weight, bias)


def _named(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by the last words of their names, ``layers.0.q_proj`` say."""
    short = {"model.embed_tokens.weight": "embedding.weight", "model.norm.weight": "norm"}
    for name in weights:
        if name.startswith("model.layers."):
            words = name.split(".")
            short[name] = f"layers.{words[2]}.{words[-2]}"
    return {short.get(name, name): part for name, part in weights.items()}


def _rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of numbers by their position's angles: Su et al. 2021, "RoFormer", (34).

    Deviation: number i is paired with i + half of the head's size, as Llama's weights are stored.
    """
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat((-second, first), dim=-1) * sin


def _mask(tokens: Tensor, padding: Tensor | None, past: int, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to columns' scores, [B or 1, 1, Q, K]; None: 0 up to one's own place.

    Args:
        tokens: int64[B, Q].
        padding: int64[B, K] 0 where rows are padded.
        past: K - Q.
        dtype: Of the scores.
    """
    queries = tokens.shape[1]
    hidden = None if padding is None else (padding == 0)[:, None, None]
    if queries > 1 and (hidden is not None or past > 0):
        columns = torch.arange(past + queries, device=tokens.device)
        later = (columns > columns[past:, None])[None, None]
        hidden = later if hidden is None else hidden | later
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=tokens.device).masked_fill_(
        hidden, -math.inf
    )


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
