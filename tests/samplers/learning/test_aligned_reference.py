"""Aligned methods beside the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core import CdecError
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import DEAD, Constraint, Facts, Session
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.adaptive import Memory, Rules, divergence, divergence_after_one
from cdec.integrations.findings.enumeration import Law, masked, target
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.prefix_tree import PrefixTree
from tests.laws.constraints import WrappedSession
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy, random_toy, toy_a, toy_b
from tests.samplers.learning.aligned_reference import count_calls, replay, simulate

# --- Trees that learn, against a plain reference that replays candidates; and its own figures.

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


@pytest.mark.share(8)
@pytest.mark.parametrize("aborting", [False, True])
@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("name", MAKE)
def test_every_number_of_the_toys_trees_is_the_references(
    name: str, size: int, aborting: bool
) -> None:
    replay(Rules(MAKE[name]()), rounds=80 // size, size=size, aborting=aborting)


@pytest.mark.share(16)
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


# --- Trees that learn on sets of unlike shape: hundreds of tokens at a node, and dead ends.


def wide_toy() -> Toy:
    """A set whose root and one child have hundreds of tokens: many blocks of a vector."""
    width = 900
    vocabulary = Vocabulary([b"%d," % t for t in range(width - 1)] + [b""], [width - 1])
    rng = np.random.default_rng(2)
    rows = {(int(t),) for t in rng.choice(width - 1, 700, replace=False)}
    first = min(rows)[0]
    rows |= {(first, int(t)) for t in rng.choice(width - 1, 400, replace=False)}
    rows |= {(int(a), int(b)) for a, b in rng.choice(width - 1, (60, 2))}

    def probabilities(prefix: Row) -> np.ndarray:
        own = np.random.default_rng([5, *prefix])
        weights = own.exponential(size=width) ** 4
        weights[first] += weights.sum() * (0.2 if not prefix else 0.0)
        weights[-1] += weights.sum()
        return np.asarray(weights / weights.sum())

    return Toy(vocabulary, probabilities, sorted(rows))


@pytest.mark.share(1)
@pytest.mark.parametrize("tree_cache", [1, 1 << 24])
@pytest.mark.parametrize("aborting", [False, True])
def test_every_number_of_a_wide_tree_is_the_references(aborting: bool, tree_cache: int) -> None:
    replay(Rules(wide_toy()), rounds=25, size=20, aborting=aborting, tree_cache=tree_cache)


class StuckSession(WrappedSession):
    """A set's session that allows nothing after some of the members."""

    def __init__(self, inner: Session, stuck: NDArray[np.int64]) -> None:
        super().__init__(inner)
        self._stuck = stuck

    def _is_stuck(self, states: Any) -> NDArray[np.bool_]:
        return np.isin(np.asarray(states), self._stuck)

    def advance(self, states: Any, token_ids: Any) -> Any:
        return np.where(self._is_stuck(states), DEAD, self.inner.advance(states, token_ids))

    def is_complete(self, states: Any) -> Any:
        return self.inner.is_complete(states) & ~self._is_stuck(states)

    def allowed(self, states: Any) -> Any:
        return self._without(states, *self.inner.allowed(states))

    def forced(self, states: Any) -> Any:
        return self._without(states, *self.inner.forced(states))

    def _without(self, states: Any, offsets: Any, ids: Any) -> Any:
        lengths = np.diff(offsets)
        stuck = self._is_stuck(states)
        kept = ids[np.repeat(~stuck, lengths)]
        return np.concatenate([[0], np.cumsum(np.where(stuck, 0, lengths))]), kept


class StuckConstraint(WrappedConstraint):
    """A set whose masks promise more than there is: some prefixes have no completion."""

    def __init__(self, inner: Constraint, stuck: Sequence[Row]) -> None:
        super().__init__(inner)
        self._rows = stuck

    @cached_property
    def facts(self) -> Facts:
        return self._facts_within(is_sound=False)

    def session(self, device: str = "cpu") -> StuckSession:
        inner = self.inner.session(device)
        states = []
        for row in self._rows:
            state = inner.start(1)
            for token in row:
                state = inner.advance(state, np.array([token]))
            states.append(int(state[0]))
        return StuckSession(inner, np.array(states))


def stuck_toy() -> tuple[Toy, Rules]:
    """Return toy B with dead ends, and its rules."""
    toy = toy_b()
    stuck = [(0, 0), (1, 1), (2, 1, 2), (1, 0, 0)]
    whole = Toy(toy.vocabulary, toy.probabilities, [*toy.members, *stuck])
    object.__setattr__(whole, "constraint", StuckConstraint(whole.constraint, stuck))
    # A dead end at the length limit would count as cut: the limit lies beyond.
    rules = Rules(whole, limit=5)
    rules.members -= set(stuck)
    return whole, rules


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("aborting", [False, True])
def test_dead_ends_are_learnt(aborting: bool, size: int) -> None:
    replay(stuck_toy()[1], rounds=12, size=size, aborting=aborting)


@pytest.mark.share(1)
@pytest.mark.parametrize("abort", [False, True])
def test_dead_ends_do_not_bias_exact_draws(abort: bool) -> None:
    toy, rules = stuck_toy()
    p = {row: rules.probability(row) * rules.events(row)[-1] for row in rules.members}
    law: Law = {row: value / sum(p.values()) for row, value in p.items()}
    requests = [Request("", toy.constraint, [5 * i + k for k in range(4)]) for i in range(800)]
    sampler = SAMPLERS["exact"](round=3, abort=abort, max_walks=1 << 14)
    found = [s for s in sampler.draw_batch(toy.model(), requests) if not isinstance(s, CdecError)]
    assert len(found) == len(requests)
    for place in range(4):
        assert g_test((tuple(s[place].token_ids) for s in found), law) >= 1e-4


def test_a_closed_tree_leads_into_no_dead_end() -> None:
    toy, rules = stuck_toy()
    rng = np.random.default_rng
    early, late = (
        SAMPLERS["asap"](burn_in=burn_in).draw(toy.model(), toy.constraint, "", n=200, rng=rng(1))
        for burn_in in (0, 200)
    )
    assert "complete" not in {s.finish_reason for s in early if s.log_weight is None}
    assert any(s.log_weight is None for s in early)
    assert {tuple(sample.token_ids) for sample in late} <= rules.members
