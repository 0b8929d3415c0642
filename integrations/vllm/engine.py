"""An engine that a ``VllmModel`` can ask: its logits are kept by a processor.

Nothing here imports compiled kernels: vLLM's start on a CPU fails once they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from vllm import LLM
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

if TYPE_CHECKING:
    from torch import Tensor

ROW = "cdec_row"
"""The argument of a request whose logits are kept."""


class LogitsRecorder(LogitsProcessor):
    """Keeps the logits of the first token of requests that ask for it, all of them, unchanged.

    Attributes:
        rows: float32[width] by what the request's ``cdec_row`` says.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.rows: dict[int, Tensor] = {}
        self._asked: dict[int, int] = {}

    def is_argmax_invariant(self) -> bool:
        """Say that it comes before whatever vLLM does to logits: they are kept as they are."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that enter, leave or move within the batch."""
        process_dict_updates(self._asked, batch_update, _row_of)

    def apply(self, logits: Tensor) -> Tensor:
        """Keep the rows that were asked for. A prompt read in parts leaves its last one."""
        if self._asked:
            found = logits[torch.tensor(list(self._asked), device=logits.device)].float()
            self.rows.update(zip(self._asked.values(), found.unbind(), strict=True))
        return logits


def vllm_engine(model: str, **arguments: Any) -> LLM:
    """Make an engine that a ``VllmModel`` can ask.

    Set ``VLLM_ENABLE_V1_MULTIPROCESSING=0`` and ``VLLM_USE_V2_MODEL_RUNNER=0`` in the environment
    before: the logits are read in this process, by a processor of the V1 runner.

    Args:
        model: As for ``vllm.LLM``. arguments: Others of it.
    """
    return LLM(model, logits_processors=[LogitsRecorder], **arguments)


def _row_of(params: Any, prompt: object, tokens: list[int]) -> int | None:
    row: int | None = (params.extra_args or {}).get(ROW)
    return row
