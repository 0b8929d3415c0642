"""Certified bounds and exact weights in worlds of tiny mass: every method against enumeration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import Sample
from cdec.core.errors import CdecError
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.scoring.classify import Classifier, ClassifyRequest
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.tiny_worlds import WORLDS, LogitModel, TinyWorld, random_tiny_world
from tests.laws.toys import Row

SOME = 1e-9
"""Nats, of sums of up to 150 terms of 33 nats each."""
NEARLY = 0.02
"""Nats, where nearly all of the mass was seen."""
METHODS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {"K": 4},
    "asap": {"burn_in": 0},
    "exact": {"max_draws": 200},
    "smc": {},
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
