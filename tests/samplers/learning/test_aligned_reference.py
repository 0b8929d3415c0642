"""Trees that learn, against a plain reference that replays candidates; and its own figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.prefix_tree import PrefixTree
from tests.laws.toys import Toy, random_toy, toy_a, toy_b
from tests.samplers.enumeration import masked, target
from tests.samplers.learning.aligned_reference import (
    Memory,
    Rules,
    count_calls,
    divergence,
    divergence_after_one,
    simulate,
)
from tests.samplers.learning.aligned_replay import replay

MAKE = {"A": toy_a, "B": toy_b}


@pytest.mark.parametrize(
    ("name", "first", "after_one"), [("A", 13.0901, 10.635), ("B", 0.371, 0.83267)]
)
def test_reference_has_the_designs_exact_divergences(
    name: str, first: float, after_one: float
) -> None:
    toy = MAKE[name]()
    law = Memory(Rules(toy)).law()
    assert law == pytest.approx(masked(toy).law)
    assert divergence(law, target(toy)) == pytest.approx(first, abs=5e-4)
    assert divergence_after_one(toy) == pytest.approx(after_one, abs=5e-4)


def test_reference_has_the_designs_curve_and_calls() -> None:
    runs = 150
    curve = np.array(simulate(toy_a(), (10, 30, 75), runs, seed=1))
    error = curve.std(axis=0, ddof=1) / math.sqrt(runs)
    # Four standard errors of both sides, the design's being those of 2,000 runs.
    slack = 4 * np.hypot(error, [0.025, 0.028, 0.004])
    assert (np.abs(curve.mean(axis=0) - [5.247, 1.344, 0.026]) <= slack).all()
    for name, aborting, mean in (("A", False, 6.54), ("B", False, 3.38), ("B", True, 3.43)):
        toy = MAKE[name]()
        calls = [count_calls(toy, 100, 1, seed, aborting=aborting) for seed in range(40)]
        # The design's tolerance of .05, and four standard errors of 40 records.
        assert abs(np.mean(calls) - mean) <= 0.05 + 4 * np.std(calls) / math.sqrt(40)


@pytest.mark.parametrize("aborting", [False, True])
@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("name", MAKE)
def test_every_number_of_the_toys_trees_is_the_references(
    name: str, size: int, aborting: bool
) -> None:
    replay(Rules(MAKE[name]()), rounds=80 // size, size=size, aborting=aborting)


@pytest.mark.parametrize("limit", [None, 1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_every_number_of_random_trees_is_the_references(seed: int, limit: int | None) -> None:
    # Dead ends, several end ids, padding, texts that end themselves, cut texts.
    toy = random_toy(seed, ends_itself=seed % 2 == 1)
    size, aborting = 1 + seed % 5, seed % 3 == 0
    replay(Rules(toy, limit), rounds=8, size=size, aborting=aborting, tree_cache=1)


def test_random_trees_meet_dead_ends_and_limits() -> None:
    laws = [
        Memory(Rules(random_toy(seed, ends_itself=seed % 2 == 1), limit)).law()
        for seed in range(12)
        for limit in (None, 1)
    ]
    assert any(law.get(None, 0.0) > 0 for law in laws[::2])
    assert any(law.get(None, 0.0) > 0 for law in laws[1::2])


def forget_bounds(patch: pytest.MonkeyPatch) -> None:
    """Never carry a bound upwards."""
    patch.setattr(PrefixTree, "update", lambda _: None)


def forget_ends(patch: pytest.MonkeyPatch) -> None:
    """Leave the end events out of the bounds."""
    visit = PrefixTree.visit

    def without_ends(tree: PrefixTree, nodes: Any, seen: Any) -> None:
        if seen.log_end is not None:
            rest = np.exp(seen.log_mass) - np.exp(seen.log_end)
            with np.errstate(divide="ignore"):
                object.__setattr__(seen, "log_mass", np.log(np.maximum(rest, 0.0)))
        visit(tree, nodes, seen)

    patch.setattr(PrefixTree, "visit", without_ends)


def forget_root(patch: pytest.MonkeyPatch) -> None:
    """Leave c(root) out of the weights."""
    draw = Rounds.draw

    def without_root(rounds: Rounds, *given: Any) -> Any:
        for drawn in draw(rounds, *given):
            drawn.candidates.log_x[:] -= drawn.log_root
            yield drawn

    patch.setattr(Rounds, "draw", without_root)


@pytest.mark.parametrize("break_it", [forget_bounds, forget_ends, forget_root])
def test_replay_notices_what_is_forgotten(break_it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Toy = toy_b()
    replay(Rules(toy), rounds=5, size=4)
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        replay(Rules(toy), rounds=5, size=4)
