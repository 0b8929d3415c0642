"""Stand-ins for the modules of vLLM (0.32) that cdec's processors import, where it is missing.

They have what vLLM's own have of the same names: an update of a batch, parameters of a request, a
context of the V2 runner, the manager of reasoning parsers and the base of most of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

OURS = tuple(f"cdec.integrations.vllm.{name}" for name in ("reasoning", "requests", "v1", "v2"))


class VLLMValidationError(ValueError):
    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)


@dataclass
class SamplingParams:
    extra_args: dict[str, Any] | None = None
    max_tokens: int | None = 16


@dataclass
class BatchUpdate:
    """Requests that entered, as (row, parameters, prompt, tokens); others that left or moved."""

    added: list[tuple[int, Any, list[int] | None, list[int]]]
    removed: list[int] = field(default_factory=list)


def process_dict_updates(
    found: dict[int, Any], update: BatchUpdate | None, new: Callable[[Any, Any, list[int]], Any]
) -> bool:
    if update is None:
        return False
    for row, params, prompt, tokens in update.added:
        found.pop(row, None)
        if (state := new(params, prompt, tokens)) is not None:
            found[row] = state
    for row in update.removed:
        found.pop(row, None)
    return True


class ThinkParser:
    """As vLLM's parsers of models that think between two tokens."""

    start_token, end_token = "<think>", "</think>"
    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, tokenizer: Any, *_: Any, **told: Any) -> None:
        ids = tokenizer.get_vocab()
        self.made.append(told)
        self.start, self.end = ids[self.start_token], ids[self.end_token]

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        for token in reversed(input_ids):
            if token in (self.start, self.end):
                return token == self.end
        return False


class SilentParser:
    """As one that tells nowhere at which text reasoning ends."""

    def __init__(self, tokenizer: Any, *_: Any, **told: Any) -> None:
        self.end = tokenizer.get_vocab()["</think>"]

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return self.end in input_ids


PARSERS = {"think": ThinkParser, "silent": SilentParser}


def _modules(tokenizer: Any) -> dict[str, dict[str, Any]]:
    base = type("LogitsProcessor", (), {})
    manager = SimpleNamespace(
        get_reasoning_parser=PARSERS.__getitem__,
        import_reasoning_parser=lambda path: PARSERS.update({path: ThinkParser}),
    )
    return {
        "vllm": {"SamplingParams": SamplingParams},
        "vllm.exceptions": {"VLLMValidationError": VLLMValidationError},
        "vllm.reasoning": {"ReasoningParserManager": manager},
        "vllm.tokenizers": {"cached_tokenizer_from_config": lambda _: tokenizer},
        "vllm.v1.sample.logits_processor": {"LogitsProcessor": base, "BatchUpdate": BatchUpdate},
        "vllm.v1.sample.logits_processor.builtin": {"process_dict_updates": process_dict_updates},
        "vllm.v1.worker.gpu.sample.logits_processor": {"LogitsProcessor": base},
    }


@contextmanager
def stand_ins(tokenizer: Any) -> Iterator[SimpleNamespace]:
    """Import cdec's modules for vLLM over stand-ins; yields them by the last words of names."""
    before = {name: sys.modules[name] for name in sys.modules if name.partition(".")[0] == "vllm"}
    before |= {name: sys.modules[name] for name in OURS if name in sys.modules}
    for name in before:
        del sys.modules[name]
    made: set[str] = set()
    for name, content in _modules(tokenizer).items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            whole = ".".join(parts[:end])
            if whole not in sys.modules:
                sys.modules[whole] = ModuleType(whole)
                made.add(whole)
        vars(sys.modules[name]).update(content)
    try:
        ours = {name.rpartition(".")[2]: import_module(name) for name in OURS}
        yield SimpleNamespace(**ours)
    finally:
        for name in (*made, *OURS):
            sys.modules.pop(name, None)
        sys.modules.update(before)
