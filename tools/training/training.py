"""The training loop: bfloat16 steps, float32 masters, a learning rate that follows the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tools.training.mixture import TokenStream
from tools.training.model import CONTEXT, chunked_cross_entropy, register_attention

SAVE_EVERY = 180.0  # seconds


@dataclass(frozen=True)
class Plan:
    """How long and how to train.

    Attributes:
        seconds: Time budget; the learning rate falls to zero with it.
        max_steps: Stop earlier after so many steps (None: the clock alone decides). With it, the
            schedule follows the steps, and the result is the same on every run.
        batch_tokens: Tokens a step.
        length: Tokens a sequence in the first part.
        long_share: Part of the budget spent on sequences of the whole context.
        learning_rate: Peak.
        warmup: Steps until the peak.
        compile: Fuse the model's operations (needs a C++ compiler).
        clock: Of the time budget, in seconds.
    """

    seconds: float
    max_steps: int | None = None
    batch_tokens: int = 8192
    length: int = 256
    long_share: float = 0.25
    learning_rate: float = 1e-2
    warmup: int = 100
    compile: bool = False
    clock: Callable[[], float] = time.monotonic


@dataclass
class Progress:
    """What a training run measured."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = float("nan")

    def as_dict(self) -> dict[str, float]:
        """Return the figures, rounded, for a report."""
        return {key: round(value, 4) for key, value in asdict(self).items()}


class Trainer:
    """Trains one model; ``model`` holds bfloat16 copies of ``masters``."""

    def __init__(self, model: Any, stream: TokenStream, plan: Plan) -> None:
        self.masters = [p.detach().clone() for p in model.parameters()]
        self.model = model.to(torch.bfloat16)
        self.stream = stream
        self.plan = plan
        self.progress = Progress()
        self.optimizers = _optimizers(model, self.masters, plan.learning_rate)
        self._average = float("nan")

    def run(self, save: Callable[[], None], log: Callable[[str], None]) -> Progress:
        """Train until the budget is spent.

        Args:
            save: Called every few minutes and at the end, with current weights in place.
            log: Receives progress lines.

        Returns:
            Steps, tokens, seconds and the smoothed final loss.
        """
        began = saved = self.plan.clock()
        trunk, length = self._trunk(self.plan.length), self.plan.length
        while (done := self._done(began)) < 1.0:
            if length != CONTEXT and self.plan.long_share and done >= 1.0 - self.plan.long_share:
                trunk, length = self._trunk(CONTEXT), CONTEXT
            self._step(trunk, length, done)
            self.progress.seconds = self.plan.clock() - began
            if self.progress.steps % 50 == 0:
                log(self._line(length))
            if self.plan.clock() - saved > SAVE_EVERY:
                save()
                saved = self.plan.clock()
        save()
        return self.progress

    def _done(self, began: float) -> float:
        if self.plan.max_steps is not None:
            return self.progress.steps / self.plan.max_steps
        return (self.plan.clock() - began) / self.plan.seconds

    def _trunk(self, length: int) -> Callable[..., Any]:
        # subtle: scores of the whole context would not fit the cache, so long rows use the kernel.
        attention = "sdpa" if length == CONTEXT else register_attention()
        self.model.config._attn_implementation = attention
        trunk: Any = self.model.model
        return torch.compile(trunk, dynamic=False) if self.plan.compile else trunk

    def _step(self, trunk: Callable[..., Any], length: int, done: float) -> None:
        rows = max(1, self.plan.batch_tokens // length)
        ids, weights = map(torch.from_numpy, self.stream.batch(rows, length))
        hidden = trunk(input_ids=ids, use_cache=False).last_hidden_state
        hidden = hidden[:, :-1].reshape(-1, hidden.shape[-1])
        head = self.model.lm_head.weight
        labels, weights = ids[:, 1:].reshape(-1), weights[:, 1:].reshape(-1)
        loss = chunked_cross_entropy(hidden, head, labels, weights)
        loss.backward()  # type: ignore[no-untyped-call]
        self._update(done)
        value = float(loss.detach())
        first = self.progress.steps == 0
        self._average = value if first else 0.98 * self._average + 0.02 * value
        self.progress.loss = self._average
        self.progress.steps += 1
        self.progress.tokens += ids.numel()

    def _update(self, done: float) -> None:
        parameters = list(self.model.parameters())
        for master, parameter in zip(self.masters, parameters, strict=True):
            master.grad = parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        factor = min(1.0, (self.progress.steps + 1) / self.plan.warmup) * (1.0 - done)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(self.masters, parameters, strict=True):
                parameter.copy_(master)

    def _line(self, length: int) -> str:
        p = self.progress
        rate = p.tokens / max(p.seconds, 1e-9)
        return (
            f"step {p.steps}  length {length}  loss {p.loss:.4f}  "
            f"{p.tokens / 1e6:.2f}M tokens  {rate:.0f} tokens/s  {p.seconds:.0f} s"
        )


def _optimizers(model: Any, masters: list[Tensor], rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    names = [name for name, _ in model.named_parameters()]
    matrix = [m.ndim == 2 and "layers" in n for n, m in zip(names, masters, strict=True)]
    inner = [m for m, is_matrix in zip(masters, matrix, strict=True) if is_matrix]
    outer = [m for m, is_matrix in zip(masters, matrix, strict=True) if not is_matrix]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(inner, lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(outer, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = rate
    return optimizers


def save_model(trainer: Trainer, folder: Path) -> None:
    """Write configuration and float16 weights as transformers reads them."""
    from transformers import GenerationConfig, LlamaForCausalLM

    config = type(trainer.model.config).from_dict(trainer.model.config.to_dict())
    config._attn_implementation = "sdpa"
    copy = LlamaForCausalLM(config)
    with torch.no_grad():
        for master, parameter in zip(trainer.masters, copy.parameters(), strict=True):
            parameter.copy_(master)
    copy.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=1, pad_token_id=2)
    copy.to(torch.float16).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)


def load_model(folder: Path) -> Any:
    """Read the weights that ``save_model`` wrote, in float32."""
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
