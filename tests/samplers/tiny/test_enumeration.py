"""The enumeration of tiny worlds: against that of toys in floats, and where floats end."""

from __future__ import annotations

import math

import pytest

from tests.laws.tiny_worlds import WORLDS, in_logits, long_members, thinned
from tests.laws.toys import Toy, toy_a, toy_b
from tests.samplers import enumeration


@pytest.mark.parametrize("toy", [toy_a(), toy_b()], ids="AB")
def test_decimals_agree_with_floats_where_floats_do(toy: Toy) -> None:
    world = in_logits(toy)
    exact = enumeration.masked(toy)
    assert world.log_mass == pytest.approx(math.log(enumeration.mass(toy)), rel=1e-9)
    assert world.target == pytest.approx(enumeration.target(toy), rel=1e-6)
    for row, x in exact.x.items():
        assert world.log_p(row) == pytest.approx(enumeration.log_prob(toy, row), rel=1e-9)
        assert world.log_x(row) == pytest.approx(math.log(x), rel=1e-9)
        assert world.log_masked(row) == pytest.approx(math.log(exact.law[row]), abs=1e-6)


def test_masses_are_known_where_no_float_is() -> None:
    masses = [world.log_mass for world in WORLDS.values()]
    assert min(masses) == pytest.approx(-5000, abs=1) and max(masses) > -5
    for name, world in WORLDS.items():
        assert sum(world.target.values()) == pytest.approx(1), name
    assert sorted(long_members(-3000.0).target.values()) == pytest.approx([1 / 3, 2 / 3])


def test_a_thinned_toy_keeps_its_law_and_loses_its_mass() -> None:
    toy = toy_b()
    for nats in (5.0, 900.0):
        world = thinned(toy, nats)
        law = {row[1:]: q for row, q in world.target.items()}
        assert law == pytest.approx(enumeration.target(toy))
        assert world.log_mass == pytest.approx(math.log(enumeration.mass(toy)) - nats, abs=0.01)
