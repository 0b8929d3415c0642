"""Averages of records: exp(log_mass_unclipped) has mean P(S), whatever the bracket of a record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.samplers import SAMPLERS
from cdec.samplers.request import Request
from cdec.samplers.scoring.mass_estimator import Mass, MassEstimator
from tests.laws.sizes import heavy_or
from tests.laws.toys import Toy, toy_b
from tests.samplers.enumeration import mass

RECORDS = heavy_or(2_000, 40_000)
WAYS: dict[str, dict[str, Any]] = {
    "masked": {},
    "disc": {"K": 4},
    "asap": {"burn_in": 0, "round": 1},
    "exact": {"round": 1},
    "exact, abort": {"round": 1, "abort": True},
    "smc": {"particles": 4},
    "mass": {"round": 1},
}


def shown(name: str, toy: Toy, n: int, count: int = RECORDS) -> list[dict[str, Any]]:
    """Return what each of ``count`` records of n texts shows of its mass."""
    requests = [Request.numbered("", toy.constraint, id=i, n=n) for i in range(count)]
    if name == "mass":
        found = MassEstimator(candidates=n, **WAYS[name]).run(toy.model(), requests)
        return [each.to_json() for each in found if isinstance(each, Mass)]
    samples = SAMPLERS[name.partition(",")[0]](**WAYS[name]).draw_batch(toy.model(), requests)
    return [dict(each[0].diagnostics) for each in samples if isinstance(each, list)]


def average(records: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Return the mean of exp of a field, null being 0, and its standard error."""
    values = [0.0 if each[name] is None else math.exp(each[name]) for each in records]
    return float(np.mean(values)), float(np.std(values) / math.sqrt(len(values)))


@pytest.mark.parametrize("name", WAYS)
def test_the_average_over_records_is_the_mass(name: str) -> None:
    toy = toy_b()
    records = shown(name, toy, 3)
    assert len(records) == RECORDS
    mean, error = average(records, "log_mass_unclipped")
    # Four standard errors: once in 16,000 runs, and seeds are fixed.
    assert abs(mean - mass(toy)) < 4 * error < 0.2 * mass(toy)
    if name == "masked":
        # What the bracket holds back is too much on average: that is why there are two.
        clipped, clipped_error = average(records, "log_mass")
        assert clipped - mass(toy) > 4 * clipped_error


@pytest.mark.parametrize("name", WAYS)
def test_a_record_shows_the_same_within_its_bracket(name: str) -> None:
    for record in shown(name, toy_b(), 3, 50):
        unclipped, lower = record["log_mass_unclipped"], record["log_mass_lower"]
        most = max(-math.inf if each is None else each for each in (unclipped, lower))
        expected = min(most, record["log_mass_upper"])
        assert record["log_mass"] == (None if expected == -math.inf else expected)


def test_no_candidate_with_a_text_is_null_and_estimated_all_the_same() -> None:
    records = shown("exact, abort", toy_b(), 1, 50)
    nothing = [each for each in records if each["log_mass_unclipped"] is None]
    assert nothing and all(each["log_mass_reliable"] is not None for each in nothing)
    toy, sampler = toy_b(), SAMPLERS["masked"](opportunistic=True)
    (found,) = sampler.draw_batch(toy.model(), [Request.numbered("", toy.constraint, id=1)])
    assert not isinstance(found, Exception)
    unknown = found[0].diagnostics
    assert unknown["log_mass_unclipped"] is unknown["log_mass_reliable"] is None
