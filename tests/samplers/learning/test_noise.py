"""Bounds under noise: a model whose passes differ in the last digits of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.samplers import SAMPLERS
from cdec.samplers.scoring.score import Score, Scorer, ScoreRequest
from tests.laws.tiny_worlds import LogitModel, TinyWorld, far_siblings

NOISE = 1e-6


class NoisyModel(LogitModel):
    """Logits that are off by up to ``NOISE``, differently in every pass."""

    rounding = NOISE

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
    return sampler.draw(model, world.constraint, [0], n=60, rng=rng)[0].diagnostics


@pytest.mark.parametrize("method", ["exact", "asap", "topn"])
def test_bounds_hold_on_a_device_for_every_pass_and_still_meet(method: str) -> None:
    world = far_siblings(1.0)
    for seed in range(5):
        found = drawn(method, NoisyModel(world, seed, "torch:cpu"), world)
        assert found["log_mass_lower"] <= world.log_mass <= found["log_mass_upper"]
        assert found["log_mass_upper"] - found["log_mass_lower"] < 40 * NOISE
        if "probability" in found:
            assert found["probability"] is not None


def test_bounds_hold_with_a_draft() -> None:
    world = far_siblings(1.0)
    nothing = np.zeros(world.vocabulary.width)
    for seed in range(5):
        draft = LogitModel(lambda _: nothing, world.vocabulary)
        found = drawn("exact", NoisyModel(world, seed), world, draft=draft, gamma=2)
        assert found["log_mass_lower"] <= world.log_mass <= found["log_mass_upper"]


def test_bounds_of_scores_hold_on_a_device() -> None:
    world = far_siblings(1.0)
    requests = [ScoreRequest([0], world.constraint, token_ids=row) for row in world.members]
    for found in Scorer(NoisyModel(world, 3, "torch:cpu")).run(requests):
        assert isinstance(found, Score)
        lower, upper = found.log_mass_lower, found.log_mass_upper
        assert lower is not None and upper is not None
        assert lower <= world.log_mass <= upper


def test_on_the_host_without_a_draft_nothing_is_widened() -> None:
    world = far_siblings(1.0)
    found = drawn("exact", NoisyModel(world, 1), world)
    assert found["log_mass_upper"] - found["log_mass_lower"] < NOISE / 10
