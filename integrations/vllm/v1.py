"""ConstraintProcessor for vLLM's V1 model runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from cdec.core.errors import UsageError
from cdec.integrations.cursors import MatcherCursor
from cdec.integrations.serving.matcher import BatchMatcher
from cdec.integrations.vllm.reasoning import reasoning_of
from cdec.integrations.vllm.requests import asked_of, constraint_of, served_by, validate

if TYPE_CHECKING:
    from torch import Tensor

_PENDING = -1
"""What vLLM writes in place of a token that it has not read from the device yet."""


class ConstraintProcessor(LogitsProcessor):
    """Holds requests to what their ``cdec`` argument asks.

    The tokens of a text are vLLM's own list, so a request that was preempted and begins again is
    followed again, and one whose tokens were taken back as well. vLLM refuses named processors
    under speculative decoding itself.

    Args:
        vllm_config: The engine's.
        device: Of the logits.
        is_pin_memory: Not used.

    Raises:
        UsageError: Loaded by an entry point under asynchronous scheduling, where vLLM gives the
            tokens of a text to processors that were named only.
        CdecError: As ``served_by`` and ``reasoning_of``.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        model, scheduling = vllm_config.model_config, vllm_config.scheduler_config
        if scheduling.async_scheduling and not model.logits_processors:
            raise UsageError(
                "vLLM schedules asynchronously, and gives processors of entry points no tokens",
                hint="name it in logits_processors: cdec.integrations.vllm.v1:ConstraintProcessor",
            )
        self._served = served_by(vllm_config)
        vocabulary = self._served.vocabulary
        if vocabulary is None:
            raise UsageError("the model has no tokenizer")
        self._reasoning = reasoning_of(vllm_config, self._served.settings, vocabulary)
        self._rows = BatchMatcher(torch.device(device), vocabulary.eos_token_ids[0])
        self._texts: dict[int, _Text] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that cannot be served.

        Raises:
            VLLMValidationError: As ``validate``.
        """
        validate(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Say that greedy decoding is changed."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow requests that enter, leave or move within the batch."""
        process_dict_updates(self._texts, batch_update, self._text)

    def apply(self, logits: Tensor) -> Tensor:
        """Set to -inf what the texts do not go on with, in place."""
        rows = sorted(self._texts)
        if rows:
            texts = [self._texts[row] for row in rows]
            cursor = [text.cursor for text in texts]
            self._rows.apply(logits, rows, cursor, self._followed(texts))
        return logits

    def _text(self, params: Any, prompt: list[int] | None, tokens: list[int]) -> _Text | None:
        if asked_of(params) is None:
            return None
        constraint = constraint_of(params, self._served, self._reasoning, prompt)
        cursor = None if constraint is None else self._rows.opened(constraint)
        return _Text(cursor, tokens, 0, self._rows.walk(cursor, ()))

    def _followed(self, texts: list[_Text]) -> Tensor:
        """Return the state of each text, int64[n]; one step of the batch, but after a gap."""
        steps = [text for text in texts if len(text.tokens) == text.count + 1]
        if any(text.tokens[-1] == _PENDING for text in texts if text.tokens):
            raise UsageError("vLLM gave a text whose last token it has not read")
        if steps:
            after = self._rows.after(
                [text.cursor for text in steps],
                self._rows.states([text.state for text in steps]),
                torch.tensor([text.tokens[-1] for text in steps], device=self._rows.device),
            )
            for text, state in zip(steps, after.unbind(), strict=True):
                text.state, text.count = state, text.count + 1
        for text in texts:
            if len(text.tokens) != text.count:
                text.state = self._rows.walk(text.cursor, text.tokens)
                text.count = len(text.tokens)
        return self._rows.states([text.state for text in texts])


@dataclass(slots=True)
class _Text:
    """A request's text: vLLM's list of its tokens, how many of them led to the state."""

    cursor: MatcherCursor | None
    tokens: list[int]
    count: int
    state: Any
