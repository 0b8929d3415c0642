"""Mass estimates, the bound c(root), resampling, and the layout of random numbers."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from cdec.samplers.disc import resample
from cdec.samplers.mass import bracket, estimate
from cdec.samplers.randomness import CandidateUniforms, draw_seeds, single_uniform
from cdec.samplers.visits import VisitRows, Visits, log_mass_upper


def visit(
    context: int, depth: int, parent: int, edge: float, bound: float, draw: int = 0
) -> VisitRows:
    """Return one visited prefix of request 0."""
    with np.errstate(divide="ignore"):
        values = [0, context, depth, parent, np.log(edge), np.log(bound), draw, True, False]
    return VisitRows(*(np.array([value]) for value in values))


def test_unvisited_prefixes_count_fully_and_visited_ones_by_their_bound() -> None:
    visits = Visits()
    visits.add(visit(5, 0, -1, 1.0, 0.8))
    assert log_mass_upper(visits.rows())[0] == pytest.approx(math.log(0.8))
    visits.add(visit(7, 1, 5, 0.5, 0.1))
    assert log_mass_upper(visits.rows())[0] == pytest.approx(math.log(0.3 + 0.5 * 0.1))
    visits.add(visit(9, 1, 5, 0.3, 0.0))
    assert log_mass_upper(visits.rows())[0] == pytest.approx(math.log(0.05))
    visits.add(visit(11, 2, 7, 0.1, 1e-9))
    assert log_mass_upper(visits.rows())[0] == pytest.approx(math.log(0.05e-9), rel=1e-6)


def test_a_prefix_belongs_to_its_lowest_draw_however_it_was_added() -> None:
    visits = Visits()
    for draw in (4, 2, 3):
        visits.add(visit(5, 0, -1, 1.0, 0.8, draw))
    rows = visits.rows()
    assert rows.draw.tolist() == [2]
    visits.add(visit(5, 0, -1, 1.0, 0.8, 1))
    assert visits.rows().draw.tolist() == [1]
    assert all(len(getattr(rows, field.name)) == 1 for field in fields(VisitRows))


def test_bracket_counts_each_text_once() -> None:
    visits = Visits()
    visits.add(visit(5, 0, -1, 1.0, 0.8))
    found = bracket(log_mass_upper(visits.rows())[0], np.array([5, 5, 7]), np.log([0.1, 0.1, 0.2]))
    assert found["log_mass_lower"] == pytest.approx(math.log(0.3))
    assert found["log_mass_upper"] == pytest.approx(math.log(0.8))


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


def test_records_are_bounded_apart_even_where_their_contexts_have_equal_numbers() -> None:
    visits = Visits()
    visits.add(visit(5, 0, -1, 1.0, 0.8))
    visits.add(visit(7, 1, 5, 0.5, 0.1))
    other = visit(5, 0, -1, 1.0, 0.6)
    other.request[:] = 3
    visits.add(other)
    found = log_mass_upper(visits.rows())
    assert found == pytest.approx({0: math.log(0.3 + 0.5 * 0.1), 3: math.log(0.6)})
