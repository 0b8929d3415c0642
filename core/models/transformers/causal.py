"""CausalModel: causal models of transformers over a pool, and the cache that they see.

Imports torch and transformers: import it lazily.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from cdec.core.models.transformers.kv_pool import PassCache
from cdec.core.models.transformers.pooled import PooledModel


class CausalModel(PooledModel):
    """A causal model of transformers with a key-value cache, kept in a pool of slots by context.

    Args:
        module: As ``AutoModelForCausalLM`` loads it; ``can_pool`` holds of it.
        args, options: As in ``PooledModel``.
    """

    def __init__(self, module: Any, *args: Any, **options: Any) -> None:
        super().__init__(module, *args, **options)
        self._n_layers = _layer_count(module.config)

    def _as_seen(self, cache: PassCache) -> Cache:
        return PoolCache(cache, self._n_layers)


class PoolCache(Cache):
    """The cache of one forward pass as the modules of transformers take it.

    subtle: a sliding-window layer keeps all its keys here, and the model's own mask hides those
    outside the window, because a rollback may bring them back.
    """

    def __init__(self, cache: PassCache, n_layers: int) -> None:
        super().__init__(layers=[_PoolLayer(cache, index) for index in range(n_layers)])


class _PoolLayer(CacheLayerMixin):
    """What a model may ask of one layer: its length, and to write and read keys and values."""

    is_sliding = False

    def __init__(self, cache: PassCache, index: int) -> None:
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
        return self._cache.write_and_read(self._index, key_states, value_states)

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """Return the length of the rows and their offset 0.

        Args:
            query_length: Columns of this pass; the first releases of transformers 5 give their
                positions instead.
        """
        queries = query_length if isinstance(query_length, int) else len(query_length)
        return self._cache.past + queries, 0

    def get_seq_length(self) -> int:
        """Return the columns before this pass's queries, before and after ``update`` alike."""
        return self._cache.past

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
