"""Contexts kept in a tree, distributions kept in a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import LimitError, UsageError
from cdec.core.models import context_tree
from cdec.core.models.base import Budget, TreeModel
from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.language_model import Contexts, LanguageModel, Prompt
from cdec.core.models.transformers import slot_table
from cdec.core.models.transformers.architectures import CausalModel
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.models.tiny_models import VOCABULARY, plain_encoder, plain_logprobs, tiny_module
from tests.laws.rounding import tolerance

# --- ContextTree: interning against a dictionary, ids, release, growth, limits, bytes a node.


class Reference:
    """The same tree with Python dictionaries: what ids and columns must be."""

    def __init__(self) -> None:
        self.children: dict[tuple[int, int], int] = {}
        self.nodes: dict[int, tuple[int, int, int, int]] = {}
        self.free: list[int] = []
        self.used = 0

    def allocate(self, n: int) -> list[int]:
        reused = sorted(self.free.pop() for _ in range(min(n, len(self.free))))
        fresh = list(range(self.used, self.used + n - len(reused)))
        self.used += len(fresh)
        return reused + fresh

    def add_root(self) -> int:
        node = self.allocate(1)[0]
        self.nodes[node] = (NONE, NONE, 0, node)
        return node

    def child(self, pairs: list[tuple[int, int]]) -> list[int]:
        new = sorted({pair for pair in pairs if pair not in self.children})
        for pair, node in zip(new, self.allocate(len(new)), strict=True):
            self.children[pair] = node
            _, _, depth, root = self.nodes[pair[0]]
            self.nodes[node] = (*pair, depth + 1, root)
        return [self.children[pair] for pair in pairs]

    def release(self, roots: list[int]) -> None:
        gone = sorted(node for node, row in self.nodes.items() if row[3] in roots)
        for node in gone:
            self.children.pop(self.nodes.pop(node)[:2], None)
        self.free += gone
        if not self.nodes:
            self.free, self.used = [], 0


def assert_equal(tree: ContextTree, reference: Reference) -> None:
    """Nodes, columns and every look-up agree."""
    assert tree.live == len(reference.nodes)
    nodes = np.array(sorted(reference.nodes), np.int64)
    rows = np.array([reference.nodes[node] for node in nodes.tolist()]).reshape(-1, 4)
    columns = [tree.parent[nodes], tree.token[nodes], tree.depth[nodes], tree.roots(nodes)]
    np.testing.assert_array_equal(np.stack(columns, axis=1), rows)
    inner = nodes[rows[:, 0] != NONE]
    again = tree.child(tree.parent[inner], tree.token[inner])
    np.testing.assert_array_equal(again, inner)
    assert tree.live == len(reference.nodes)
    assert tree._indexed == len(inner)  # else the table fills up, or grows for nothing


@pytest.mark.parametrize("seed", range(6))
def test_ids_and_columns_are_those_of_a_dictionary_through_growth_and_release(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree, reference = ContextTree(), Reference()
    roots: list[int] = []
    tokens = int(rng.choice([3, 500, 2**31 - 1]))
    for _ in range(120):
        if not roots or rng.random() < 0.2:
            roots.append(tree.add_root())
            assert reference.add_root() == roots[-1]
        live = np.array(sorted(reference.nodes))
        n = int(rng.integers(0, 200))
        # Often along one path, so that runs of the table hold deep chains too.
        parents = rng.choice(live[-50:], n) if rng.random() < 0.5 else rng.choice(live, n)
        chosen = rng.integers(0, tokens, n, endpoint=rng.random() < 0.5)
        got = tree.child(parents, chosen)
        assert got.dtype == np.int64
        assert got.tolist() == reference.child(
            list(zip(parents.tolist(), chosen.tolist(), strict=True))
        )
        if rng.random() < 0.15:
            gone = rng.choice(roots, int(rng.integers(1, len(roots) + 1)), replace=False)
            tree.free(tree.below(gone))
            reference.release(gone.tolist())
            roots = [root for root in roots if root not in gone]
            assert_equal(tree, reference)
    assert_equal(tree, reference)


def test_new_children_ascend_with_parent_and_token_and_released_ids_come_first() -> None:
    tree = ContextTree()
    first, second = tree.add_root(), tree.add_root()
    assert tree.child([second, first, first, second], [7, 9, 3, 7]).tolist() == [4, 3, 2, 4]
    tree.free(tree.below([first]))
    assert tree.child([second] * 4, [9, 8, 7, 6]).tolist() == [3, 2, 4, 0]


def test_released_nodes_are_not_found_again_and_their_columns_are_reset() -> None:
    tree = ContextTree()
    tree.add_column("value", np.int64, -7)
    tree.add_root_column("count", np.int64, 0)
    kept, gone = tree.add_root(), tree.add_root()
    children = tree.child(np.repeat(gone, 3000), np.arange(3000))
    tree.columns["value"][children] = 5
    tree.root_columns["count"][tree.number[gone]] = 5
    tree.free(tree.below([gone]))
    with pytest.raises(UsageError, match=f"context {children[0]} does not exist"):
        tree.child(children[:1], [0])
    fresh = tree.child(np.repeat(kept, 3000), np.arange(3000))
    assert sorted(fresh) == sorted(children)  # the ids, not the nodes
    assert (tree.columns["value"][fresh] == -7).all()
    assert (tree.roots(fresh) == kept).all()
    again = tree.add_root()
    assert tree.of_root("count", again) == 0


def test_values_survive_growth() -> None:
    tree = ContextTree()
    tree.add_column("value", np.int32, 0)
    level = np.array([tree.add_root()])
    seen: list[np.ndarray] = []
    for step in range(1, 9):
        level = tree.child(np.repeat(level, 4), np.tile([0, 1, 2, 3], len(level)))
        tree.columns["value"][level] = step
        seen.append(level)
    for step, nodes in enumerate(seen, start=1):
        assert (tree.columns["value"][nodes] == step).all()
        assert (tree.depth[nodes] == step).all()
    assert tree.tokens(int(seen[2][27])) == [1, 2, 3]


def test_a_node_costs_at_most_thirty_bytes() -> None:
    tree = ContextTree()
    root = tree.add_root()
    for count in (90_000, 100_000, 150_000, 230_000):
        missing = count - tree.live
        tree.child(np.repeat(root, missing), np.arange(tree.live, count))
        assert tree.live == count
        # 16 of columns with an eighth of room, and 4 a slot at a load of 0.35 to 0.7.
        assert tree.nbytes / count <= 16 * 9 / 8 + 4 / 0.35


def test_trees_that_come_and_go_take_no_more_memory_each_time() -> None:
    tree = ContextTree()
    tree.add_root()
    sizes = set()
    for _ in range(20):
        root = tree.add_root()
        tree.child(np.repeat(root, 5000), np.arange(5000))
        tree.free(tree.below([root]))
        sizes.add(tree.nbytes)
    assert len(sizes) == 1


def test_bad_pairs_are_refused_and_change_nothing() -> None:
    tree = ContextTree()
    root = tree.add_root()
    for parents, tokens, message in (
        ([root, 5], [1, 1], "context 5 does not exist"),
        ([root, -1], [1, 1], "context -1 does not exist"),
        ([root, root], [1, -1], "outside 0"),
        ([root], [2**31], "outside 0"),
        ([root], [1, 2], "1 contexts were advanced by 2 tokens"),
    ):
        with pytest.raises(UsageError, match=message):
            tree.child(parents, tokens)
        assert tree.live == 1
    with pytest.raises(UsageError, match="returned by prefill"):
        tree.below(tree.child([root], [2**31 - 1]))


def test_more_contexts_than_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_tree, "MOST_IDS", 10)
    tree = ContextTree()
    root = tree.add_root()
    kept = tree.child([root] * 6, range(6))
    with pytest.raises(LimitError, match="11 contexts are alive at once, at most 10 fit"):
        tree.child([root] * 7, range(3, 10))
    assert tree.live == 7
    assert tree.child([root] * 6, range(6)).tolist() == kept.tolist()
    assert len(set(tree.child([root] * 9, range(9)).tolist())) == 9


# --- Distributions kept by context: blocks, gathered rows, the budget, numbers used again.

WIDTH = 7
_LETTERS = Vocabulary(
    [bytes([97 + t]) for t in range(WIDTH - 1)] + [b""],
    eos_token_ids=[WIDTH - 1],
    special_token_ids=[WIDTH - 1],
)


def row_of(prefix: list[int]) -> np.ndarray:
    return np.random.default_rng([5, *prefix]).standard_normal(WIDTH).astype(np.float32)


class Hashed(TreeModel):
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
        module,
        VOCABULARY,
        plain_encoder(),
        context_length=64,
        budget=Budget(key_value_bytes=20_000),
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
