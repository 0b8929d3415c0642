"""The mentored solver: the most acceptance within a divergence, by table, by solver, by duality."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from cdec.samplers.mentored import mentored_distribution
from tests.samplers.mentored.mentored_checks import (
    DRAFT,
    LIMITS,
    TARGET,
    Law,
    acceptance,
    check,
    kl,
    random_law,
    solution,
    wide_pairs,
)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (0, 0.6),
        (0.01, 0.670269),
        (0.05, 0.749447),
        (0.1, 0.806155),
        (0.2, 0.883939),
        (0.3, 0.937367),
        (0.5, 0.995140),
    ],
)
def test_acceptance_is_that_of_the_reference_table(limit: float, expected: float) -> None:
    pi = mentored_distribution(DRAFT, TARGET, limit)
    assert acceptance(DRAFT, pi) == pytest.approx(expected, abs=5e-7)


def test_bounds_and_law_are_those_of_the_reference() -> None:
    pi, alpha, beta, spent = solution(DRAFT, TARGET, 0.1)
    assert alpha == pytest.approx(0.485071, abs=5e-7)
    assert beta == pytest.approx(1.523443, abs=5e-7)
    assert pi == pytest.approx([0.206155, 0.3, 0.196922, 0.1, 0.196922], abs=5e-7)
    assert 0.1 - 1e-12 < spent <= 0.1
    assert solution(DRAFT, TARGET, math.inf)[3] == pytest.approx(0.526605, abs=5e-7)


def test_no_budget_returns_the_target_itself() -> None:
    assert (mentored_distribution(DRAFT, TARGET, 0) == TARGET).all()


@pytest.mark.parametrize("limit", [0.5267, 1.0, 1e300, math.inf])
def test_a_budget_beyond_the_divergence_returns_the_draft(limit: float) -> None:
    assert (mentored_distribution(DRAFT, TARGET, limit) == DRAFT).all()


def test_an_infinite_budget_takes_a_draft_that_misses_target_events() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.3, 0.5])
    assert (mentored_distribution(p, q, math.inf) == p).all()
    assert kl(q, mentored_distribution(p, q, 1e6)) <= 1e6


@pytest.mark.parametrize("limit", [2.0, math.inf])
def test_mass_outside_the_support_goes_where_the_target_exceeds_the_draft(limit: float) -> None:
    p, q = np.array([0.5, 0.2, 0.1, 0.2]), np.array([0.0, 0.1, 0.4, 0.5])
    pi, alpha, beta, _ = solution(p, q, limit)
    # q / beta - p over the last two events is the lost half: beta = .9 / (.3 + .5).
    assert alpha == 0.0
    assert beta == pytest.approx(0.9 / 0.8, abs=1e-14)
    assert pi == pytest.approx([0.0, 0.2, 0.4 / beta, 0.5 / beta], abs=1e-14)


def test_a_one_hot_draft_takes_what_two_events_would_allow() -> None:
    q = np.array([0.3, 0.2, 0.5])
    pi = mentored_distribution(np.array([0.0, 1.0, 0.0]), q, 0.2)
    x = pi[1]
    assert 0.2 * math.log(0.2 / x) + 0.8 * math.log(0.8 / (1 - x)) == pytest.approx(0.2, abs=1e-11)
    assert x > 0.2
    assert pi[0] / pi[2] == pytest.approx(0.6, abs=1e-14)


@pytest.mark.parametrize("limit", LIMITS)
def test_disjoint_supports_and_a_one_hot_target_return_the_target(limit: float) -> None:
    p = np.array([0.5, 0.5, 0.0, 0.0])
    apart = np.array([0.0, 0.0, 0.25, 0.75])
    assert mentored_distribution(p, apart, limit) == pytest.approx(apart, abs=1e-15)
    certain = np.array([1.0, 0.0, 0.0, 0.0])
    assert mentored_distribution(p, certain, limit) == pytest.approx(certain, abs=1e-15)


def solver_acceptance(p: Law, q: Law, limit: float) -> float:
    """Best acceptance by sequential quadratic programming, over laws on the target's support."""
    most = float(p[q > 0].sum())
    p, q = p[q > 0], q[q > 0]
    n = len(q)

    def spare(x: Law) -> float:
        return limit - float(np.sum(q * np.log(q / np.maximum(x[:n], 1e-300))))

    found = minimize(
        lambda x: -x[n:].sum(),
        np.concatenate([q, np.minimum(p, q)]),
        jac=lambda _: np.concatenate([np.zeros(n), -np.ones(n)]),
        bounds=[(1e-12, 1.0)] * n + [(0.0, float(top)) for top in p],
        constraints=[
            {"type": "eq", "fun": lambda x: x[:n].sum() - 1.0},
            {"type": "ineq", "fun": lambda x: x[:n] - x[n:]},
            {"type": "ineq", "fun": spare},
        ],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )
    law = np.maximum(found.x[:n], 1e-300) / found.x[:n].sum()
    # What the solver left infeasible by its tolerance is no competitor.
    over = max(0.0, -spare(np.concatenate([law, law])))
    return min(most, float(np.minimum(p, law).sum())) if over < 1e-9 else 0.0


@pytest.mark.slow
def test_acceptance_is_never_below_that_of_a_convex_solver() -> None:
    generator = np.random.default_rng(5)
    matched = 0
    for _ in range(80):
        n = int(generator.integers(2, 7))
        p, q = (
            generator.dirichlet(np.ones(n)) * (generator.random(n) < keep) for keep in (0.7, 0.8)
        )
        if not p.sum() * q.sum() > 0:
            continue
        p, q = p / p.sum(), q / q.sum()
        limit = float(generator.choice([0.01, 0.1, 0.3, 1.0]))
        pi = mentored_distribution(p, q, limit)
        best = solver_acceptance(p, q, limit)
        assert acceptance(p, pi) >= best - 1e-6
        matched += best > acceptance(p, pi) - 1e-5
    assert matched >= 50  # else the solver is no competitor


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 700])
def test_random_laws_keep_every_promise(n: int) -> None:
    generator = np.random.default_rng(n)
    for _ in range(60):
        p, q = random_law(generator, n), random_law(generator, n)
        check(p, q, float(generator.choice(LIMITS)))


weights = st.one_of(
    st.just(0.0), st.floats(0.0, 1.0), st.floats(-323, 0).map(lambda power: 10.0**power)
)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.lists(st.tuples(weights, weights), min_size=1, max_size=12), st.floats(0.0, 1e3))
@example([(1.0, 1.0), (1.0, 1e-200)], 0.1)
@example([(1.0, 1.0), (1e-200, 1.0)], 0.1)
@example([(1.0, 1.0), (5e-324, 1.0), (1.0, 5e-324)], 1.0)
@example([(1.0, 1e-300), (1e-300, 1.0)], 300.0)
@example([(1.0, 1.0), (1.0, 0.5)], 5e-324)
@example([(0.0, 1e-16), (1.0, 1.0)], 1.0)
def test_hostile_weights_keep_every_promise(pairs: list[tuple[float, float]], limit: float) -> None:
    p, q = np.array(pairs).T
    if p.max() > 0 and q.max() > 0:
        p, q = p / p.max(), q / q.max()
        check(p / p.sum(), q / q.sum(), limit)


@pytest.mark.parametrize("name", list(wide_pairs()))
def test_many_events_in_few_bins_keep_every_promise(name: str) -> None:
    p, q = wide_pairs()[name]
    for limit in (1e-12, 1e-9, 1e-7, 1e-4, 0.1, 3.0):
        check(p, q, limit)


def test_acceptance_rises_with_the_divergence() -> None:
    generator = np.random.default_rng(11)
    for _ in range(20):
        p, q = random_law(generator, 50), random_law(generator, 50)
        rising = [acceptance(p, mentored_distribution(p, q, limit)) for limit in LIMITS]
        assert (np.diff(rising) >= -1e-12).all()


def test_nothing_is_carried_from_call_to_call() -> None:
    generator = np.random.default_rng(8)
    cases = []
    for _ in range(40):
        n = int(generator.integers(1, 900))
        p, q = random_law(generator, n), random_law(generator, n)
        cases.append((p, q, float(generator.choice(LIMITS))))
    found = [solution(*case)[1:] for case in cases]
    assert [solution(*case)[1:] for case in reversed(cases)] == found[::-1]
    with ThreadPoolExecutor(4) as threads:
        assert [each[1:] for each in threads.map(lambda case: solution(*case), cases)] == found
