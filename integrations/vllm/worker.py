"""An engine of vLLM as the model of workers: made in each of them, by what the run says of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel

IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "0"}
"""Variables under which logits can be read where the engine is made."""


def vllm_worker(model: str, **arguments: Any) -> Callable[[], LanguageModel]:
    """Return what makes a ``VllmModel`` wherever it is called; it can be pickled.

        sample(prompts, vllm_worker("Qwen/Qwen3-8B", max_model_len=4096), artifact=..., gpus=1)

    Whoever gives it needs no vLLM, whoever calls it does, once a process.

    Args:
        model: As for ``vllm.LLM``.
        arguments: Others of it.
    """
    return partial(_made, model, arguments)


def _made(model: str, arguments: dict[str, Any]) -> LanguageModel:
    # subtle: vLLM reads them when it is imported.
    os.environ.update(IN_PROCESS)
    from cdec.integrations.vllm.engine import vllm_engine
    from cdec.integrations.vllm.model import VllmModel

    return VllmModel(vllm_engine(model, **arguments))
