"""What the length limit cuts off: an upper bound, however rarely a valid end follows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers import SAMPLERS
from tests.laws.tiny_worlds import TinyWorld, far_ends

METHODS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {},
    "asap": {"burn_in": 20},
    "exact": {},
    "smc": {},
    "topn": {},
}


def share_beyond(world: TinyWorld, limit: int) -> float:
    return math.exp(world.log_truncated(limit) - world.log_mass)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gap", [0.5, 5.0, 2000.0])
def test_the_share_beyond_the_limit_is_bounded_from_above(method: str, gap: float) -> None:
    world = far_ends(gap)
    for limit in (1, 2, 3):
        sampler = SAMPLERS[method](**METHODS[method])
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
