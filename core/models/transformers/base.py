"""TransformersModel: what all language models of the transformers library share.

Imports torch: ``cdec.core.models.loading`` imports it when a model is loaded.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.models.base import DEFAULT_CACHE_BYTES, Contexts, LanguageModel, Prompt
from cdec.core.models.rounding import event_rounding
from cdec.core.models.warping import model_line

if TYPE_CHECKING:
    from cdec.core.models.prompts import PromptEncoder
    from cdec.core.tokens.vocabulary import Vocabulary

DEFAULT_BATCH_ROWS = 256
"""Sequences a forward pass."""


def arithmetic_of(weights: Tensor) -> str:
    """Return the dtype in whose digits weights are multiplied, ``float32`` say."""
    dtype, device = weights.dtype, weights.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    if dtype != torch.float32:
        return str(dtype).removeprefix("torch.")
    try:
        asked = torch.get_float32_matmul_precision()
    except RuntimeError:  # Backends were told one by one; what they may do then is not asked.
        asked = "medium"
    # TF32 has as many digits as float16.
    return {"highest": "float32", "high": "float16"}.get(asked, "bfloat16")


class TransformersModel(LanguageModel):
    """Base of the models that run a transformers module.

    Scores are float32 tensors on the model's device, whatever the weights' dtype.

    Args:
        module: The model, in evaluation mode, its weights on their devices.
        vocabulary: Of the logits' width.
        prompts: Turns prompts into token ids.
        context_length: Tokens of prompt and text together; None where unbounded.
        max_batch_rows: Sequences a forward pass.
        cache_bytes: Bytes of next-token distributions kept.
    """

    def __init__(
        self,
        module: Any,
        vocabulary: Vocabulary,
        prompts: PromptEncoder,
        *,
        context_length: int | None,
        max_batch_rows: int = DEFAULT_BATCH_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        weights = module.get_input_embeddings().weight
        device = weights.device
        super().__init__(
            vocabulary, device=str(device), context_length=context_length, cache_bytes=cache_bytes
        )
        self._weights: Tensor = weights
        self._own_rounding: float | None = None
        self.max_batch_rows = max_batch_rows
        self._module = module
        self._prompts = prompts
        self.prompt_form = prompts.form
        self._device = device
        self._accepts = frozenset(inspect.signature(module.forward).parameters)

    def __repr__(self) -> str:
        kind, limit = type(self).__name__, self.context_length
        return model_line(kind, self.vocabulary, self.device, limit, self.warping)

    @property
    def event_rounding(self) -> float:
        """Nats by which log P of an event may differ: of the arithmetic in use, unless it was set.

        The weights' own, or what torch was told to multiply them in: autocast, TF32.
        """
        own = self._own_rounding
        return event_rounding(arithmetic_of(self._weights)) if own is None else own

    @event_rounding.setter
    def event_rounding(self, nats: float) -> None:
        self._own_rounding = nats

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids; see ``PromptEncoder.encode``."""
        return self._prompts.encode(prompt)

    def _forward(self, nodes: Contexts) -> Tensor:
        parts = [
            self._evaluate_chunk(nodes[first : first + self.max_batch_rows])
            for first in range(0, len(nodes), self.max_batch_rows)
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return torch.empty((0, self.vocabulary.width), device=self._device)
        return torch.cat(parts)

    @abstractmethod
    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        """Return the logits after at most ``max_batch_rows`` contexts, float32[M, V]."""

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _keep(self, count: int) -> dict[str, Any]:
        """Return the argument that asks for the logits of the last ``count`` columns alone."""
        for name in ("logits_to_keep", "num_logits_to_keep"):
            if name in self._accepts:
                return {name: count}
        return {}
