"""Distributions kept by context: blocks, gathered rows, the budget, numbers used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import UsageError
from cdec.core.models.base import Contexts, LanguageModel, Prompt
from cdec.core.models.transformers import slot_table
from cdec.core.models.transformers.causal import CausalModel
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.models.tiny_models import VOCABULARY, plain_encoder, plain_logprobs, tiny_module
from tests.laws.rounding import tolerance

WIDTH = 7
_LETTERS = Vocabulary(
    [bytes([97 + t]) for t in range(WIDTH - 1)] + [b""],
    eos_token_ids=[WIDTH - 1],
    special_token_ids=[WIDTH - 1],
)


def row_of(prefix: list[int]) -> np.ndarray:
    return np.random.default_rng([5, *prefix]).standard_normal(WIDTH).astype(np.float32)


class Hashed(LanguageModel):
    """Random logits by prefix, as numpy arrays or torch tensors."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__(_LETTERS, **options)
        self.kind = kind

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        return [0]

    def _forward(self, nodes: Contexts) -> Any:
        rows = [row_of(self.tokens(node)) for node in nodes.tolist()]
        scores = np.array(rows, np.float32).reshape(-1, WIDTH)
        self._count(nodes, 1, 1)
        return torch.from_numpy(scores) if self.kind == "torch" else scores


def grown(model: LanguageModel, steps: int = 5) -> np.ndarray:
    """Contexts of several blocks, each level evaluated alone."""
    rng = np.random.default_rng(0)
    level = model.prefill([""])
    levels = [level]
    for _ in range(steps):
        model.evaluate(level)
        level = model.advance(rng.choice(level, 4), rng.integers(0, 6, 4))
        levels.append(level)
    return np.concatenate(levels)


def expected(model: LanguageModel, contexts: np.ndarray) -> np.ndarray:
    rows = np.array([row_of(model.tokens(context)) for context in contexts], np.float64)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_blocks_and_gathered_rows_hold_each_context_s_distribution(kind: str) -> None:
    model = Hashed(kind)
    contexts = np.random.default_rng(1).choice(grown(model), 40)
    wanted = expected(model, contexts)
    parts = model.scores_of(contexts)
    assert len(parts) > 3
    positions = np.concatenate([part.positions for part in parts])
    assert sorted(positions.tolist()) == list(range(40))
    for at, scores, log_normalizer, rows in parts:
        assert rows.dtype == np.int64
        got = np.asarray(scores)[rows] - np.asarray(log_normalizer)[rows][:, None]
        np.testing.assert_allclose(got, wanted[at], atol=1e-6)
    gathered = model.evaluate(contexts)
    assert gathered.rows.dtype == np.int64
    assert len(gathered.scores) == len(np.unique(contexts))
    np.testing.assert_allclose(np.asarray(gathered.logprobs()), wanted, atol=1e-6)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_blocks_are_those_that_evaluate_gives_not_copies(kind: str) -> None:
    model = Hashed(kind)
    root = model.prefill([""])
    children = model.advance(np.repeat(root, 3), [0, 1, 2])
    held = [np.asarray(model.evaluate(batch).scores) for batch in (root, children)]
    parts = model.scores_of(np.concatenate([children, root]))
    assert [part.positions.tolist() for part in parts] == [[3], [0, 1, 2]]
    for part, scores in zip(parts, held, strict=True):
        assert np.shares_memory(np.asarray(part.scores), scores)


def test_blocks_of_unevaluated_contexts_are_computed_first() -> None:
    model = Hashed("numpy")
    root = model.prefill([""])
    children = model.advance(np.repeat(root, 2), [4, 2])
    (part,) = model.scores_of(np.concatenate([children, children[:1]]))
    np.testing.assert_array_equal(part.scores[part.rows], [row_of([t]) for t in (4, 2, 4)])
    assert model.usage(int(root[0])).evaluations == 2
    assert model.scores_of(np.zeros(0, np.int64)) == []
    model.release(root)
    with pytest.raises(UsageError, match="does not exist"):
        model.scores_of(children)


def test_blocks_under_a_small_budget_never_answer_for_other_contexts() -> None:
    model = Hashed("numpy", cache_bytes=6 * 1100)
    rng = np.random.default_rng(2)
    roots = list(model.prefill([""] * 3))
    alive = {root: np.array([root]) for root in roots}
    for step in range(150):
        root = roots[int(rng.integers(3))]
        level = model.advance(rng.choice(alive[root], 3), rng.integers(0, 6, 3))
        alive[root] = np.concatenate([alive[root], level])
        everything = np.concatenate(list(alive.values()))
        asked = rng.choice(everything, int(rng.integers(1, 6)))
        np.testing.assert_allclose(model.next_logprobs(asked), expected(model, asked), atol=1e-6)
        if step % 10 == 9:  # ids and block numbers come to mean something else
            model.release([root])
            del alive[root]
            roots[roots.index(root)] = fresh = int(model.prefill([""])[0])
            alive[fresh] = np.array([fresh])
    assert model._distributions.bytes <= 6 * 1100
    assert model.tree.columns["block"].max() < 20


def test_the_budget_counts_what_small_blocks_cost_beside_their_scores() -> None:
    model = Hashed("numpy", cache_bytes=100_000)
    root = model.prefill([""])
    for context in model.advance(np.repeat(root, 6), range(6)).tolist():
        for child in model.advance([context] * 6, range(6)).tolist():
            for last in model.advance([child] * 6, range(6)).tolist():
                model.evaluate([last])
    assert len(model._distributions._blocks) < 100
    assert model._distributions.bytes <= 100_000


def test_slots_stay_right_when_the_count_of_passes_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slot_table, "_LAST_PASS", 5)
    module = tiny_module("llama", None)
    model = CausalModel(
        module, VOCABULARY, plain_encoder(), context_length=64, key_value_bytes=20_000
    )
    rng = np.random.default_rng(3)
    contexts = model.prefill([[3, 4, 5], [6]])
    for _ in range(20):
        contexts = model.advance(rng.choice(contexts, 3), rng.integers(2, 60, 3))
        got = model.next_logprobs(contexts)
        for row, context in zip(got, contexts.tolist(), strict=True):
            prompt = model._prompt_ids[int(model.tree.roots(np.array([context]))[0])]
            plain = plain_logprobs(module, prompt + model.tokens(context))[-1]
            torch.testing.assert_close(row, plain, atol=tolerance(1), rtol=0)
    assert model.tree.columns["pass"].max() <= 5
