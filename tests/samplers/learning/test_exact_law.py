"""Exact sampling on toys A and B: the law, independence, what a sample costs, unbiased masses.

A long record tells little, since its tree is soon known and then draws Q itself; so the draws are
those of many short records, whose first samples come from a tree that knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdec.core import CdecError, Sample
from cdec.core.models.tabular import TabularModel
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.rounds import Round, Rounds
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.toys import Row, Toy, toy_a, toy_b
from tests.samplers.enumeration import mass, target
from tests.samplers.learning.aligned_reference import count_calls
from tests.samplers.raw_means import watched

MAKE = {"A": toy_a, "B": toy_b}
SAMPLES = 100
RECORDS = heavy_or(160, 1000)
DESIGN = {("A", False): 6.54, ("A", True): 6.62, ("B", False): 3.38, ("B", True): 3.43}
"""Uncached calls per sample at round 1, by toy and whether candidates abort."""


def draw_records(
    toy: Toy, records: int, n: int, *, seed: int = 1, model: TabularModel | None = None, **how: Any
) -> list[list[Sample]]:
    """Draw ``n`` samples for each of ``records`` records that learn apart."""
    rng = np.random.default_rng(seed)
    requests = [Request("", toy.constraint, draw_seeds(rng, n)) for _ in range(records)]
    sampler = SAMPLERS["exact"](max_walks=1 << 15, **how)
    found = []
    for drawn in sampler.draw_batch(model or toy.model(), requests):
        assert not isinstance(drawn, CdecError), drawn
        found.append(drawn)
    return found


def rows_of(records: list[list[Sample]]) -> list[list[Row]]:
    return [[tuple(sample.token_ids) for sample in samples] for samples in records]


def check_law(toy: Toy, records: list[list[Row]]) -> None:
    """Test all draws, and apart from them those of trees that know little, against Q."""
    law = target(toy)
    for first, last in ((0, 1), (1, 4), (0, len(records[0]))):
        assert g_test((row for rows in records for row in rows[first:last]), law) >= 1e-4
    product = {(a, b): p * q for a, p in law.items() for b, q in law.items()}
    assert g_test(((rows[0], rows[1]) for rows in records), product) >= 1e-4
    pairs = ((rows[i], rows[i + 1]) for rows in records for i in range(0, len(rows) - 1, 2))
    assert g_test(pairs, product) >= 1e-4


def check_fields(samples: list[Sample]) -> None:
    """Check what every accepted sample says, and that samples are in the candidates' order."""
    for sample in samples:
        assert (sample.log_weight, sample.exactness) == (0.0, "exact")
        assert (sample.finish_reason, sample.valid) == ("complete", True)
        assert sample.diagnostics["accepted"]
    iterations = [sample.diagnostics["iteration"] for sample in samples]
    assert iterations == sorted(set(iterations))
    assert np.cumsum([sample.diagnostics["draws"] for sample in samples]).tolist() == iterations


def check_calls(toy: Toy, calls: list[float], size: int, abort: bool, design: float) -> None:
    """Compare the mean calls per sample of some records with the design's, and the reference's."""
    error = np.std(calls, ddof=1) / math.sqrt(len(calls))
    if size == 1:
        # The design's tolerance, and four standard errors of fewer seeds than its 300.
        assert abs(np.mean(calls) - design) <= 0.05 + 4 * error
    assert np.mean(calls) <= 1.5 * design
    own = [
        count_calls(toy, SAMPLES, size, seed, aborting=abort) for seed in range(heavy_or(25, 60))
    ]
    slack = 4 * math.hypot(error, np.std(own, ddof=1) / math.sqrt(len(own)))
    assert abs(np.mean(calls) - np.mean(own)) <= slack + 1e-9


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("round_size", [1, 16])
@pytest.mark.parametrize("name", MAKE)
def test_draws_follow_q_independently_at_the_designs_cost(
    name: str, round_size: int, abort: bool
) -> None:
    toy = MAKE[name]()
    # Rounds of one are slow by nature: a quarter of the records for the aborting kind.
    records = draw_records(
        toy,
        RECORDS // 4 if abort and round_size == 1 else RECORDS,
        SAMPLES,
        round=round_size,
        abort=abort,
    )
    check_law(toy, rows_of(records))
    for samples in records[:20]:
        check_fields(samples)
    calls = [
        float(np.mean([sample.diagnostics["path_evaluations"] for sample in samples]))
        for samples in records[:250]
    ]
    check_calls(toy, calls, round_size, abort, DESIGN[name, abort])


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("round_size", [1, 16])
@pytest.mark.parametrize("name", MAKE)
def test_each_prefix_is_asked_for_once(name: str, round_size: int, abort: bool) -> None:
    toy = MAKE[name]()
    for seed in range(5):
        asked: list[Row] = []

        def ask(prefix: Row, asked: list[Row] = asked) -> Any:
            asked.append(prefix)
            return toy.probabilities(prefix)

        model = TabularModel(ask, toy.vocabulary)
        (samples,) = draw_records(
            toy, 1, 100, seed=seed, model=model, round=round_size, abort=abort
        )
        distinct = sum(s.diagnostics["distinct_evaluations"] for s in samples)
        assert len(asked) == len(set(asked)) == distinct <= {"A": 37, "B": 10}[name]


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize(("n", "round_size", "max_draws"), [(1, 1, 1000), (2, 16, 1000), (3, 4, 2)])
@pytest.mark.parametrize("name", MAKE)
def test_mass_is_estimated_without_bias_however_many_candidates_it_took(
    name: str, n: int, round_size: int, max_draws: int, abort: bool
) -> None:
    toy, count = MAKE[name](), 800
    how: dict[str, Any] = {"max_draws": max_draws, "fallback": "none"}
    with watched() as found:
        records = draw_records(toy, count, n, round=round_size, abort=abort, **how)
    estimates = np.exp([each.log_mean for each in found])
    assert len(estimates) == count
    error = 4 * estimates.std(ddof=1) / math.sqrt(count)
    assert abs(estimates.mean() - mass(toy)) <= error + 1e-12
    for samples in records:
        lower, upper = (samples[-1].diagnostics[f"log_mass_{s}"] for s in ("lower", "upper"))
        assert lower is None or lower <= math.log(mass(toy)) + 1e-9
        assert upper >= math.log(mass(toy)) - 1e-9


def accept_all(drawn: Round) -> Round:
    """Accept every candidate that found an end."""
    return replace(drawn, tests=np.full(len(drawn.tests), -1.0))


def accept_squares(drawn: Round) -> Round:
    """Accept by the weight alone, c(root) counted twice."""
    return replace(drawn, log_root=2 * drawn.log_root)


def sort_tests(drawn: Round) -> Round:
    """Test the most probable text of a round first."""
    order = np.argsort(-drawn.candidates.log_p, kind="stable")
    return replace(drawn, candidates=drawn.candidates.take(order), tests=drawn.tests[order])


Break = Callable[[Round], Round]


@pytest.mark.parametrize(
    ("break_it", "round_size"), [(accept_all, 1), (accept_squares, 16), (sort_tests, 16)]
)
def test_law_notices_a_broken_acceptance(
    break_it: Break, round_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Rounds.draw

    def broken(rounds: Rounds, *given: Any) -> Any:
        yield from (break_it(drawn) for drawn in draw(rounds, *given))

    monkeypatch.setattr(Rounds, "draw", broken)
    toy = toy_b()
    records = rows_of(draw_records(toy, 800, 6, round=round_size))
    with pytest.raises(AssertionError):
        check_law(toy, records)


def test_law_notices_a_tree_that_learns_before_the_round_is_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = Rounds.draw

    def late(rounds: Rounds, *given: Any) -> Any:
        for drawn in draw(rounds, *given):
            yield replace(drawn, log_root=rounds.log_root(drawn.request))

    monkeypatch.setattr(Rounds, "draw", late)
    toy = toy_b()
    records = rows_of(draw_records(toy, 800, 6, round=16))
    with pytest.raises(AssertionError):
        check_law(toy, records)
