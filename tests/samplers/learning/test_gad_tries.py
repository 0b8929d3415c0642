"""Tries of grammar-aligned decoding, and noise."""

from __future__ import annotations

import json
import lzma
import math
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import target
from cdec.samplers import SAMPLERS
from cdec.samplers.prefix_tree import PrefixTree, Visit
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import MassEstimator
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import LogitModel, Row, TinyWorld, Toy, far_siblings
from tests.shared import shared_folder

# --- The prefix tree against oracle tries that the authors of ASAp recorded from real models.
#
# A recorded node is ``[token_id, token, p, success, is_end, [children]]``: p the model's
# probability
# of the token, success the authors' estimate of the mass of valid completions, which is the sum of
# p * success over the children at every inner node, and 1 at every leaf.

DRAWS = heavy_or(5_000, 20_000)
FOLDER = shared_folder() / "data" / "gad_tries"
FILES = 22
CLOSED = "trie_PRE_100_10_binary_3_Mistral-7B-Instruct-v0.1_i10_cpu_gad_before"
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]]|[^\s\[\],"]+')
_NEW = {"draw": np.int64, "request": np.int64, "in_run": np.bool_}


@dataclass(frozen=True)
class Trie:
    """A recorded trie in preorder, N nodes; the root is node 0.

    Attributes:
        parent, token, depth: int64[N]; -1 and -1 at the root.
        p, success: float64[N]; p is 1 at the root.
        is_leaf, is_end: bool[N].
    """

    parent: NDArray[np.int64]
    token: NDArray[np.int64]
    depth: NDArray[np.int64]
    p: NDArray[np.float64]
    success: NDArray[np.float64]
    is_leaf: NDArray[np.bool_]
    is_end: NDArray[np.bool_]


def read(path: Path) -> Trie:
    """Read a file part by part: its arrays nest deeper than JSON parsers go."""
    rows: list[list[Any]] = []
    above: list[int] = []
    for part in _PART.findall(lzma.decompress(path.read_bytes()).decode()):
        if part == "[":
            if len(above) % 2 == 0:  # a node; its list of children is the next bracket
                rows.append([above[-1] if above else -1, len(above) // 2])
            above.append(len(rows) - 1)
        elif part == "]":
            above.pop()
        else:
            rows[-1].append(json.loads(part))
    parent, depth, token, _, p, success, is_end = zip(*rows, strict=True)
    is_leaf = np.ones(len(rows), np.bool_)
    is_leaf[np.array(parent)[1:]] = False
    return Trie(
        parent=np.array(parent),
        token=np.array([-1, *token[1:]]),
        depth=np.array(depth),
        p=np.array([1.0, *p[1:]]),
        success=np.array(success, np.float64),
        is_leaf=is_leaf,
        is_end=np.array(is_end, np.bool_),
    )


def visit(
    tree: PrefixTree, trie: Trie, nodes: NDArray[np.int64], log_mass: Any, **how: Any
) -> None:
    """Record ``nodes`` (int64[n]) of a trie, whose numbers serve as contexts."""
    with np.errstate(divide="ignore"):
        edge = np.log(trie.p[nodes])
    seen: Any = SimpleNamespace(
        context=nodes,
        parent=trie.parent[nodes],
        log_edge=edge,
        log_prefix=edge,
        **{name: np.zeros(len(nodes), dtype) for name, dtype in _NEW.items()},
    )
    tree.visit(seen, Visit(log_mass, **how))


def log_sums(trie: Trie, nodes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return, by node, the log of the summed p of its children among ``nodes`` (bool[N])."""
    sums = np.zeros(len(trie.p))
    np.add.at(sums, trie.parent[nodes], trie.p[nodes])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sums))


def empty_tree(trie: Trie) -> PrefixTree:
    """Return a tree over the nodes of a trie."""
    names = ("parent", "token", "depth")
    columns = {name: getattr(trie, name).astype(np.int32) for name in names}
    contexts: Any = SimpleNamespace(columns=columns)
    return PrefixTree(1, contexts)


def tree_with_open_leaves(trie: Trie) -> PrefixTree:
    """Visit the inner nodes alone: a leaf is a token that nobody drew, or an end event."""
    tree = empty_tree(trie)
    inner = np.flatnonzero(~trie.is_leaf)
    masses = log_sums(trie, trie.is_leaf)[inner]
    for depth in range(int(trie.depth[inner].max()) + 1):
        here = trie.depth[inner] == depth
        visit(tree, trie, inner[here], masses[here], exact=True)
    return tree


def tree_with_terminal_leaves(trie: Trie) -> PrefixTree:
    """Visit every node: a leaf is a text that ended itself."""
    tree = empty_tree(trie)
    for depth in range(int(trie.depth.max()) + 1):
        here = trie.depth == depth
        inner, leaves = np.flatnonzero(here & ~trie.is_leaf), np.flatnonzero(here & trie.is_leaf)
        visit(tree, trie, inner, np.full(len(inner), -np.inf), exact=True)
        if leaves.size:
            visit(tree, trie, leaves, np.zeros(len(leaves)), terminal=True)
    return tree


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.json.xz"))


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_all_files_are_there_and_read_whole() -> None:
    tries = [read(path) for path in paths()]
    assert len(tries) == FILES
    assert sum(len(trie.p) for trie in tries) == 133_608
    for trie in tries:
        assert (trie.success[trie.is_leaf] == 1).all()
        assert trie.is_leaf[trie.is_end].all()


@pytest.mark.share(13)
@pytest.mark.parametrize("path", paths(), ids=lambda path: path.name.removesuffix(".json.xz"))
@pytest.mark.parametrize("build", [tree_with_open_leaves, tree_with_terminal_leaves])
def test_bounds_of_every_inner_node_are_the_recorded_ones(path: Path, build: Any) -> None:
    trie = read(path)
    tree = build(trie)
    tree.update()
    inner = np.flatnonzero(~trie.is_leaf)
    bound = tree["bound"][inner]
    # Recorded values are float64 down to 1e-300; logs hold what would underflow.
    with np.errstate(divide="ignore"):
        expected = np.log(trie.success[inner])
    known = trie.success[inner] > np.finfo(np.float64).tiny
    assert known.any()
    np.testing.assert_allclose(np.expm1(bound[known] - expected[known]), 0, atol=1e-9)
    # What the record rounded to zero, or below the normal range, must be as small here.
    assert (bound[~known] < math.log(np.finfo(np.float64).tiny) + 1e-6).all()
    assert tree.log_upper(0) == bound[0]


def closed_toy() -> Toy:
    """Return the closed file as a toy: model and grammar of Example 2 of the paper.

    Tokens 0 and 1 are the recorded ones; token 2 takes what the record leaves out of 1, so it is
    what the grammar forbids; token 3 ends.
    """
    trie = read(FOLDER / f"{CLOSED}.json.xz")
    names = {token: place for place, token in enumerate(sorted(set(trie.token[trie.depth > 0])))}
    assert len(names) == 3  # the end, id 2, is the lowest
    own = {token: (place - 1) % 3 for token, place in names.items()}
    place = {0: 0, 1: 1, 2: 3}
    prefixes: list[Row] = [()]
    table: dict[Row, NDArray[np.float64]] = {(): np.zeros(4)}
    members = []
    for node in range(1, len(trie.p)):
        before = prefixes[trie.parent[node]]
        token = place[own[int(trie.token[node])]]
        table[before][token] = trie.p[node]
        prefixes.append((*before, token))
        if trie.is_leaf[node]:
            members.append(before)
        else:
            table[(*before, token)] = np.zeros(4)
    for row in table.values():
        row[2] = 1 - row.sum()
    nowhere = np.array([0.0, 0.0, 1.0, 0.0])
    vocabulary = Vocabulary([b"0", b"1", b"?", b""], eos_token_ids=[3], special_token_ids=[3])
    return Toy(vocabulary, lambda prefix: table.get(prefix, nowhere), members)


@pytest.mark.usefixtures("shared")
def test_closed_trie_is_example_2_of_the_paper() -> None:
    toy = closed_toy()
    texts = ["".join(map(str, row)) for row in sorted(toy.members)]
    assert texts == ["000", "100", "101", "110", "111"]
    trie = read(FOLDER / f"{CLOSED}.json.xz")
    law = target(toy)
    assert sum(law.values()) == pytest.approx(1)
    total = sum(
        math.prod(toy.probabilities(row[:i])[t] for i, t in enumerate((*row, 3)))
        for row in toy.members
    )
    assert total == pytest.approx(trie.success[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("round_size", [1, 16])
@pytest.mark.parametrize("name", ["exact", "asap"])
def test_draws_on_the_closed_trie_follow_its_law(name: str, round_size: int) -> None:
    toy = closed_toy()
    # Before the tree is closed asap follows the masked law; 200 draws visit all of 11 prefixes.
    options = {"burn_in": 200} if name == "asap" else {}
    sampler = SAMPLERS[name](round=round_size, **options)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=DRAWS, rng=np.random.default_rng(7))
    rows = [tuple(sample.token_ids) for sample in samples]
    assert g_test(rows, target(toy)) >= 1e-4
    expected = math.log(read(FOLDER / f"{CLOSED}.json.xz").success[0])
    last = samples[-1].diagnostics
    for side in ("log_mass_lower", "log_mass_upper"):
        assert last[side] == pytest.approx(expected, abs=1e-9)


@pytest.mark.usefixtures("shared")
def test_masked_draws_on_the_closed_trie_do_not() -> None:
    toy = closed_toy()
    samples = SAMPLERS["masked"]().draw(
        toy.model(), toy.constraint, "", n=DRAWS, rng=np.random.default_rng(7)
    )
    assert g_test([tuple(sample.token_ids) for sample in samples], target(toy)) < 1e-12


# --- Bounds under rounding: what one batch, device or processor certifies holds for all others.

NOISE = 1e-6
DEVICES = ["cpu", "torch:cpu"]


class NoisyModel(LogitModel):
    """Logits that are off by up to ``NOISE``, differently in every pass."""

    rounding = NOISE
    event_rounding = 2 * NOISE

    def __init__(self, world: TinyWorld, seed: int, device: str = "cpu") -> None:
        super().__init__(world.logits, world.vocabulary, device)
        self._rng = np.random.default_rng(seed)

    def _forward(self, nodes: NDArray[np.int64]) -> Any:
        scores = super()._forward(nodes)
        off = self._rng.uniform(-NOISE, NOISE, size=tuple(scores.shape))
        if isinstance(scores, np.ndarray):
            return scores + off
        return scores + scores.new_tensor(off)


def drawn(method: str, model: LogitModel, world: TinyWorld, **how: Any) -> Any:
    rng = np.random.default_rng(1)
    sampler = SAMPLERS[method](**how)
    return sampler.draw(model, world.constraint, [0], n=60, rng=rng)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["exact", "asap", "topn", "masked"])
def test_bounds_hold_for_every_pass_and_still_meet(method: str, device: str) -> None:
    world = far_siblings(1.0)
    for seed in range(5):
        samples = drawn(method, NoisyModel(world, seed, device), world)
        found = samples[0].diagnostics
        assert found["log_mass_lower"] <= world.log_mass <= found["log_mass_upper"]
        if method == "masked":
            continue
        assert found["log_mass_upper"] - found["log_mass_lower"] < 40 * NOISE
        assert found["probability"] is not None
        for sample in samples:
            if sample.logprob is None:
                continue
            q = np.exp(world.log_p(tuple(sample.token_ids)) - world.log_mass)
            assert sample.probability_lower <= q <= sample.probability_upper
            assert sample.probability_lower <= sample.probability <= sample.probability_upper


def test_what_was_not_found_is_bounded_for_every_pass() -> None:
    world = far_siblings(1.0)
    logs = sorted((world.log_p(row) for row in world.members), reverse=True)
    for seed in range(5):
        rng = np.random.default_rng(1)
        model = NoisyModel(world, seed)
        (best,) = SAMPLERS["topn"]().draw(model, world.constraint, [0], n=1, rng=rng)
        assert logs[1] <= best.log_unfound_upper


@pytest.mark.parametrize("device", DEVICES)
def test_bounds_hold_with_a_draft(device: str) -> None:
    world = far_siblings(1.0)
    nothing = np.zeros(world.vocabulary.width)
    for seed in range(5):
        draft = LogitModel(lambda _: nothing, world.vocabulary, device)
        model = NoisyModel(world, seed, device)
        found = drawn("exact", model, world, draft=draft, gamma=2)[0].diagnostics
        assert found["log_mass_lower"] <= world.log_mass <= found["log_mass_upper"]


@pytest.mark.parametrize("device", DEVICES)
def test_bounds_of_scores_hold(device: str) -> None:
    world = far_siblings(1.0)
    requests = [ScoreRequest([0], world.constraint, token_ids=row) for row in world.members]
    for found in Scorer(NoisyModel(world, 3, device)).run(requests):
        assert isinstance(found, Score)
        lower, upper = found.log_mass_lower, found.log_mass_upper
        assert lower is not None and upper is not None
        assert lower <= world.log_mass <= upper


@pytest.mark.parametrize("remember", [False, True])
def test_bounds_of_masses_hold(remember: bool) -> None:
    world = far_siblings(1.0)
    estimator = MassEstimator(candidates=64, remember=remember, until_converged=NOISE)
    for seed in range(5):
        request = Request([0], world.constraint, [seed])
        (found,) = estimator.run(NoisyModel(world, seed), [request])
        assert found.log_mass_lower <= world.log_mass <= found.log_mass_upper
        # What rounding widens the bounds by keeps no run from ending.
        assert found.converged == remember


@pytest.mark.parametrize("temperature", [0.25, 1.0, 2.0])
def test_a_lower_temperature_rounds_by_more(temperature: float) -> None:
    world = far_siblings(1.0)
    model = NoisyModel(world, 1).with_warping(temperature)
    found = drawn("topn", model, world)[0].diagnostics
    width = found["log_mass_upper"] - found["log_mass_lower"]
    # Two ways, three events, the longest member's end among them.
    assert width == pytest.approx(2 * 3 * 2 * NOISE / min(temperature, 1), rel=0.1)


def test_bounds_of_a_table_hold_to_the_last_digit() -> None:
    for gap in (1.0, 0.3, 2.0):
        world = far_siblings(gap)
        for method in ("exact", "asap", "topn"):
            found = drawn(method, world.model(), world)[0].diagnostics
            assert found["log_mass_lower"] <= world.log_mass <= found["log_mass_upper"]
            assert found["log_mass_upper"] - found["log_mass_lower"] < 1e-12
