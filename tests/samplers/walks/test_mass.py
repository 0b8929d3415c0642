"""Mass estimates, resampling, and the layout of random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.walks.mass import UNKNOWN, distinct_ess, estimate, length_mass_upper
from cdec.samplers.walks.randomness import CandidateUniforms, draw_seeds, resample, single_uniform

WIDE = Bracket(-math.inf, 0.0, 0.0)


def test_estimate_survives_tiny_weights_and_knows_when_it_knows_nothing() -> None:
    log_x = np.log([0.2, 0.4, 0.6]) - 5000
    mass = estimate(log_x, Bracket(-5001.0, -5000.0, -5000.0))
    assert mass.log_mass == mass.log_mean == pytest.approx(math.log(0.4) - 5000)
    assert mass.sampling_error == pytest.approx(0.2 / math.sqrt(3) / 0.4)
    with_zero = estimate(np.array([math.log(0.5), -np.inf]), WIDE)
    assert with_zero.log_mass == pytest.approx(math.log(0.25))
    nothing = estimate(np.array([-np.inf, -np.inf]), WIDE)
    assert nothing.fields() == {**UNKNOWN, "log_mass_reliable": False}


def test_no_mass_at_all_is_known_for_certain() -> None:
    empty = Bracket(-math.inf, -math.inf)
    known = estimate(np.array([-np.inf]), empty)
    assert (known.log_mass, known.log_mass_se, known.log_mass_reliable) == (None, None, True)


def test_the_error_is_widened_by_what_so_many_candidates_can_have_missed() -> None:
    log_x = np.log(np.full(100, 0.2))
    # Equal weights have no spread. Of the 0.3 not seen 100 candidates miss no more than one of
    # the largest weight among them, 0.5 / 100.
    some = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.log(0.5)))
    assert (some.sampling_error, some.log_mass_reliable) == (0.0, True)
    assert some.log_mass_se == pytest.approx(0.005 / 0.2)
    # Less than that is not there: the bracket says so.
    narrow = estimate(log_x, Bracket(math.log(0.199), math.log(0.201), 0.0))
    assert narrow.log_mass_se == pytest.approx(math.log(0.2 / 0.199))
    # A spread adds to it as variances do.
    log_x = np.log(np.tile([0.1, 0.3], 50))
    both = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.log(0.5)))
    assert both.sampling_error == pytest.approx(0.5 / math.sqrt(99))
    assert both.log_mass_se == pytest.approx(math.hypot(0.5 / math.sqrt(99), 0.005 / 0.2))


def test_an_estimate_outside_its_bracket_is_replaced_by_its_end_and_flagged() -> None:
    # As a run met it: all that was drawn is tiny and alike, and the texts seen weigh more.
    log_x = np.log([0.5, 1.0, 1.5, 1.0]) - 66.7
    outside = estimate(log_x, Bracket(-52.6, -1.0, -0.5))
    assert outside.log_mass == -52.6
    assert outside.log_mass_reliable is False
    assert outside.log_mass_se == pytest.approx(51.6)
    too_high = estimate(np.array([-1.0, -1.0, -1.01]), Bracket(-9.0, -4.0, -0.5))
    assert (too_high.log_mass, too_high.log_mass_reliable) == (-4.0, False)


def test_sampling_noise_alone_does_not_discredit_an_estimate() -> None:
    log_x = np.log(np.tile([0.1, 0.3], 50))
    moved = estimate(log_x, Bracket(math.log(0.205), math.log(0.3), math.log(0.5)))
    assert moved.log_mass == math.log(0.205)
    assert moved.log_mass_reliable


def test_a_narrow_bracket_is_reliable_whatever_was_drawn() -> None:
    for log_x in (np.full(3, -80.0), np.full(3, -np.inf), np.array([-0.1])):
        known = estimate(log_x, Bracket(-2.05, -2.0, 0.0))
        assert known.log_mass in (-2.05, -2.0)
        assert known.log_mass_reliable
        assert known.log_mass_se == pytest.approx(math.expm1(0.05), rel=0.06)


def test_one_candidate_is_no_surer_than_its_bracket() -> None:
    bracket = Bracket(math.log(0.1), math.log(0.4), math.log(0.5))
    one = estimate(np.log([0.2]), bracket)
    assert one.log_mass_se == pytest.approx(math.log(2))
    wider = estimate(np.log([0.2]), Bracket(math.log(0.01), math.log(0.4), math.log(0.5)))
    assert wider.log_mass_se == pytest.approx(math.log(20))
    assert wider.log_mass_reliable is False


def test_a_mean_above_its_upper_bound_says_nothing_of_how_far_below_the_truth_is() -> None:
    # One candidate of 16 has all the weight there can be, and weighs more than all texts together.
    log_x = np.append(np.full(15, -38.4), -20.6)
    found = estimate(log_x, Bracket(-25.6, -23.5, -20.6))
    assert found.log_mass == -23.5
    assert found.log_mass_se is not None and found.log_mass_se > 1
    assert found.log_mass_reliable is False


def test_weights_that_no_mask_bounds_are_widened_by_all_that_was_not_seen() -> None:
    log_x = np.log(np.full(10_000, 0.2))
    free = estimate(log_x, Bracket(math.log(0.1), math.log(0.4), math.inf))
    assert free.log_mass_se == pytest.approx(math.log(2))


def test_effective_sample_size_counts_texts_and_not_repeats() -> None:
    texts = np.array([4, 9, 4, 7])
    log_x = np.log([0.2, 0.4, 0.2, 0.1]) - 900
    assert distinct_ess(log_x, texts) == pytest.approx(0.9**2 / (0.4**2 + 0.4**2 + 0.1**2))
    assert distinct_ess(np.zeros(16), np.zeros(16, int)) == pytest.approx(1)
    assert distinct_ess(np.zeros(16), np.arange(16)) == pytest.approx(16)
    # What found no text counts for nothing, whatever its last context was.
    assert distinct_ess(np.array([0.0, -np.inf]), np.array([1, 1])) == 1
    assert distinct_ess(np.array([-np.inf]), np.array([1])) is None


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


def test_length_mass_upper_is_the_share_of_what_the_limit_cut_off() -> None:
    with np.errstate(divide="ignore"):
        log_x, log_truncated = np.log([0.2, 0.4, 0.0]), np.log([0.0, 0.1, 0.1])
    assert length_mass_upper(log_x, log_truncated) == pytest.approx(0.2 / 0.8)
    assert length_mass_upper(log_x, np.full(3, -np.inf)) == 0.0
    assert length_mass_upper(np.full(3, -np.inf), np.full(3, -np.inf)) is None
