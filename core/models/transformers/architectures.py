"""Causal and encoder-decoder models of transformers over the pool, and the cache that they see.

Of an encoder-decoder model the prompt is encoded once, and the text grows in the decoder's own
context: its self-attention lives in the pool of slots as a causal model's does; the keys and values
of its cross-attention are computed once a prompt and gathered by row.
Imports torch and transformers: import it lazily.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
)
from transformers.modeling_outputs import BaseModelOutput

from cdec.core.errors import ModelError
from cdec.core.models.context_tree import NONE
from cdec.core.models.language_model import Contexts
from cdec.core.models.transformers.kv_pool import PassCache
from cdec.core.models.transformers.pooled import PooledModel
from cdec.core.models.warping import Warping


class CausalModel(PooledModel):
    """A causal model of transformers with a key-value cache, kept in a pool of slots by context.

    Args:
        module: As ``AutoModelForCausalLM`` loads it; ``can_pool`` holds of it.
        args, options: As in ``PooledModel``.
    """

    def __init__(self, module: Any, *args: Any, **options: Any) -> None:
        super().__init__(module, *args, **options)
        self._seen = PoolCache(_layer_count(module.config))

    def _as_seen(self, cache: PassCache) -> Cache:
        self._seen.passing = cache
        return self._seen


class PoolCache(Cache):
    """The cache of forward passes as the modules of transformers take it.

    Attributes:
        passing: That of the running pass.

    subtle: a sliding-window layer keeps all its keys here, and the model's own mask hides those
    outside the window, because a rollback may bring them back.
    """

    passing: PassCache

    def __init__(self, n_layers: int) -> None:
        super().__init__(layers=[_PoolLayer(self, index) for index in range(n_layers)])


class _PoolLayer(CacheLayerMixin):
    """What a model may ask of one layer: its length, and to write and read keys and values."""

    is_sliding = False

    def __init__(self, cache: PoolCache, index: int) -> None:
        super().__init__()
        self.is_initialized = True
        self._cache = cache
        self._index = index

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the pool makes a layer's tensors on first use."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write this pass's keys and values [B, heads, Q, size]; return those of whole rows."""
        return self._cache.passing.write_and_read(self._index, key_states, value_states)

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """Return the length of the rows and their offset 0.

        Args:
            query_length: Columns of this pass; the first releases of transformers 5 give their
                positions instead.
        """
        queries = query_length if isinstance(query_length, int) else len(query_length)
        return self._cache.passing.past + queries, 0

    def get_seq_length(self) -> int:
        """Return the columns before this pass's queries, before and after ``update`` alike."""
        return self._cache.passing.past

    def get_max_length(self) -> int:
        """Return -1: no maximum."""
        return -1

    get_max_cache_shape = get_max_length
    """Its name in the first releases of transformers 5."""


def can_pool(module: Any) -> bool:
    """Say whether all that a module caches is keys and values by position.

    False for recurrent and hybrid layers, and for chunked attention, whose chunks count from the
    beginning of the padded row.
    """
    if "past_key_values" not in inspect.signature(module.forward).parameters:
        return False
    if getattr(module, "_is_stateful", False):
        return False
    text = module.config.get_text_config(decoder=True)
    if "chunked_attention" in (getattr(text, "layer_types", None) or ()):
        return False
    layers = DynamicCache(config=module.config).layers
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)


def _layer_count(config: Any) -> int:
    """Return how many layers may ask for a cache: those of the (text) decoder."""
    text = config.get_text_config(decoder=True)
    for name in ("decoder_layers", "num_decoder_layers"):
        if getattr(text, name, None):
            return int(getattr(text, name))
    return int(text.num_hidden_layers)


_Layers = list[tuple[Tensor, Tensor]]
"""Keys and values of each decoder layer."""


class EncoderDecoderModel(CausalModel):
    """A sequence-to-sequence model; ``context_length`` bounds prompt and text each for itself.

    Texts begin after the decoder's start token and, where the model's generation config forces
    one, the forced first token: the distribution is that of what ``generate`` would go on with.

    Args:
        first_tokens: What texts begin after, instead; None for these.
    """

    continues_prompt = False

    def __init__(
        self, module: Any, *args: Any, first_tokens: Sequence[int] | None = None, **options: Any
    ) -> None:
        super().__init__(module, *args, **options)
        self._first = _first_tokens(module) if first_tokens is None else list(first_tokens)
        self._cross: dict[int, _Layers] = {}
        self._last_rows: dict[bytes, tuple[_Layers, Tensor | None]] = {}

    def _add_prompt(
        self, token_ids: Sequence[int], warping: Warping, begun: tuple[int, ...]
    ) -> int:
        root = super()._add_prompt(token_ids, warping, begun)
        self._table.set("start", root, len(self._first) + len(begun))
        return root

    def _take_over(self, root: int, context: int) -> None:
        super()._take_over(root, context)
        layers = self._cross.get(int(self._tree.of_root("node", context)))
        if layers is not None:
            self._cross[root] = layers

    def _share(self, roots: list[int], targets: Contexts) -> None:
        """Share nothing: keys and values depend on the prompt that was encoded."""

    def _keep_prompts(self, roots: list[int]) -> None:
        """Keep nothing, as ``_share``."""

    def _fixed_tokens(self, root: int) -> list[int]:
        return [*self._first, *self._begun[root]]

    def _forget(self, nodes: Contexts) -> None:
        super()._forget(nodes)
        self._last_rows.clear()
        for root in nodes[self._tree.parent[nodes] == NONE].tolist():
            self._cross.pop(root, None)

    def _call(
        self, heads: Contexts, tokens: Tensor, cache: PassCache, arguments: dict[str, Any]
    ) -> Tensor:
        roots = self._tree.roots(heads)
        missing = [root for root in np.unique(roots).tolist() if root not in self._cross]
        # Prompts of similar lengths are encoded together.
        missing.sort(key=lambda root: len(self._prompt_ids[root]))
        while missing:
            longest = len(self._prompt_ids[missing[-1]])
            count = max(1, min(self.budget.max_batch_rows, self.budget.max_batch_tokens // longest))
            self._encode(missing[-count:])
            missing = missing[:-count]
        layers, mask = self._cross_rows(roots)
        # The hidden states themselves are not read any more, only their shape is.
        width = self._module.get_encoder().get_input_embeddings().weight.shape[1]
        shape = (len(heads), layers[0][0].shape[2], width)
        hidden = layers[0][0].new_zeros((1, 1, 1)).expand(shape)
        arguments = dict(arguments)
        if "attention_mask" in arguments:
            arguments["decoder_attention_mask"] = arguments.pop("attention_mask")
        output = self._module(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask,
            decoder_input_ids=tokens,
            past_key_values=EncoderDecoderCache(self._as_seen(cache), _filled(layers)),
            use_cache=True,
            return_dict=True,
            **arguments,
        )
        logits: Tensor = output.logits
        return logits.to(self._device)

    def _encode(self, roots: list[int]) -> None:
        """Run the encoder, and the decoder's first token, which makes the cross-attention's
        keys and values [heads, prompt tokens, head size] of every layer."""
        lengths = [len(self._prompt_ids[root]) for root in roots]
        tokens = np.zeros((len(roots), max(lengths)), np.int64)
        for i, root in enumerate(roots):
            tokens[i, : lengths[i]] = self._prompt_ids[root]
        mask = np.arange(tokens.shape[1]) < np.array(lengths)[:, None]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        first = torch.full((len(roots), 1), self._first[0], device=self._device)
        self._module(
            input_ids=self._tensor(tokens),
            attention_mask=self._tensor(mask.astype(np.int64)),
            decoder_input_ids=first,
            past_key_values=cache,
            use_cache=True,
        )
        self._count(np.array(roots, np.int64), 0, lengths)
        layers = cache.cross_attention_cache.layers
        for i, root in enumerate(roots):
            self._cross[root] = [
                (layer.keys[i, :, : lengths[i]].clone(), layer.values[i, :, : lengths[i]].clone())
                for layer in layers
            ]

    def _cross_rows(self, roots: Contexts) -> tuple[_Layers, Tensor | None]:
        """Return the cross-attention of each row, padded on the right, and its mask [B, S]."""
        key = roots.tobytes()
        if key in self._last_rows:
            return self._last_rows[key]
        distinct, rows = np.unique(roots, return_inverse=True)
        held = [self._cross[root] for root in distinct.tolist()]
        lengths = np.array([layers[0][0].shape[1] for layers in held])
        chosen = self._tensor(rows.reshape(-1))
        gathered: _Layers = []
        for parts in zip(*held, strict=True):
            keys = _stack([part[0] for part in parts], int(lengths.max()))
            values = _stack([part[1] for part in parts], int(lengths.max()))
            here = chosen.to(keys.device)
            if len(distinct) == 1:
                gathered.append((_repeat(keys, len(roots)), _repeat(values, len(roots))))
            else:
                gathered.append((keys.index_select(0, here), values.index_select(0, here)))
        mask = None
        if (lengths < lengths.max()).any():
            inside = np.arange(lengths.max()) < lengths[rows.reshape(-1)][:, None]
            mask = self._tensor(inside.astype(np.int64))
        self._last_rows.clear()
        self._last_rows[key] = (gathered, mask)
        return gathered, mask


def _first_tokens(module: Any) -> list[int]:
    """Return the decoder's start token and the forced first one, if any."""
    generation = getattr(module, "generation_config", None)
    sources = [source for source in (generation, module.config) if source is not None]
    for name in ("decoder_start_token_id", "bos_token_id"):
        starts = [getattr(source, name, None) for source in sources]
        start = next((token for token in starts if isinstance(token, int)), None)
        if start is not None:
            forced = getattr(generation, "forced_bos_token_id", None)
            return [start, forced] if isinstance(forced, int) else [start]
    raise ModelError(
        "the model's config names no decoder_start_token_id to begin texts with",
        hint="Set decoder_start_token_id in its generation_config.json.",
    )


def _stack(parts: list[Tensor], length: int) -> Tensor:
    """Stack [heads, S_i, size] to [n, heads, length, size], zeros on the right."""
    shape = (len(parts), parts[0].shape[0], length, parts[0].shape[2])
    stacked = parts[0].new_zeros(shape)
    for i, part in enumerate(parts):
        stacked[i, :, : part.shape[1]] = part
    return stacked


def _repeat(single: Tensor, n: int) -> Tensor:
    return single.expand(n, *single.shape[1:])


def _filled(layers: _Layers) -> Cache:
    """Return a transformers cache that holds these keys and values already."""
    filled = []
    for keys, values in layers:
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        filled.append(layer)
    return Cache(layers=filled)
