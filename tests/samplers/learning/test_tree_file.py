"""Prefix trees and their files."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import Constraint
from cdec.core.errors import CdecError, OutputError, TreeMismatchError, UsageError
from cdec.core.models.language_model import LanguageModel
from cdec.core.models.tabular import TabularModel
from cdec.core.models.transformers.architectures import CausalModel, EncoderDecoderModel
from cdec.core.models.transformers.base import FullForwardModel
from cdec.integrations.findings.enumeration import mass, target
from cdec.samplers.asap import AsapSampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.exact import ExactSampler
from cdec.samplers.learning.saved import KINDS, TreeFile
from cdec.samplers.prefix_tree import PrefixTree, Visit
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from cdec.samplers.walks.batch import Batch
from tests.core.models.tiny_models import VOCABULARY, plain_encoder, tiny_module
from tests.laws.gtest import g_test
from tests.laws.worlds import Toy, random_toy, toy_a, toy_b, toy_set
from tests.samplers.learning.tree_files import grown, reloaded

# --- Trees on disk: what comes back, what is refused, and what later draws make of them.


def draw(
    sampler: Any,
    toy: Toy,
    n: int,
    *,
    seed: int = 1,
    model: LanguageModel | None = None,
    constraint: Constraint | None = None,
    limit: int | None = None,
) -> list[Any]:
    rng = np.random.default_rng(seed)
    given = toy.constraint if constraint is None else constraint
    options: Any = {"rng": rng, "n": n, "max_new_tokens": limit}
    samples: list[Any] = sampler.draw(model or toy.model(), given, [1], **options)
    return samples


def bracket(sample: Any) -> tuple[float | None, float | None]:
    found = sample.diagnostics
    return found["log_mass_lower"], found["log_mass_upper"]


@pytest.mark.share(2)
@pytest.mark.parametrize("ends_itself", [False, True])
@pytest.mark.parametrize("candidates", [1, 3, 30])
def test_a_tree_comes_back_with_the_same_bounds_to_the_last_bit(
    tmp_path: Path, candidates: int, ends_itself: bool
) -> None:
    toys = [random_toy(seed, ends_itself=ends_itself) for seed in range(12)]
    for number, toy in enumerate([toy_a(), toy_b(), *toys]):
        path = tmp_path / f"{number}.arrow"
        before = grown(toy, path, candidates)
        assert reloaded(toy, path) == (before, candidates)


def test_two_short_runs_know_what_one_run_of_both_rounds_knows(tmp_path: Path) -> None:
    toy = toy_a()
    whole = grown(toy, tmp_path / "whole.arrow", 8)
    grown(toy, tmp_path / "parts.arrow", 4)
    # Rounds of 4: the second run's candidates are numbers 4..7, as the long run's second round.
    assert grown(toy, tmp_path / "parts.arrow", 4) == pytest.approx(whole, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("abort", [False, True])
def test_exact_draws_that_go_on_with_a_tree_follow_q(tmp_path: Path, abort: bool) -> None:
    toy = toy_b()
    counts: Counter[Any] = Counter()
    for seed in range(50):
        path = tmp_path / f"{seed}.arrow"
        grown(toy, path, 2, size=1)
        sampler = ExactSampler(round=4, abort=abort, tree=TreeFile(path))
        for sample in draw(sampler, toy, 120, seed=seed):
            counts[tuple(sample.token_ids)] += 1
            assert sample.diagnostics["accepted"]
    assert counts.total() == 6000
    assert g_test(counts.elements(), target(toy)) > 1e-4


def test_later_runs_draw_other_candidates_and_count_them_all(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    sampler = ExactSampler(tree=TreeFile(path))
    first, second = (draw(sampler, toy, 40) for _ in range(2))
    assert first[0].seed == second[0].seed
    assert [s.token_ids for s in first] != [s.token_ids for s in second]
    iterations = [s.diagnostics["iteration"] for s in (*first, *second)]
    assert iterations == sorted(set(iterations))
    assert second[-1].diagnostics["iteration"] <= TreeFile(path).load(_batch(toy))
    # Known texts are refused less and less, and nothing is evaluated that need not be.
    assert bracket(second[0]) == bracket(second[-1])
    assert sum(s.diagnostics["draws"] for s in second) <= sum(s.diagnostics["draws"] for s in first)


def _batch(toy: Toy) -> Batch:
    batch = Batch(toy.model(), [Request([1], toy.constraint, [1])])
    batch.tree.add_column("state", np.int64, 0)
    return batch


def test_what_a_run_computes_is_charged_to_it_once(tmp_path: Path) -> None:
    toy = toy_b()
    calls: list[tuple[int, ...]] = []

    def counted(prefix: tuple[int, ...]) -> Any:
        calls.append(prefix)
        return toy.probabilities(prefix)

    path = tmp_path / "tree.arrow"
    for _ in range(3):
        calls.clear()
        model = TabularModel(counted, toy.vocabulary)
        samples = draw(ExactSampler(tree=TreeFile(path)), toy, 5, model=model)
        assert sum(s.diagnostics["distinct_evaluations"] for s in samples) == len(set(calls))
        assert len(set(calls)) == len(calls)


def test_a_tree_counts_as_burn_in_of_asap(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    first = draw(AsapSampler(burn_in=30, tree=TreeFile(path)), toy, 3)
    assert [s.diagnostics["iteration"] for s in first] == [31, 32, 33]
    second = draw(AsapSampler(burn_in=30, tree=TreeFile(path)), toy, 3)
    assert [s.diagnostics["iteration"] for s in second] == [34, 35, 36]
    third = draw(AsapSampler(burn_in=40, tree=TreeFile(path)), toy, 2)
    assert [s.diagnostics["iteration"] for s in third] == [41, 42]
    # A tree that has converged teaches nothing more.
    sampler = AsapSampler(burn_in=0, until_converged=1e-3, tree=TreeFile(path))
    assert [s.diagnostics["iteration"] for s in draw(sampler, toy, 2)] == [43, 44]


def test_nothing_is_written_before_the_run_or_without_candidates(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    request = Request("", toy.constraint, [])
    assert ExactSampler(tree=TreeFile(path)).draw_batch(toy.model(), [request]) == [[]]
    assert not path.exists()


def another_model(toy: Toy) -> TabularModel:
    """Return a model that differs after one prefix alone."""

    def probabilities(prefix: tuple[int, ...]) -> Any:
        given = toy.probabilities(prefix)
        return given[[1, 0, 2, 3]] if prefix == (2,) else given

    return TabularModel(probabilities, toy.vocabulary)


def mismatches(toy: Toy, path: Path) -> dict[str, Any]:
    """Return for each part of the key a run that differs in it alone."""
    exact = ExactSampler(tree=TreeFile(path))
    other_ends = dataclasses.replace(toy, vocabulary=toy.vocabulary.with_eos([2, 3]))
    wider = dataclasses.replace(toy, vocabulary=toy.vocabulary.with_width(7))

    def padded(prefix: tuple[int, ...]) -> Any:
        return np.concatenate([toy.probabilities(prefix), np.zeros(3)])

    smaller = toy_set(toy.members[:-1], toy.vocabulary)
    named = ExactSampler(tree=TreeFile(path, names={"artifact": "x", "--deny": "y"}))
    return {
        "model": lambda: draw(exact, toy, 1, model=another_model(toy)),
        "warping": lambda: draw(exact, toy, 1, model=toy.model().with_warping(0.5)),
        "prompt": lambda: exact.draw(
            toy.model(), toy.constraint, [2], n=1, rng=np.random.default_rng(1)
        ),
        "constraint": lambda: draw(exact, toy, 1, constraint=smaller),
        "--deny": lambda: draw(named, toy, 1),
        "length limit": lambda: draw(exact, toy, 1, limit=2),
        "end ids": lambda: draw(exact, other_ends, 1),
        "vocabulary": lambda: draw(exact, wider, 1, model=TabularModel(padded, wider.vocabulary)),
    }


@pytest.mark.parametrize(
    "part",
    ["model", "warping", "prompt", "constraint", "--deny", "length limit", "end ids", "vocabulary"],
)
def test_a_tree_of_something_else_is_refused_by_name(tmp_path: Path, part: str) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    draw(ExactSampler(tree=TreeFile(path)), toy, 20)
    kept = path.read_bytes()
    with pytest.raises(TreeMismatchError, match="another") as caught:
        mismatches(toy, path)[part]()
    assert part in caught.value.details["differing"]  # type: ignore[operator]
    assert part in caught.value.message
    assert path.read_bytes() == kept
    assert len(draw(ExactSampler(tree=TreeFile(path)), toy, 3)) == 3


def test_seed_method_and_round_are_no_part_of_a_tree(tmp_path: Path) -> None:
    toy = toy_b()
    tree = TreeFile(tmp_path / "tree.arrow")
    draw(ExactSampler(tree=tree, round=3), toy, 4, seed=1)
    draw(AsapSampler(tree=tree, burn_in=1, round=7), toy, 4, seed=2)
    (found,) = MassEstimator(tree=tree, candidates=5).run(
        toy.model(), [Request([1], toy.constraint, [3])]
    )
    assert isinstance(found, Mass)
    assert found.candidates == 5
    assert found.log_mass == pytest.approx(math.log(mass(toy)))


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 5)
    with pytest.raises(CdecError, match="more than 100") as caught:
        draw(ExactSampler(tree=TreeFile(path, max_bytes=100)), toy, 1)
    assert caught.value.code == "E_LIMIT"


def test_a_tree_belongs_to_one_constrained_record(tmp_path: Path) -> None:
    toy = toy_b()
    tree = TreeFile(tmp_path / "tree.arrow")
    requests = [Request("", toy.constraint, [seed]) for seed in (1, 2)]
    for sampler in (ExactSampler(tree=tree), AsapSampler(tree=tree)):
        with pytest.raises(UsageError, match="one record"):
            sampler.draw_batch(toy.model(), requests)
    with pytest.raises(UsageError, match="one record"):
        MassEstimator(tree=tree).run(toy.model(), requests)
    with pytest.raises(UsageError, match="has none"):
        ExactSampler(tree=tree).draw(toy.model(), None, "", n=1, rng=np.random.default_rng(0))
    assert not tree.path.exists()
    with pytest.raises(TypeError):
        DiscSampler(tree=tree)  # type: ignore[call-arg]


def test_a_tree_that_could_not_be_kept_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    toy = toy_b()

    def untouched(prefix: tuple[int, ...]) -> Any:
        raise AssertionError("the model was asked")

    for path in (tmp_path / "missing" / "tree.arrow", tmp_path):
        sampler = ExactSampler(tree=TreeFile(path))
        with pytest.raises(OutputError) as caught:
            draw(sampler, toy, 1, model=TabularModel(untouched, toy.vocabulary))
        assert "`tree`" in (caught.value.hint or "")


# --- The prefix tree's bounds and ownership, on hand-made prefixes.


def empty_tree(requests: int = 1) -> PrefixTree:
    """Return a tree over contexts whose parents are set by ``visit``."""
    columns = {name: np.full(200_000, -1, np.int32) for name in ("parent", "token", "depth")}
    contexts: Any = SimpleNamespace(columns=columns)
    return PrefixTree(requests, contexts)


def visit(
    tree: PrefixTree,
    context: int,
    parent: int,
    edge: float,
    mass: float,
    *,
    request: int = 0,
    draw: int = 0,
    end: float = 0.0,
    exact: bool = False,
) -> None:
    """Visit one prefix; probabilities are plain numbers."""
    tree["parent"][context] = parent
    tree["depth"][context] = 0 if parent < 0 else tree["depth"][parent] + 1
    prefix = 0.0 if parent < 0 else math.log(edge)
    columns = {"context": context, "parent": parent}
    columns |= {"request": request, "draw": draw, "log_edge": math.log(edge)}
    columns |= {"log_prefix": prefix, "in_run": False}
    nodes: Any = SimpleNamespace(**{name: np.array([value]) for name, value in columns.items()})
    with np.errstate(divide="ignore"):
        tree.visit(nodes, Visit(np.log([mass]), np.log([end]), exact=exact))


def test_paths_may_end_behind_the_last_context_that_the_tree_knows() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 0.25)
    known = len(tree["flags"])
    # What stands behind the columns in memory reads as visited, too, with a mass far smaller.
    for name, column in tree.columns.items():
        beyond = np.concatenate([column, np.full(100, column[5], column.dtype)])
        tree.columns[name] = beyond[:known]
        if name == "mass":
            beyond[known:] = -50.0
    tree._nodes = None
    ends = np.array([known + 9, 5, -1])
    tree["parent"][ends[0]] = 5
    log_z, steps = tree.least_steps(ends, np.array([True, True, True]))
    assert log_z.tolist() == pytest.approx([math.log(0.25), math.log(0.25), 0.0])
    assert steps.tolist() == [0, 0, -1]


def upper(tree: PrefixTree, root: int = 5) -> float:
    """Return c(root)."""
    return math.exp(tree.log_upper(root))


def test_unvisited_prefixes_count_fully_and_visited_ones_by_their_bound() -> None:
    tree = empty_tree()
    assert upper(tree) == 1.0
    visit(tree, 5, -1, 1.0, 0.8)
    assert upper(tree) == pytest.approx(0.8)
    visit(tree, 7, 5, 0.5, 0.1)
    assert upper(tree) == pytest.approx(0.3 + 0.5 * 0.1)
    visit(tree, 9, 5, 0.3, 0.0)
    assert upper(tree) == pytest.approx(0.05)
    visit(tree, 11, 7, 0.1, 1e-9)
    assert upper(tree) == pytest.approx(0.05e-9, rel=1e-6)


def test_an_exact_rest_is_added_to_the_children_without_any_loss() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 1e-300, exact=True)
    visit(tree, 7, 5, 0.999999999, 1e-290, exact=True)
    assert tree.log_upper(5) == pytest.approx(math.log(1e-290), abs=1e-9)
    visit(tree, 8, 7, 0.5, 0.0, exact=True)
    assert tree.log_upper(5) == pytest.approx(math.log(1e-290), abs=1e-9)


def test_a_prefix_belongs_to_its_lowest_draw() -> None:
    tree = empty_tree()
    for draw in (4, 2, 3):
        visit(tree, 5, -1, 1.0, 0.8, draw=draw)
    assert tree["draw"][5] == 2
    assert tree.visited().tolist() == [5]


def test_each_text_is_found_once() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 0.8)
    for draw in range(3):
        visit(tree, 7, 5, 0.5, 0.4, end=0.2, draw=draw)
    found = tree.bounds(0, 5).fields()
    assert found["log_mass_lower"] == pytest.approx(math.log(0.1))
    assert found["log_mass_upper"] == pytest.approx(math.log(0.5))


def test_records_are_bounded_apart() -> None:
    tree = empty_tree(4)
    visit(tree, 5, -1, 1.0, 0.8)
    visit(tree, 7, 5, 0.5, 0.1)
    visit(tree, 6, -1, 1.0, 0.6, request=3)
    assert upper(tree) == pytest.approx(0.3 + 0.5 * 0.1)
    assert upper(tree, 6) == pytest.approx(0.6)


def test_columns_grow_with_the_contexts() -> None:
    tree = empty_tree()
    visit(tree, 5, -1, 1.0, 0.8)
    visit(tree, 100_000, 5, 0.5, 0.1)
    assert upper(tree) == pytest.approx(0.35)
    assert tree.nbytes < 50 * 120_000


# --- Tree files that are damaged or forged are errors, never crashes.


@pytest.mark.slow
def test_every_flipped_byte_is_an_error(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 30)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CdecError) as caught:
            verify_bytes(bytes(bad), KINDS)
        assert caught.value.code.startswith(("E_ARTIFACT", "E_LIMIT"))
    for size in (0, 5, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(CdecError) as caught:
            reloaded(toy, path)
        assert caught.value.code.startswith("E_ARTIFACT")
        assert "`tree`" in (caught.value.hint or "")


FORGERIES = {
    "parent": [(0, 0), (2, 5), (3, -1), (1, 1)],
    "token": [(1, 99), (1, -1), (1, 3), (2, None)],
    "edge": [(1, 0.5), (1, math.nan), (1, -math.inf), (2, math.inf)],
    "mass": [(0, 0.5), (2, math.nan), (1, math.inf)],
    "flags": [(1, 64), (0, 16), (1, 1)],
    "totals": [(0, math.nan), (0, -0.01), (1, math.inf)],
}


@pytest.mark.parametrize("column", FORGERIES)
def test_forged_columns_with_a_good_digest_are_errors(tmp_path: Path, column: str) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 30)
    file = verify_bytes(path.read_bytes(), KINDS)
    for place, value in FORGERIES[column]:
        arrays = {name: array.copy() for name, array in file.arrays.items()}
        arrays[column][place] = arrays[column][place - 1] if value is None else value
        write_artifact(path, "tree", arrays, file.metadata, force=True)
        with pytest.raises(CdecError) as caught:
            reloaded(toy, path)
        assert caught.value.code in ("E_ARTIFACT_INVALID", "E_TREE_MISMATCH")
    for name in ("token", "totals"):
        arrays = dict(file.arrays) | {name: file.arrays[name][:1]}
        write_artifact(path, "tree", arrays, file.metadata, force=True)
        with pytest.raises(CdecError, match="no tree of prefixes"):
            reloaded(toy, path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdec.tree_candidates", "-3"),
        ("cdec.tree_candidates", "9" * 30),
        ("cdec.tree_key", "[]"),
        ("cdec.tree_key", "[" * 100_000),
        ("cdec.tree_key", "{}"),
        ("cdec.tree_masks", "0"),
    ],
)
def test_forged_metadata_is_an_error(tmp_path: Path, key: str, value: str) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 5)
    file = verify_bytes(path.read_bytes(), KINDS)
    write_artifact(path, "tree", file.arrays, {**file.metadata, key: value}, force=True)
    with pytest.raises(CdecError) as caught:
        reloaded(toy, path)
    assert caught.value.code in ("E_ARTIFACT_INVALID", "E_TREE_MISMATCH")


# --- Trees of real models: told apart by weights and settings, the same however they are run.

ROWS = [(5, 6), (5, 6, 7), (5, 9), (11,), (12, 13, 14), (12, 13)]


def wrapped(module: Any, *, pooled: bool = True) -> LanguageModel:
    kind: Any = CausalModel if pooled else FullForwardModel
    if module.config.is_encoder_decoder:
        kind = EncoderDecoderModel
    model: LanguageModel = kind(module, VOCABULARY, plain_encoder(), context_length=64)
    return model


def draw_twice(model: LanguageModel, path: Path) -> list[Any]:
    sampler = ExactSampler(tree=TreeFile(path), max_draws=5)
    constraint = toy_set(ROWS, VOCABULARY)
    samples: list[Any] = sampler.draw(
        model, constraint, [5, 6, 7], n=8, rng=np.random.default_rng(3)
    )
    return samples


@pytest.mark.parametrize("name", ["llama", "gpt2", "bart", "t5"])
def test_a_tree_goes_on_with_the_same_weights_and_no_others(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tree.arrow"
    first = draw_twice(wrapped(tiny_module(name)), path)
    second = draw_twice(wrapped(tiny_module(name), pooled=False), path)
    assert second[0].diagnostics["iteration"] > first[-1].diagnostics["draws"]
    for bound, sign in (("log_mass_lower", 1), ("log_mass_upper", -1)):
        gap = sign * (second[0].diagnostics[bound] - first[-1].diagnostics[bound])
        assert gap >= -1e-9
    trained = tiny_module(name)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1.01)
    with pytest.raises(TreeMismatchError, match="another model"):
        draw_twice(wrapped(trained), path)


def test_fingerprints_know_weights_precision_and_settings() -> None:
    def of(change: Any = None) -> str:
        module = tiny_module("llama")
        if change is not None:
            with torch.no_grad():
                change(module)
        return wrapped(module).fingerprint()

    plain = of()
    assert of() == plain
    assert wrapped(tiny_module("llama"), pooled=False).fingerprint() == plain

    def renamed(module: Any) -> None:
        module.config._name_or_path = "/somewhere/else"

    assert of(renamed) == plain

    def normalised(module: Any) -> None:
        module.config.rms_norm_eps = 1e-3

    changes = [
        lambda module: module.to(torch.bfloat16),
        lambda module: module.lm_head.weight.add_(1e-3),
        lambda module: module.model.layers[1].mlp.up_proj.weight.mul_(-1),
        normalised,
    ]
    assert len({plain, *map(of, changes)}) == 1 + len(changes)
    assert of() != wrapped(tiny_module("gpt2")).fingerprint()
