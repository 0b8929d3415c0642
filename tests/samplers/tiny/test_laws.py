"""The laws of the methods that remember, in worlds of tiny mass: exact, and asap once converged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core import Sample
from cdec.samplers import SAMPLERS
from tests.laws.gtest import g_test
from tests.laws.tiny_worlds import WORLDS, TinyWorld, random_tiny_world
from tests.laws.toys import Row

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


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@pytest.mark.parametrize("how", EXACT)
def test_exact_draws_the_target(how: str, device: str) -> None:
    for name, world in everywhere():
        if device != "cpu" and (name.startswith("long") or name not in WORLDS):
            continue
        samples = drawn("exact", world, device=device, **EXACT[how])
        assert {sample.finish_reason for sample in samples} == {"complete"}, name
        assert g_test(rows_of(samples), world.target) >= 1e-5, name


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
