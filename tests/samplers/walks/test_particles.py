"""Populations: what resampling keeps, drops and draws; arithmetic of log weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.samplers.request import Request
from cdec.samplers.smc import Populations, effective_sample_size, log_mean, stratified
from cdec.samplers.walks.batch import Batch
from tests.laws.toys import toy_a, toy_b
from tests.samplers.enumeration import log_prob
from tests.samplers.smc_draws import dead_end_toy, draw, outcome


def test_texts_that_resampling_dropped_stay_in_the_lower_bound() -> None:
    toy = toy_b()
    model = toy.model()
    dropped = 0
    for seed in range(40):
        with Batch(model, [Request("", toy.constraint, [seed])]) as batch:
            left = Populations(batch, np.array([0]), 6, 0.95).walk()
            lower = batch.tree.bounds(0, int(batch.roots[0])).fields()["log_mass_lower"]
        assert isinstance(lower, float)
        rows = {tuple(t[:n]) for t, n in zip(left.tokens.tolist(), left.lengths, strict=True)}
        known = math.log(sum(math.exp(log_prob(toy, row)) for row in rows))
        assert lower >= known - 1e-12
        dropped += lower > known + 1e-9
    assert dropped


def test_dead_particles_are_replaced_by_living_ones() -> None:
    toy = dead_end_toy()
    samples = draw(toy, 400, 8, 0.9)
    # All eight die with probability (2/3)^8 = .04 at most.
    assert np.mean([outcome(s) is None for s in samples]) < 0.1
    # Whoever resampled has no dead particle left: what is unequal came after.
    survivors = [s for s in samples if s.diagnostics["resamplings"]]
    assert survivors and all(outcome(s) is not None for s in survivors)


def test_more_resampling_is_done_where_the_threshold_is_higher() -> None:
    toy = toy_a()
    times = [
        sum(s.diagnostics["resamplings"] for s in draw(toy, 100, 8, share))
        for share in (0.0, 0.5, 0.9)
    ]
    assert times[0] == 0 < times[1] < times[2]


def test_stratified_resampling_is_unbiased() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 5, 16):
        weights = rng.exponential(size=size) ** 3
        weights[: size // 3] = 0.0
        grid = (np.arange(4000) + 0.5) / 4000
        with np.errstate(divide="ignore"):
            rows = np.tile(np.log(weights) - 5000, (len(grid), 1))
        chosen = stratified(rows, np.tile(grid[:, None], (1, size)))
        counts = np.bincount(chosen.reshape(-1), minlength=size) / len(grid)
        # Each end of a share lies in one stratum, where the midpoints err by half a cell at most.
        assert counts == pytest.approx(size * weights / weights.sum(), abs=2 / len(grid))
        assert (np.diff(chosen, axis=1) >= 0).all()
        assert (weights[chosen] > 0).all()


def test_stratified_resampling_never_leaves_the_positive_weights() -> None:
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([[0.0, 0.1, 0.2, 0.0]]))
    assert stratified(weights, np.zeros((1, 4))).tolist() == [[1, 1, 2, 2]]
    last = stratified(weights, np.full((1, 4), 1 - 2**-53))
    assert set(last[0].tolist()) <= {1, 2}


def test_weights_far_below_the_smallest_float_are_compared_and_averaged() -> None:
    with np.errstate(divide="ignore"):
        rows = np.log(np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])) - 5000
    sizes = effective_sample_size(rows)
    assert sizes[:2].tolist() == pytest.approx([3.0, 1.6])
    assert math.isnan(sizes[2])
    assert log_mean(rows).tolist() == pytest.approx([-5000, math.log(4 / 3) - 5000, -math.inf])
