"""Keys and values of batches that change: what they give is what a plain forward pass gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.models.base import Budget
from cdec.core.models.loading import wrap_module
from cdec.core.models.transformers.architectures import CausalModel
from cdec.core.models.transformers.base import RecurrentModel, TransformersModel
from cdec.core.models.transformers.pooled import PlannedRow, group_rows
from tests.core.models.tiny_models import VOCABULARY, plain_encoder, plain_logprobs, tiny_module
from tests.laws.rounding import tolerance

TOLERANCE = tolerance(1)
LONGEST = 56
"""Tokens of a context at which the walks below turn back; the models' context has 64."""
SMALL = {"key_value_bytes": 60 * 256, "cache_bytes": 4000}
"""Room for 60 tokens, where the walks below want some 300."""


def causal(name: str = "llama", **sizes: int) -> CausalModel:
    module = tiny_module(name)
    budget = Budget(**sizes)
    return CausalModel(module, VOCABULARY, plain_encoder(), context_length=64, budget=budget)


class Walks:
    """Contexts of one model that change at random, and a plain forward pass over each.

    Args:
        model: Of ``causal``.
        seed: Of the changes.
    """

    def __init__(self, model: TransformersModel, seed: int) -> None:
        self.model = model
        self.rng = np.random.default_rng(seed)
        self.roots: list[int] = []
        self.seen: list[int] = []
        self.known: dict[tuple[int, ...], torch.Tensor] = {}
        self.open([self.prompt() for _ in range(4)])
        self.rows = np.array(self.roots)

    def prompt(self) -> list[int]:
        return self.rng.integers(2, 60, int(self.rng.integers(1, 12))).tolist()

    def open(self, prompts: Sequence[list[int]], begun: Any = None) -> None:
        roots = self.model.prefill(prompts, None, begun).tolist()
        self.roots += roots
        self.seen += roots

    def check(self, contexts: np.ndarray) -> None:
        """The rows of one batch equal a plain forward pass over each context's tokens."""
        got = self.model.next_logprobs(contexts)
        for row, context in zip(got, contexts.tolist(), strict=True):
            tokens = tuple(self.model.whole_tokens(context))
            if tokens not in self.known:
                self.known[tokens] = plain_logprobs(self.model._module, tokens)[-1]
            torch.testing.assert_close(row, self.known[tokens], atol=TOLERANCE, rtol=0)

    def append(self, steps: int) -> None:
        for _ in range(steps):
            going = [c for c in self.rows.tolist() if len(self.model.whole_tokens(c)) < LONGEST]
            self.rows = np.array(going or self.roots)
            tokens = self.rng.integers(2, 60, len(self.rows))
            self.rows = self.model.advance(self.rows, tokens)
            self.check(self.rows)
            self.seen += self.rows.tolist()

    def drop(self) -> None:
        kept = self.rng.random(len(self.rows)) < 0.6
        self.rows = self.rows[kept] if kept.any() else self.rows

    def branch(self) -> None:
        self.rows = self.rng.choice(self.rows, int(self.rng.integers(1, 9)))

    def join(self) -> None:
        self.rows = np.append(self.rows, self.rng.choice(self.seen, 2))

    def roll_back(self) -> None:
        steps = [min(2, len(self.model.tokens(c))) for c in self.rows.tolist()]
        self.rows = self.model.rollback(self.rows, steps)

    def extend(self) -> None:
        chosen = int(self.rng.choice(self.rows))
        if len(self.model.whole_tokens(chosen)) < LONGEST:
            _, end = self.model.extend(chosen, self.rng.integers(2, 60, 4).tolist())
            self.check(np.array([end, chosen]))
            self.rows = np.append(self.rows, end)

    def extend_all(self) -> None:
        if max(len(self.model.whole_tokens(c)) for c in self.rows.tolist()) < LONGEST:
            first = self.model.advance(self.rows, self.rng.integers(2, 60, len(self.rows)))
            second = self.model.advance(first, self.rng.integers(2, 60, len(self.rows)))
            self.check(np.concatenate([first, second]))
            self.rows = second

    def release(self) -> None:
        """Release a prompt; its ids come to mean other contexts at once."""
        gone = self.roots.pop(int(self.rng.integers(len(self.roots))))
        owners = {c: int(self.model.tree.roots(np.array([c]))[0]) for c in self.seen}
        self.seen = [context for context in self.seen if owners[context] != gone]
        kept = [c for c in self.rows.tolist() if owners.get(c, c) != gone]
        self.model.release([gone])
        self.open([self.prompt()])
        self.rows = np.array(kept or self.roots[-1:])

    def begin(self) -> None:
        """Open a prompt again, with some of a text that stood behind it already."""
        context = int(self.rng.choice(self.rows))
        root = int(self.model.tree.roots(np.array([context]))[0])
        begun = [*self.model.begun_tokens(root), *self.model.tokens(context)]
        self.open([self.model.prompt_tokens(root)], [begun])
        self.rows = np.append(self.rows, self.roots[-1])

    def run(self, changes: int) -> None:
        kinds = (self.drop, self.branch, self.join, self.roll_back, self.extend, self.extend_all)
        for number in range(changes):
            kind = (*kinds, self.release, self.begin)[int(self.rng.integers(8))]
            self.rows = np.unique(self.rows)[:12]
            kind()
            if number % 3:
                self.append(int(self.rng.integers(1, 5)))
        self.model.release(self.roots)
        if isinstance(self.model, CausalModel):
            assert self.model._pool.used == 0
        assert self.model.tree.live == 0


@pytest.mark.share(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "bloom"])
def test_batches_that_change_equal_plain_forward_passes(name: str, seed: int) -> None:
    Walks(causal(name), seed).run(24)


@pytest.mark.share("rows")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rows", [256, 3])
def test_batches_that_change_equal_plain_forward_passes_in_little_memory(
    rows: int, seed: int
) -> None:
    Walks(causal(**SMALL, max_batch_rows=rows), seed).run(24)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_states_of_a_recurrent_model_equal_plain_forward_passes(seed: int) -> None:
    module = tiny_module("rwkv")
    model = wrap_module(module, VOCABULARY)
    assert isinstance(model, RecurrentModel)
    Walks(model, seed).run(24)


def test_a_step_of_a_recurrent_model_reads_one_token_or_two() -> None:
    model: Any = wrap_module(tiny_module("rwkv"), VOCABULARY)
    rows = model.prefill([[5, 6, 7], [8, 9], [4, 4, 4]])
    roots, read = rows, []
    for tokens in ([2, 3, 4], [5, 6, 7], [8, 9, 10]):
        model.evaluate(rows)
        read.append([model.usage(int(root)).tokens for root in roots])
        rows = model.advance(rows, tokens)
    # Whole prompts, whole prefixes once more (there are no states before those), then two tokens.
    assert read == [[3, 2, 3], [3 + 4, 2 + 3, 3 + 4], [7 + 2, 5 + 2, 7 + 2]]
    for count in (1, 2):
        model.evaluate(rows[:1])
        assert model.usage(int(roots[0])).tokens == 9 + count
        rows = model.advance(rows, [3, 3, 3])


@pytest.mark.share(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "sizes"), [("llama", {}), ("gpt2", {}), ("bloom", {}), ("llama", SMALL)]
)
def test_long_rows_beside_short_ones_equal_plain_forward_passes(
    name: str, sizes: dict[str, int], seed: int
) -> None:
    model = causal(name, **sizes)
    model._padding = 8
    alone = []
    forward = model._far_longer

    def told(nodes: np.ndarray) -> Any:
        found = forward(nodes)
        alone.append(found is not None)
        return found

    model._far_longer = told  # type: ignore[method-assign]
    Walks(model, seed).run(24)
    assert any(alone) and not all(alone)


def usages(model: CausalModel, roots: np.ndarray) -> list[tuple[int, int]]:
    return [(u.calls, u.tokens) for u in map(model.usage, roots.tolist())]


def prompts_with_heads(rng: np.random.Generator) -> list[list[int]]:
    """Return prompts of two heads, one of which begins as the other does, and others."""
    first = rng.integers(2, 60, 33).tolist()
    second = first[:20] + rng.integers(2, 60, 9).tolist()
    tails = [rng.integers(2, 60, n).tolist() for n in (1, 4, 2, 7, 3)]
    return [*(first + t for t in tails), *(second + t for t in tails), first, tails[0], second[:25]]


@pytest.mark.share(1)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["llama", "mistral", "bloom", "gpt2"])
def test_prompts_that_begin_alike_equal_plain_forward_passes(name: str, seed: int) -> None:
    walks = Walks(causal(name), seed)
    prompts = prompts_with_heads(walks.rng)
    before = walks.model.total_usage.tokens
    walks.open(prompts)
    walks.rows = np.array(walks.roots[-len(prompts) :])
    walks.check(walks.rows)
    computed = walks.model.total_usage.tokens - before
    # 20 of both heads once, what follows of each once, and each prompt's own.
    assert computed < sum(map(len, prompts)) / 2
    assert [walks.model.usage(c).tokens for c in walks.rows.tolist()] == list(map(len, prompts))
    walks.run(20)


def test_prompts_that_begin_alike_are_counted_as_alone() -> None:
    prompts = prompts_with_heads(np.random.default_rng(2))
    model, alone = causal(), causal()
    roots = model.prefill(prompts)
    model.evaluate(roots)
    single = [alone.prefill([prompt]) for prompt in prompts]
    for root in single:
        alone.evaluate(root)
    assert usages(model, roots) == [usages(alone, root)[0] for root in single]
    assert alone.total_usage.tokens == sum(map(len, prompts))


def test_a_failed_pass_of_a_shared_beginning_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = causal()
    prompts = prompts_with_heads(np.random.default_rng(1))
    module, calls = model._module, 0

    def fail_at_second(**arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryError
        return module(**arguments)

    monkeypatch.setattr(model, "_module", fail_at_second)
    roots = model.prefill(prompts)
    with pytest.raises(MemoryError):
        model.evaluate(roots)
    monkeypatch.setattr(model, "_module", module)
    for row, prompt in zip(model.next_logprobs(roots), prompts, strict=True):
        expected = plain_logprobs(module, prompt)[-1]
        torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
    model.release(roots)
    assert model._pool.used == 0


@pytest.mark.parametrize("seed", range(3))
def test_beginnings_are_kept_from_batch_to_batch_within_their_bytes(seed: int) -> None:
    room = 80
    model = causal(prefix_cache_bytes=room * 256)
    rng = np.random.default_rng(seed)
    head = rng.integers(2, 60, 30).tolist()
    model.release(model.prefill([[2, 3]]))
    for number in range(12):
        # Two prompts of one head that never meet, and one of another.
        other = rng.integers(2, 60, 28).tolist()
        for prompt in (head + rng.integers(2, 60, 3).tolist(), other):
            root = model.prefill([prompt])
            before = model.total_usage.tokens
            row = model.next_logprobs(root)[0]
            expected = plain_logprobs(model._module, prompt)[-1]
            torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0)
            computed = model.total_usage.tokens - before
            assert computed == (3 if number and prompt is not other else len(prompt))
            assert model.usage(int(root[0])).tokens == len(prompt)
            model.release(root)
            assert model._pool.used <= room
    assert model._pool.used > room // 2
    assert model.tree.live == 0


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(4))
def test_batches_equal_plain_forward_passes_beside_kept_beginnings(seed: int) -> None:
    walks = Walks(causal(prefix_cache_bytes=40 * 256, **SMALL), seed)
    for _ in range(3):
        walks.open(prompts_with_heads(walks.rng)[3:7])
        walks.rows = np.array(walks.roots[-4:])
        walks.check(walks.rows)
        walks.append(4)
        walks.model.release(walks.roots)
        assert walks.model._pool.used <= 40
        walks.roots, walks.seen = [], []


@pytest.mark.parametrize("seed", range(5))
def test_passes_over_prompts_of_many_lengths_are_padded_by_a_tenth_at_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    news = np.concatenate([rng.integers(1, 40, 60), rng.integers(200, 4000, 20)])
    rows = [PlannedRow([number], int(new), int(new)) for number, new in enumerate(news)]
    groups = group_rows(rows, 16384, exact=False)
    assert sorted(row.nodes[0] for group in groups for row in group) == list(range(80))
    for group in groups:
        size = len(group) * max(row.new for row in group)
        assert size - sum(row.new for row in group) <= max(128, 0.1 * size)
        assert size <= 16384
    # Short prompts of similar lengths stay together: a pass of its own costs more than padding.
    assert len(group_rows(rows[:8], 16384, exact=False)) <= 4
