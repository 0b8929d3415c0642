"""Bounds under rounding: what one batch, device or processor certifies holds for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import MassEstimator
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.tiny_worlds import LogitModel, TinyWorld, far_siblings

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
