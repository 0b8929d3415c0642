"""Laws of every method in tiny worlds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import Sample
from cdec.core.errors import CdecError
from cdec.integrations.findings import enumeration
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.scoring.classify import Classifier, ClassifyRequest
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.gtest import g_test
from tests.laws.worlds import (
    WORLDS,
    LogitModel,
    Row,
    TinyWorld,
    Toy,
    far_ends,
    in_logits,
    long_members,
    random_tiny_world,
    thinned,
    toy_a,
    toy_b,
)

# --- The laws of the methods that remember, in worlds of tiny mass: exact, and asap once
# converged.

DRAWS = 300
NEARLY = 0.02
"""Nats, where nearly all of the mass was seen."""
EXACT: dict[str, dict[str, Any]] = {"mask": {}, "abort": {"abort": True}}


def drawn(
    method: str, world: TinyWorld, n: int = DRAWS, device: str = "cpu", **how: Any
) -> list[Sample]:
    sampler = SAMPLERS[method](**how)
    rng = np.random.default_rng(11)
    samples: list[Sample] = sampler.draw(world.model(device), world.constraint, [0], n=n, rng=rng)
    return samples


def rows_of(samples: list[Sample]) -> list[Row]:
    return [tuple(sample.token_ids) for sample in samples]


def everywhere() -> list[tuple[str, TinyWorld]]:
    return [*WORLDS.items(), *((f"random {s}", random_tiny_world(s)) for s in range(100, 112))]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("how", EXACT)
def test_exact_draws_the_target(how: str, device: str) -> None:
    for name, world in everywhere():
        if device != "cpu" and (name.startswith("long") or name not in WORLDS):
            continue
        samples = drawn("exact", world, device=device, **EXACT[how])
        assert {sample.finish_reason for sample in samples} == {"complete"}, name
        assert g_test(rows_of(samples), world.target) >= 1e-5, name


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
def test_asap_tends_to_the_target_with_right_weights(device: str) -> None:
    for name, world in everywhere():
        if device != "cpu" and (name.startswith("long") or name not in WORLDS):
            continue
        samples = drawn("asap", world, burn_in=200, device=device)
        assert g_test(rows_of(samples), world.target) >= 1e-5, name
        for sample in samples:
            # The law is Q by now, so the weight P / Q~ is P(S), whatever the text.
            assert sample.log_weight == pytest.approx(world.log_mass, abs=NEARLY), name


# --- Certified bounds and exact weights in worlds of tiny mass: every method against enumeration.

SOME = 1e-9
"""Nats, of sums of up to 150 terms of 33 nats each."""
METHODS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {"K": 4},
    "asap": {"burn_in": 0},
    "exact": {"max_draws": 200},
    "smc": {},
    "mcmc": {"steps": 3},
    "topn": {},
    "beam": {"beams": 12},
    "greedy": {},
    "speculative": {"gamma": 2},
    "mentored": {"gamma": 2, "divergence": 0.2},
}
"""Options by method."""
LONG = ("masked", "asap", "topn", "mentored")
"""Methods that draw members of 150 tokens here."""
SEEDS = range(12)
FEW = {"cpu": 5, "torch:cpu": 3}
"""Draws of a world by device."""


def seen(
    world: TinyWorld, method: str, n: int = 12, device: str = "cpu", **how: Any
) -> list[Sample]:
    options = METHODS[method] | how
    if method in ("speculative", "mentored"):
        # It knows nothing.
        nothing = np.zeros(world.vocabulary.width)
        options["draft"] = LogitModel(lambda _: nothing, world.vocabulary, device)
    sampler = SAMPLERS[method](**options)
    rng = np.random.default_rng(5)
    samples: list[Sample] = sampler.draw(world.model(device), world.constraint, [0], n=n, rng=rng)
    return samples


def holds(world: TinyWorld, fields: Any) -> None:
    """Check that a bracket has the truth inside."""
    lower, upper = fields["log_mass_lower"], fields["log_mass_upper"]
    assert upper is not None and upper >= world.log_mass - SOME
    assert lower is None or lower <= world.log_mass + SOME


def worlds() -> list[tuple[str, TinyWorld]]:
    return [*WORLDS.items(), *((f"random {seed}", random_tiny_world(seed)) for seed in SEEDS)]


@pytest.mark.share("method")
@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("method", METHODS)
def test_probabilities_and_bounds_are_right(method: str, device: str) -> None:
    for name, world in worlds():
        if name.startswith("long") and (device != "cpu" or method not in LONG):
            continue
        rows = set(world.members)
        for sample in seen(world, method, FEW[device], device=device):
            row: Row = tuple(sample.token_ids)
            fields = sample.diagnostics
            if "log_mass_upper" in fields:
                holds(world, fields)
            if sample.finish_reason != "complete":
                continue
            assert row in rows, name
            assert sample.logprob == pytest.approx(world.log_p(row), abs=SOME), name
            if method in ("masked", "speculative"):
                assert sample.log_weight == pytest.approx(world.log_x(row), abs=SOME), name
            if method == "disc":
                assert sample.log_candidate_weight == pytest.approx(world.log_x(row), abs=SOME)
            if "log_mass_upper" in fields:
                q = world.target[row]
                assert fields["probability_lower"] <= q * (1 + 1e-9), name
                assert fields["probability_upper"] >= q * (1 - 1e-9), name


@pytest.mark.share(1)
@pytest.mark.parametrize("method", ["topn", "beam"])
def test_a_search_finds_every_member_in_order(method: str) -> None:
    for name, world in worlds():
        best = sorted(world.members, key=world.log_p, reverse=True)
        samples = seen(world, method, n=len(best))
        found = [sample.logprob for sample in samples]
        assert found == pytest.approx([world.log_p(row) for row in best], abs=SOME), name
        if method == "topn":
            fields = samples[0].diagnostics
            assert fields["log_mass_lower"] == pytest.approx(world.log_mass, abs=SOME), name
            assert fields["log_mass_upper"] == pytest.approx(world.log_mass, abs=SOME), name


def test_greedy_takes_the_most_probable_event() -> None:
    world = WORLDS["siblings 2000.0"]
    (sample,) = seen(world, "greedy", n=1)
    assert sample.token_ids == [0, 1]
    assert sample.logprob == pytest.approx(world.log_p((0, 1)), abs=SOME)


@pytest.mark.share(1)
@pytest.mark.parametrize("remember", [True, False])
def test_a_mass_is_bounded_and_estimated(remember: bool) -> None:
    for name, world in worlds():
        request = Request([0], world.constraint, [3])
        candidates = 100 if remember else 20
        estimator = MassEstimator(candidates=candidates, remember=remember)
        (found,) = estimator.run(world.model(), [request])
        assert isinstance(found, Mass)
        holds(world, found.to_json())
        if remember:
            # All that matters was seen, so hardly anything is left to be estimated.
            assert found.log_mass_lower == pytest.approx(world.log_mass, abs=NEARLY), name
            assert found.log_mass_upper == pytest.approx(world.log_mass, abs=NEARLY), name
            assert found.log_mass == pytest.approx(world.log_mass, abs=NEARLY), name
            assert found.log_mass_se is not None and found.log_mass_se < NEARLY


def test_scores_of_all_members_close_the_bracket() -> None:
    for name, world in worlds():
        requests = [ScoreRequest([0], world.constraint, token_ids=row) for row in world.members]
        for row, found in zip(world.members, Scorer(world.model()).run(requests), strict=True):
            assert isinstance(found, Score), name
            assert found.logprob == pytest.approx(world.log_p(row), abs=SOME), name
            assert found.log_z_sum == pytest.approx(world.log_x(row), abs=SOME), name
            assert found.log_mass_lower == pytest.approx(world.log_mass, abs=SOME), name
            holds(world, {"log_mass_lower": None, "log_mass_upper": found.log_mass_upper})


def test_classes_have_their_probabilities() -> None:
    for name, world in worlds():
        (found,) = Classifier().run(world.model(), [ClassifyRequest([0], world.constraint)])
        assert not isinstance(found, CdecError), name
        assert found.log_mass == pytest.approx(world.log_mass, abs=SOME), name
        texts = {world.vocabulary.decode(row).decode(): row for row in world.members}
        for label in found.labels:
            row = texts[label.text]
            assert label.logprob == pytest.approx(world.log_p(row), abs=SOME), name
            assert label.probability == pytest.approx(world.target[row], abs=SOME), name


@pytest.mark.slow
def test_a_saved_tree_goes_on_where_it_was(tmp_path: Path) -> None:
    for number, (name, world) in enumerate(worlds()[1::4]):
        file = TreeFile(tmp_path / f"{number}.tree")
        sampler = SAMPLERS["asap"](burn_in=0, tree=file, round=8)
        brackets = []
        for seed in range(12):
            sample = sampler.draw(
                world.model(), world.constraint, [0], n=8, rng=np.random.default_rng(seed)
            )[-1]
            holds(world, sample.diagnostics)
            brackets.append(sample.diagnostics["log_mass_upper"])
        assert brackets == pytest.approx(sorted(brackets, reverse=True), abs=SOME), name
        assert brackets[-1] == pytest.approx(world.log_mass, abs=NEARLY), name


# --- The enumeration of tiny worlds: against that of toys in floats, and where floats end.


@pytest.mark.parametrize("toy", [toy_a(), toy_b()], ids="AB")
def test_decimals_agree_with_floats_where_floats_do(toy: Toy) -> None:
    world = in_logits(toy)
    exact = enumeration.masked(toy)
    assert world.log_mass == pytest.approx(math.log(enumeration.mass(toy)), rel=1e-9)
    assert world.target == pytest.approx(enumeration.target(toy), rel=1e-6)
    for row, x in exact.x.items():
        assert world.log_p(row) == pytest.approx(enumeration.log_prob(toy, row), rel=1e-9)
        assert world.log_x(row) == pytest.approx(math.log(x), rel=1e-9)
        assert world.log_masked(row) == pytest.approx(math.log(exact.law[row]), abs=1e-6)


def test_masses_are_known_where_no_float_is() -> None:
    masses = [world.log_mass for world in WORLDS.values()]
    assert min(masses) == pytest.approx(-5000, abs=1) and max(masses) > -5
    for name, world in WORLDS.items():
        assert sum(world.target.values()) == pytest.approx(1), name
    assert sorted(long_members(-3000.0).target.values()) == pytest.approx([1 / 3, 2 / 3])


def test_a_thinned_toy_keeps_its_law_and_loses_its_mass() -> None:
    toy = toy_b()
    for nats in (5.0, 900.0):
        world = thinned(toy, nats)
        law = {row[1:]: q for row, q in world.target.items()}
        assert law == pytest.approx(enumeration.target(toy))
        assert world.log_mass == pytest.approx(math.log(enumeration.mass(toy)) - nats, abs=0.01)


# --- What the length limit cuts off: an upper bound, however rarely a valid end follows.

LENGTH_METHODS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {},
    "asap": {"burn_in": 20},
    "exact": {},
    "smc": {},
    "mcmc": {"steps": 2},
    "topn": {},
}


def share_beyond(world: TinyWorld, limit: int) -> float:
    return math.exp(world.log_truncated(limit) - world.log_mass)


@pytest.mark.share(7)
@pytest.mark.parametrize("method", LENGTH_METHODS)
@pytest.mark.parametrize("gap", [0.5, 5.0, 2000.0])
def test_the_share_beyond_the_limit_is_bounded_from_above(method: str, gap: float) -> None:
    world = far_ends(gap)
    for limit in (1, 2, 3):
        sampler = SAMPLERS[method](**LENGTH_METHODS[method])
        samples = sampler.draw(
            world.model(),
            world.constraint,
            [0],
            n=60,
            max_new_tokens=limit,
            rng=np.random.default_rng(2),
        )
        said = samples[-1].diagnostics["length_mass_upper"]
        assert said is not None and said >= share_beyond(world, limit) * (1 - 1e-9)
        if limit == 3:
            assert said == 0


def test_the_bound_counts_prefixes_whose_valid_end_is_rare() -> None:
    # After "a" the model goes on with .9, and ends validly after that with e^-5.
    world = far_ends(5.0)
    sampler = SAMPLERS["asap"](burn_in=40)
    (sample,) = sampler.draw(
        world.model(), world.constraint, [0], n=1, max_new_tokens=1, rng=np.random.default_rng(2)
    )
    prefix = world.log_step((), 0) + world.log_step((0,), 1)
    inside = np.logaddexp(world.log_p((0,)), world.log_p((1,)))
    share = math.exp(prefix - np.logaddexp(prefix, inside))
    assert sample.diagnostics["length_mass_upper"] == pytest.approx(share, rel=0.02)
    assert share > 1.5 * share_beyond(world, 1)
