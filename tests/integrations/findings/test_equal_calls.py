"""Distances at equal calls, against cases counted by hand and laws that are enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cdec.integrations.findings.enumeration import mass, target
from cdec.integrations.findings.equal_calls import Drawn, distances, sampling_divergence
from cdec.integrations.findings.rival_tasks import known
from cdec.integrations.findings.rivals import Arena, path_calls, rivals, row_of
from cdec.integrations.findings.worlds import Row, toy_b

A, B, C = (0,), (1,), (2,)
Q = {A: 0.5, B: 0.25, C: 0.25}
LOG_Q = {row: math.log(p) for row, p in Q.items()}


def run(rows: list[Row | None], log_weights: list[float], calls: list[float]) -> Drawn:
    return Drawn(rows, np.array(log_weights), np.array(calls))


def test_draws_count_as_far_as_all_runs_have_them_for_the_calls_on_average() -> None:
    first = run([A, B, A, C], [0.0] * 4, [1.0, 1.0, 1.0, 1.0])
    second = run([A, A, None, B], [0.0] * 4, [1.0, 3.0, 1.0, 1.0])
    found = distances([first, second], LOG_Q, [0.5, 1, 2.9, 3, 4])
    assert found.draws.tolist() == [0, 1, 1, 2, 3]
    assert np.isnan(found.kl[0])
    assert np.isnan(found.tv[0])
    assert found.kl[1] == pytest.approx(math.log(2))
    # (A, B) and (A, A), then (A, B, A) and (A, A).
    halves = 0.5 * math.log(0.5 / 0.5) + 0.5 * math.log(0.5 / 0.25)
    thirds = 2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(4 / 3)
    assert found.kl[3] == pytest.approx((halves + math.log(2)) / 2)
    assert found.kl[4] == pytest.approx((thirds + math.log(2)) / 2)
    assert found.tv[3] == pytest.approx((0.25 + 0.5) / 2)
    assert found.kl_error[3] == pytest.approx(abs(halves - math.log(2)) / 2)


def test_weights_make_the_law_of_draws() -> None:
    logs = [math.log(w) - 800 for w in (4.0, 1.0, 2.0, 1.0)]
    own = run([A, B, C, B], logs, [1.0] * 4)
    found = distances([own, own], LOG_Q, [4])
    assert found.kl[0] == pytest.approx(0.0, abs=1e-12)
    assert found.tv[0] == pytest.approx(0.0, abs=1e-12)
    lost = run([A, B, C, B], [*logs[:3], -math.inf], [1.0] * 4)
    assert distances([lost, lost], LOG_Q, [4]).tv[0] == pytest.approx(4 / 7 - 0.5 + 2 / 7 - 0.25)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_divergence_of_samples_is_that_of_all_samples_that_there_are(n: int) -> None:
    law = {A: 0.2, B: 0.3, C: 0.5}
    values, weights = [], []
    for rows in itertools.product(law, repeat=n):
        shares = {row: rows.count(row) / n for row in rows}
        values.append(sum(p * math.log(p / Q[row]) for row, p in shares.items()))
        weights.append(math.prod(law[row] for row in rows))
    mean = np.average(values, weights=weights)
    deviation = math.sqrt(np.average((np.array(values) - mean) ** 2, weights=weights))
    (found,), (spread,) = sampling_divergence(law, Q, [n])
    assert abs(found - mean) < 5 * deviation / math.sqrt(2_000)
    assert spread == pytest.approx(deviation, rel=0.1)
    assert np.isnan(sampling_divergence(law, Q, [0])[0][0])


def test_an_arena_draws_what_its_budget_has_room_for() -> None:
    toy = toy_b()
    arena = Arena(toy.model(), toy.constraint, "", budget=120, runs=2)
    assert arena.calls == [7.5, 15.0, 30.0, 60.0, 120.0]
    compared = {name: rivals(1)[name] for name in ("masked", "masked, weighted", "exact")}
    found = arena.found(compared)
    assert found["masked"] is found["masked, weighted"]
    for runs in found.values():
        assert len(runs) == 2
        assert np.mean([path_calls(run).sum() for run in runs]) > 120
        assert {row_of(sample) for run in runs for sample in run} <= set(toy.members)


def test_texts_that_were_found_are_the_law_where_they_are_all_and_bound_what_is_missing() -> None:
    toy = toy_b()
    arena = Arena(toy.model(), toy.constraint, "", budget=120, runs=2)
    law, unknown = known([arena.drawn(rivals(1)["exact"], 60)])
    assert law == pytest.approx(target(toy))
    assert unknown == pytest.approx(0.0, abs=1e-9)
    few, more = known([[run[:1] for run in arena.drawn(rivals(1)["masked"], 1)]])
    found = sum(target(toy)[row] for row in few)
    assert sum(few.values()) == pytest.approx(1.0)
    # What is missing of log P(S) is within the bound.
    assert 0 < -math.log(found) <= more <= -math.log(found * mass(toy)) + 1e-9
    assert known([]) == ({}, math.inf)
