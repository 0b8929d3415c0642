"""What constrained decoding costs a step: choosing from logits, and whole steps of a real model."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cdec.core import CdecError, LanguageModel
from cdec.core.models.base import TreeModel
from cdec.core.models.warping import normalizers
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import Frontier, Step

Row = tuple[str, str, str]


class FixedLogits(TreeModel):
    """A model whose logits are given: only what follows them is timed."""

    def __init__(self, logits: torch.Tensor, vocabulary: Any) -> None:
        super().__init__(vocabulary)
        self._logits = logits

    def encode_prompt(self, prompt: Any) -> list[int]:
        return list(prompt)

    def _forward(self, nodes: NDArray[np.int64]) -> torch.Tensor:
        return self._logits[: len(nodes)]


def milliseconds(run: Callable[[], object], repeats: int = 30) -> float:
    """Return the median time of one call after three that are not counted."""
    times = []
    for _ in range(repeats + 3):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1000 * median(times[3:])


def random_logits(n: int, width: int, seed: int = 0) -> torch.Tensor:
    """Return float32[n, width] with the peaked shape of a language model's logits."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.standard_normal((n, width), np.float32)
    logits[np.arange(n), rng.integers(0, width, n)] += 12
    return torch.from_numpy(logits)


def steps(constraint: Any, states: NDArray[np.int64]) -> tuple[Step, Step]:
    """Return one step of as many prompts as states, constrained and free, on equal logits."""
    vocabulary = constraint.vocabulary
    model = FixedLogits(random_logits(len(states), vocabulary.width), vocabulary)
    made = []
    for chosen in (constraint, None):
        requests = [Request([1], chosen, [0]) for _ in range(len(states))]
        numbers = np.arange(len(states))
        frontier = Frontier.at_start(Batch(model, requests), numbers, np.zeros_like(numbers))
        if chosen is not None:
            frontier = dataclasses.replace(frontier, state=states)
        made.append(Step.of(frontier))
    return made[0], made[1]


def step_rows(constraint: Any, states: NDArray[np.int64]) -> Iterator[Row]:
    """Yield the row: from logits to sampled ids and log Z, against unconstrained sampling."""
    masked, free = steps(constraint, states)
    uniforms = np.random.default_rng(1).random(len(states))
    scores = torch.as_tensor(masked.scores)

    def constrained() -> None:
        normalizers(scores)
        events.sample(masked, uniforms)

    def unconstrained() -> None:
        normalizers(scores)
        events.sample(free, uniforms)

    def by_torch() -> None:
        torch.multinomial(torch.softmax(scores, -1), 1)

    ours, ours_free, theirs = (milliseconds(run) for run in (constrained, unconstrained, by_torch))
    yield (
        f"logits to sampled ids and log Z, batch {len(states)}, V {constraint.vocabulary.width:,}",
        "≤ 1.1 × unconstrained",
        f"{ours / ours_free:.2f} × ({ours:.2f} ms; cdec unconstrained {ours_free:.2f} ms, "
        f"torch softmax + multinomial {theirs:.2f} ms)",
    )


def binary_rows(ordinary: NDArray[np.int64], depth: int = 12) -> list[list[int]]:
    """Return 2**depth rows of ``depth`` tokens with two children at every node: no forced tails."""
    rng = np.random.default_rng(5)
    level: list[list[int]] = [[]]
    for _ in range(depth):
        level = [
            [*row, token]
            for row in level
            for token in rng.choice(ordinary, 2, replace=False).tolist()
        ]
    return level


def decode_step_ms(
    name: str, model: LanguageModel, constraint: Any, prompts: list[str], limit: int, seed: int
) -> float:
    """Draw one text a prompt and return milliseconds a lockstep step."""
    rng = np.random.default_rng(seed)
    seeds = [[int(rng.integers(2**53))] for _ in prompts]
    requests = [
        Request(prompt, constraint, chosen, max_new_tokens=limit)
        for prompt, chosen in zip(prompts, seeds, strict=True)
    ]
    begin = time.perf_counter()
    drawn = SAMPLERS[name]().draw_batch(model, requests)
    seconds = time.perf_counter() - begin
    calls = []
    for samples in drawn:
        if isinstance(samples, CdecError):
            raise samples
        calls.append(samples[0].diagnostics["target_calls"])
    return 1000 * seconds / max(calls)  # type: ignore[type-var, operator]


def overhead_rows(
    model: LanguageModel, constraint: Any, prompts: list[str], depth: int
) -> Iterator[Row]:
    """Yield the row: time a step of ``masked`` over ``unconstrained``, pair by pair.

    Args:
        model: The language model.
        constraint: A set of rows of ``depth`` tokens that branches everywhere, so that every step
            is a step of the whole batch (forced tails would be evaluated ahead).
        prompts: Beginnings of long texts, which the model alone continues past ``depth`` tokens.
        depth: Tokens a text.
    """
    masked, free = [], []
    for seed in range(23):
        free.append(decode_step_ms("unconstrained", model, None, prompts, depth, seed))
        masked.append(decode_step_ms("masked", model, constraint, prompts, depth, seed))
    ratios = [a / b for a, b in zip(masked[3:], free[3:], strict=True)]
    yield (
        f"`masked` over `unconstrained`, embedded model, batch {len(prompts)}",
        "≤ 5 % a step",
        f"{100 * (median(ratios) - 1):+.1f} % ({median(masked[3:]):.2f} against "
        f"{median(free[3:]):.2f} ms a step)",
    )
