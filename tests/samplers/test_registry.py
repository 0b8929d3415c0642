"""The registry of methods, and exact enumeration."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings.enumeration import (
    Law,
    disc,
    expected_draws,
    masked,
    mass,
    target,
    total_variation,
)
from cdec.samplers import SAMPLERS
from cdec.samplers.base import Sampler
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import build_reward
from tests.laws.worlds import toy_a, toy_b

# --- METHODS and SAMPLERS: what is declared is what constructors take, and costs no heavy import.

NEEDED = {
    "draft": TabularModel(lambda prefix: [1.0], Vocabulary([b""], [0], [0])),
    "reward": build_reward("regex:."),
}


def needed(name: str) -> dict[str, Any]:
    """Return the arguments that a method cannot do without."""
    method = METHODS[name]
    wanted = {"draft": method.needs_draft, "reward": method.needs_reward}
    return {option: NEEDED[option] for option, is_needed in wanted.items() if is_needed}


def test_samplers_are_a_mapping_from_names_to_classes() -> None:
    assert list(SAMPLERS) == list(METHODS)
    assert SAMPLERS.get("none") is None
    for name, sampler_class in SAMPLERS.items():
        assert issubclass(sampler_class, Sampler)
        assert sampler_class.name == name


@pytest.mark.parametrize("name", METHODS)
def test_a_constructor_takes_what_is_declared(name: str) -> None:
    sampler: Any = SAMPLERS[name](**needed(name))
    parameters = inspect.signature(SAMPLERS[name]).parameters
    assert list(parameters) == [option.name for option in METHODS[name].options]
    for option in METHODS[name].options:
        assert parameters[option.name].default == option.default
        assert hasattr(sampler, option.name)
    with pytest.raises(TypeError, match="no option 'colour'"):
        SAMPLERS[name](**needed(name), colour="red")


@pytest.mark.parametrize("name", METHODS)
def test_a_constructor_checks_what_is_declared(name: str) -> None:
    for option in METHODS[name].options:
        if option.at_least is None:
            continue
        with pytest.raises(UsageError) as caught:
            SAMPLERS[name](**needed(name), **{option.name: int(option.at_least) - 1})
        assert caught.value.details["option"] == option.name


def test_values_are_checked_without_a_sampler() -> None:
    assert METHODS["cdsl"].checked({"depth": 5})["depth"] == 5
    with pytest.raises(UsageError, match="`depth` is 0, expected at least 1"):
        METHODS["cdsl"].checked({"depth": 0})


@pytest.mark.parametrize("name", METHODS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    for option in METHODS[name].options:
        assert option.help.endswith(".")
        assert "--" not in option.help


def test_an_option_that_does_not_exist_is_told_its_near_name() -> None:
    with pytest.raises(TypeError, match="disc has no option 'recycel'; did you mean 'recycle'"):
        SAMPLERS["disc"](recycel=True)


def test_one_option_has_a_second_name() -> None:
    two = {
        (option.name, option.also)
        for method in METHODS.values()
        for option in method.options
        if option.also
    }
    assert two == {("K", "max_tries")}
    sampler: Any = SAMPLERS["disc"](max_tries=7)
    assert sampler.K == 7
    with pytest.raises(UsageError, match="`K` is 0"):
        SAMPLERS["disc"](max_tries=0)
    with pytest.raises(TypeError, match="two names"):
        SAMPLERS["disc"](max_tries=7, K=7)


def test_options_are_called_as_they_are_typed() -> None:
    from cdec.cli.frame.declaration import flag_of

    names = {option.name for method in METHODS.values() for option in method.options}
    assert not {name for name in names if flag_of(name)[2:].replace("-", "_") != name}


# --- The exact laws used by the other tests give the design's reference numbers (ALGORITHMS, 3).

DISC_A = {
    1: (1.6975, 0.486506),
    2: (2.6705, 0.236688),
    4: (3.4701, 0.056021),
    8: (3.5688, 0.003138),
}
DISC_B = {
    1: (1.9495, 0.383126),
    2: (3.7525, 0.248363),
    4: (6.9578, 0.130702),
    8: (12.0036, 0.055879),
    16: (18.1381, 0.021216),
}
RECYCLED_B = {
    1: (1.0, 0.403513),
    2: (1.9495, 0.270885),
    4: (3.7069, 0.149215),
    8: (6.7196, 0.069179),
    16: (11.1580, 0.029767),
}


def divergence(first: Law, second: Law) -> float:
    """Return KL(first || second)."""
    return sum(p * math.log(p / second[k]) for k, p in first.items() if p > 0)


def test_toy_a_has_its_published_masses() -> None:
    toy = toy_a()
    assert mass(toy) == pytest.approx(0.30250000266, abs=1e-11)
    q, drawn = target(toy), masked(toy).law
    assert q[(0, 0, 0, 0, 0)] == pytest.approx(6.1001e-10, rel=1e-4)
    assert drawn[(0, 0, 0, 0, 0)] == pytest.approx(0.45)
    assert sum(p for row, p in drawn.items() if row and row[-1]) == pytest.approx(0.3025)
    assert divergence(drawn, q) == pytest.approx(13.0901, abs=5e-5)
    assert divergence(q, drawn) == pytest.approx(1.1957, abs=5e-5)
    assert total_variation(drawn, q) == pytest.approx(0.6975, abs=5e-5)


def test_toy_b_has_its_published_laws() -> None:
    toy = toy_b()
    assert mass(toy) == pytest.approx(0.0505234568, abs=1e-10)
    q, drawn = target(toy), masked(toy).law
    expected_q = [0.087968, 0.123155, 0.019157, 0.139949, 0.458015, 0.171756]
    expected_masked = [0.010417, 0.021875, 0.051042, 0.333333, 0.233333, 0.350000]
    assert [q[row] for row in toy.members] == pytest.approx(expected_q, abs=1e-6)
    assert [drawn[row] for row in toy.members] == pytest.approx(expected_masked, abs=1e-6)
    assert total_variation(drawn, q) == pytest.approx(0.403513, abs=1e-6)
    assert divergence(q, drawn) == pytest.approx(0.446914, abs=1e-6)


@pytest.mark.parametrize("tries", DISC_A)
def test_disc_on_toy_a_has_its_published_draws_and_distance(tries: int) -> None:
    toy = toy_a()
    draws, distance = DISC_A[tries]
    assert expected_draws(toy, tries) == pytest.approx(draws, abs=6e-5)
    assert total_variation(disc(toy, tries), target(toy)) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("tries", DISC_B)
def test_disc_on_toy_b_has_its_published_draws_and_distance(tries: int) -> None:
    toy = toy_b()
    draws, distance = DISC_B[tries]
    assert expected_draws(toy, tries) == pytest.approx(draws, abs=6e-5)
    assert total_variation(disc(toy, tries), target(toy)) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("tries", RECYCLED_B)
def test_recycled_disc_on_toy_b_has_its_published_draws_and_distance(tries: int) -> None:
    toy = toy_b()
    draws, distance = RECYCLED_B[tries]
    law = disc(toy, tries, recycle=True)
    assert expected_draws(toy, tries, recycle=True) == pytest.approx(draws, abs=1.2e-4)
    assert total_variation(law, target(toy)) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("recycle", [False, True])
def test_laws_of_disc_sum_to_one(recycle: bool) -> None:
    for toy in (toy_a(), toy_b()):
        for tries in (1, 3, 5):
            assert sum(disc(toy, tries, recycle=recycle).values()) == pytest.approx(1)
