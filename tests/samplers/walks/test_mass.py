"""Mass estimates, resampling, and the layout of random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.samplers.disc import resample
from cdec.samplers.walks.mass import estimate, length_mass
from cdec.samplers.walks.randomness import CandidateUniforms, draw_seeds, single_uniform


def test_estimate_survives_tiny_weights_and_knows_when_it_knows_nothing() -> None:
    log_x = np.log([0.2, 0.4, 0.6]) - 5000
    mass = estimate(log_x)
    assert mass.log_mass == pytest.approx(math.log(0.4) - 5000)
    assert mass.log_mass_se == pytest.approx(0.2 / math.sqrt(3) / 0.4)
    assert mass.ess == pytest.approx(1.2**2 / 0.56)
    with_zero = estimate(np.array([math.log(0.5), -np.inf]))
    assert with_zero.log_mass == pytest.approx(math.log(0.25))
    nothing = estimate(np.array([-np.inf, -np.inf]))
    assert (nothing.log_mass, nothing.log_mass_se, nothing.ess) == (None, None, None)
    assert estimate(np.array([-1.0])).log_mass_se is None


def test_resampling_takes_each_in_proportion_and_never_weight_zero() -> None:
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([0.0, 1.0, 3.0, 0.0])) - 900
    uniforms = np.array([0.0, 0.2499, 0.2501, 1 - 2**-53])
    picked = resample(np.tile(weights, (4, 1)), uniforms)
    assert picked.tolist() == [1, 1, 2, 2]
    assert resample(np.full((1, 3), -np.inf), np.array([0.7])).tolist() == [0]


def test_uniforms_are_the_documented_outputs_of_the_draws_generator() -> None:
    uniforms = CandidateUniforms([7, 7, 8], np.array([0, 2, 1]), steps=300)
    first = np.random.Generator(np.random.PCG64(7)).random(400)
    assert uniforms.acceptance()[0] == first[0]
    for step in (0, 1, 62, 63, 64, 200):
        assert uniforms.at(np.array([step]), np.array([0]))[0] == first[1 + step]
    bits = np.random.PCG64(7)
    bits.advance(2 << 32)
    third = np.random.Generator(bits).random(3)
    again = CandidateUniforms([7, 7, 8], np.array([0, 2, 1]), steps=3)
    assert again.acceptance()[1] == third[0] == single_uniform(7, 2)
    assert again.at(np.array([1]), np.array([1]))[0] == third[2]


def test_seeds_fit_a_json_number() -> None:
    seeds = draw_seeds(np.random.default_rng(0), 1000)
    assert len(set(seeds)) == 1000
    assert max(seeds) < 2**53


def test_length_mass_is_the_share_of_what_the_limit_cut_off() -> None:
    with np.errstate(divide="ignore"):
        log_x, log_beyond = np.log([0.2, 0.4, 0.0]), np.log([0.0, 0.1, 0.1])
    assert length_mass(log_x, log_beyond) == pytest.approx(0.2 / 0.8)
    assert length_mass(log_x, np.full(3, -np.inf)) == 0.0
    assert length_mass(np.full(3, -np.inf), np.full(3, -np.inf)) is None
