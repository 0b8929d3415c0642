"""Laws over scored members: those of the enumerations, whatever the range of the weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cdec.integrations.findings import enumeration
from cdec.integrations.findings.answers import law_checks
from cdec.integrations.findings.laws import MemberLaws, resampled, standard_errors
from cdec.integrations.findings.worlds import Toy, lured, toy_a, toy_b

WORLDS = {"A": toy_a(), "B": toy_b(), "lured": lured(1e-4, 0.2)}


def laws_of(toy: Toy) -> MemberLaws:
    found = enumeration.masked(toy)
    law, x = ([values[row] for row in toy.members] for values in (found.law, found.x))
    return MemberLaws(np.log(law), np.log(x))


@pytest.mark.parametrize("toy", WORLDS.values(), ids=WORLDS)
def test_laws_are_those_of_the_enumeration(toy: Toy) -> None:
    laws = laws_of(toy)
    q = enumeration.target(toy)
    assert laws.log_mass == pytest.approx(math.log(enumeration.mass(toy)), abs=1e-12)
    assert laws.target == pytest.approx([q[row] for row in toy.members], abs=1e-12)
    for tries in (1, 2, 4):
        law = enumeration.disc(toy, tries)
        # subtle: the enumeration groups weights that agree in 15 decimals.
        assert laws.disc(tries) == pytest.approx([law[row] for row in toy.members], abs=2e-8)
        far = enumeration.total_variation(law, q)
        assert laws.distance(laws.disc(tries)) == pytest.approx(far, abs=2e-8)


def test_weights_far_apart_are_resampled_as_all_triples_say() -> None:
    rng = np.random.default_rng(3)
    log_p, log_x = np.log(rng.dirichlet(np.ones(5))), -900 * rng.random(5)
    right = np.zeros(5)
    for triple in itertools.product(range(5), repeat=3):
        logs = log_x[list(triple)]
        shares = np.exp(logs - np.logaddexp.reduce(logs))
        np.add.at(right, list(triple), math.exp(log_p[list(triple)].sum()) * shares)
    assert resampled(log_p, log_x, 3) == pytest.approx(right, abs=1e-12)
    assert resampled(log_p, log_x, 1) == pytest.approx(np.exp(log_p), abs=1e-12)


def test_divergence_and_distance_by_hand() -> None:
    laws = MemberLaws(np.log([0.5, 0.5]), np.log([0.3, 0.1]))
    assert laws.target == pytest.approx([0.75, 0.25])
    assert laws.distance(laws.masked) == pytest.approx(0.25)
    by_hand = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert laws.divergence(laws.masked) == pytest.approx(by_hand)
    assert laws.divergence(np.array([1.0, 0.0])) == math.inf


def test_standard_errors_grow_with_what_is_drawn_beyond_the_law() -> None:
    assert standard_errors([5, 5], [0.5, 0.5], 10) == 0.0
    assert standard_errors([8, 7], [0.5, 0.5], 10) == pytest.approx(5 / math.sqrt(5))
    # What never happens by the law must not happen once.
    assert standard_errors([1], [0.0], 100) == 1.0


def test_checks_of_laws_hold_for_worlds_and_fail_for_forged_numbers() -> None:
    assert all(check.holds for check in law_checks([laws_of(toy) for toy in WORLDS.values()]))
    # Weights against the masked law as no model gives them: P(S) of it is above its root's.
    forged = MemberLaws(np.log([0.999, 0.001]), np.log([1e-6, 0.999e3]))
    assert not all(check.holds for check in law_checks([forged]))
