"""The fingerprint of a language model: which weights, in which precision, under which settings.

Two models of one fingerprint give the same distributions, up to the floating-point noise of
batching; where a model was loaded from, and on which device it lies, does not matter.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel

_VALUES_PER_TENSOR = 256
"""Values of each tensor that are looked at, evenly spread: training moves all of them."""
_NOT_THE_LAW = frozenset(
    {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash", "architectures"}
    | {"_attn_implementation_autoset", "attn_implementation", "use_cache", "torch_dtype", "dtype"}
)
"""Settings that change no distribution; precisions are those of the tensors."""


def model_fingerprint(model: LanguageModel) -> str:
    """Return 64 hexadecimal digits that tell a model's weights and settings from another's.

    Looked at are the configuration, and of each tensor its name, shape, precision and some
    ``_VALUES_PER_TENSOR`` values: enough to tell any two trained models apart, not a proof against
    a model that was made to deceive. A model without weights (``TabularModel``) has nothing to look
    at: all of a kind have one fingerprint.

    Cost: tens of milliseconds.
    """
    module: Any = getattr(model, "_module", None)
    # Not how the weights are run, with or without a cache, but what they are.
    digest = hashlib.sha256(type(model if module is None else module).__name__.encode())
    if module is not None:
        settings = {k: v for k, v in module.config.to_dict().items() if k not in _NOT_THE_LAW}
        digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
        for name, tensor in sorted(module.state_dict().items()):
            _add_tensor(digest, name, tensor)
    return digest.hexdigest()


def _add_tensor(digest: Any, name: str, tensor: Any) -> None:
    import torch

    if not isinstance(tensor, torch.Tensor):
        digest.update(f"{name} {tensor!r}".encode())
        return
    digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
    # subtle: layers that are not in memory have shapes and no values.
    if tensor.is_meta or not tensor.numel():
        return
    flat = tensor.detach().reshape(-1)
    places = np.unique(np.linspace(0, tensor.numel() - 1, _VALUES_PER_TENSOR).astype(np.int64))
    values = flat[torch.from_numpy(places).to(flat.device)]
    digest.update(values.cpu().contiguous().view(torch.uint8).numpy().tobytes())
