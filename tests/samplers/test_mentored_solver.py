"""The mentored solver: the most acceptance within a divergence, by table, by solver, by duality."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from cdec.core.errors import UsageError
from cdec.samplers.mentored_kernels import divergence, make_workspace, mentored_value, solve
from cdec.samplers.mentored_solver import mentored_distribution
from cdec.samplers.mentored_torch import solve_rows, values

Law = NDArray[np.float64]
DRAFT = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
TARGET = np.array([0.1, 0.25, 0.3, 0.05, 0.3])
LIMITS = (0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.7, 3.0, 50.0, 1e6, math.inf)


def kl(q: Law, pi: Law) -> float:
    """KL(q || pi), without quotients that overflow."""
    inside = q > 0
    if (pi[inside] <= 0).any():
        return math.inf
    return float(np.sum(q[inside] * (np.log(q[inside]) - np.log(pi[inside]))))


def acceptance(p: Law, pi: Law) -> float:
    return float(np.minimum(p, pi).sum())


def random_law(generator: np.random.Generator, n: int) -> Law:
    """A law of one of several shapes: smooth, peaked, with zeros, tied, one-hot, extreme."""
    shape = generator.integers(7)
    if shape == 0:
        weights = generator.dirichlet(np.ones(n))
    elif shape == 1:
        weights = np.exp(np.clip(generator.normal(size=n) * generator.choice([1, 9, 90]), -690, 0))
    elif shape == 2:
        weights = generator.dirichlet(np.ones(n)) * (generator.random(n) < 0.5)
    elif shape == 3:
        weights = generator.integers(0, 3, n).astype(float)
    elif shape == 4:
        weights = np.ones(n)
    elif shape == 5:
        weights = np.eye(n)[generator.integers(n)]
    else:
        weights = 10.0 ** generator.uniform(-320, 0, n)
    if not weights.max() > 0:
        weights[generator.integers(n)] = 1.0
    weights = weights / weights.max()
    return weights / weights.sum()


def solution(p: Law, q: Law, limit: float) -> tuple[Law, float, float, float]:
    """Return pi, alpha, beta and the divergence spent, from the kernels."""
    alpha, beta, spent = solve(p, q, len(p), float(limit), make_workspace(len(p)))
    pi = np.array([mentored_value(a, b, alpha, beta) for a, b in zip(p, q, strict=True)])
    return pi, alpha, beta, spent


def upper_bound(p: Law, q: Law, limit: float, alpha: float, beta: float) -> float:
    """An acceptance that no law within the limit passes, by weak duality.

    For any multipliers rate >= 0 and price > 0 the Lagrangian sum min(p, x) + rate (D - KL(q || x))
    + price (1 - sum x) is largest at a clip of p, event by event; that maximum bounds every
    feasible law. alpha and beta only choose the multipliers: no error in them makes this too low.
    """
    inside = q > 0
    most = 1.0 - float(p[~inside].sum())
    if not math.isfinite(limit) or not math.isfinite(beta) or not beta > alpha:
        return most
    rate = 1.0 / (beta - alpha)
    price = rate * beta
    p, q = p[inside], q[inside]
    x = np.maximum(p, q / beta)
    x = np.minimum(x, q / alpha) if alpha > 0 else x
    if not (x > 0).all():
        return most
    divergences = q * (np.log(q) - np.log(x))
    bound = np.minimum(p, x).sum() + rate * (limit - divergences.sum()) + price * (1 - x.sum())
    return min(most, float(bound))


def check(p: Law, q: Law, limit: float) -> None:
    """Check all that is promised of one solution."""
    pi, alpha, beta, spent = solution(p, q, limit)
    assert (pi >= 0).all()
    assert (pi[q == 0] == 0).all()
    assert pi.sum() == pytest.approx(1.0, abs=1e-12)
    found = kl(q, pi)
    assert found <= limit
    assert spent <= limit
    assert spent == pytest.approx(found, rel=1e-9, abs=1e-12)
    if limit == 0:
        assert (pi == q).all()
    whole = kl(q, p)
    within = not ((p > 0) & (q == 0)).any()
    if within and (whole < limit - 1e-12 * (1 + limit) or limit == math.inf):
        assert (pi == p).all()
    if not within or whole > limit:
        assert (pi != p).any()
    # Only where the budget is no more than what is left for rounding may nothing be spent.
    assert alpha < 1 or limit <= 2e-13
    if alpha < 1:
        # What is left for rounding, 1e-13 (1 + limit), costs sqrt(1e-13 / 2) at most.
        assert acceptance(p, pi) >= upper_bound(p, q, limit, alpha, beta) - 1e-6
    assert acceptance(p, pi) >= acceptance(p, q) - 1e-12


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
    assert divergence(DRAFT, TARGET, 5) == pytest.approx(0.526605, abs=5e-7)


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
def test_hostile_weights_keep_every_promise(pairs: list[tuple[float, float]], limit: float) -> None:
    p, q = np.array(pairs).T
    if p.max() > 0 and q.max() > 0:
        p, q = p / p.max(), q / q.max()
        check(p / p.sum(), q / q.sum(), limit)


def wide_pairs() -> dict[str, tuple[Law, Law]]:
    """Pairs of many events: smooth, nearly equal, equal but for ties, in clusters at two scales."""
    n = 20_000
    generator = np.random.default_rng(2)
    base = generator.normal(size=n) * 3

    def soft(scores: Law) -> Law:
        raised: Law = np.exp(scores - scores.max())
        return raised / raised.sum()

    clusters = np.where(generator.random(n) < 0.5, 1e-3, 1e-7) * generator.integers(-3, 4, n)
    return {
        "smooth": (soft(base + generator.normal(size=n)), soft(base + generator.normal(size=n))),
        "nearly equal": (soft(base), soft(base + 1e-4 * generator.normal(size=n))),
        "ties": (soft(np.zeros(n)), soft(np.arange(n) % 2.0)),
        "clusters": (soft(base), soft(base + clusters)),
        "one-hot draft": (np.eye(1, n, 7)[0], soft(base)),
    }


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


def test_rows_on_a_device_agree_with_the_kernel() -> None:
    generator = np.random.default_rng(3)
    for n in (1, 2, 6, 50, 1300):
        p = np.stack([random_law(generator, n) for _ in LIMITS])
        q = np.stack([random_law(generator, n) for _ in LIMITS])
        rows = torch.from_numpy(p), torch.from_numpy(q)
        alpha, beta, spent = solve_rows(*rows, torch.tensor(LIMITS, dtype=torch.float64))
        pi = values(*rows, alpha, beta).numpy()
        expected = mentored_distribution(p, q, np.array(LIMITS))
        assert pi == pytest.approx(expected, abs=1e-9)
        assert (spent.numpy() <= LIMITS).all()
        assert all(kl(q[row], pi[row]) <= limit for row, limit in enumerate(LIMITS))


@pytest.mark.parametrize("name", list(wide_pairs()))
def test_wide_rows_on_a_device_agree_with_the_kernel(name: str) -> None:
    p, q = wide_pairs()[name]
    limits = np.array([1e-9, 1e-4, 0.1])
    rows = torch.from_numpy(np.stack([p] * 3)), torch.from_numpy(np.stack([q] * 3))
    alpha, beta, spent = solve_rows(*rows, torch.from_numpy(limits))
    expected = mentored_distribution(rows[0].numpy(), rows[1].numpy(), limits)
    assert values(*rows, alpha, beta).numpy() == pytest.approx(expected, abs=1e-9)
    assert (spent.numpy() <= limits).all()


def test_a_workspace_carries_nothing_from_call_to_call() -> None:
    generator = np.random.default_rng(8)
    shared = make_workspace(900)
    for _ in range(40):
        n = int(generator.integers(1, 900))
        p, q = random_law(generator, n), random_law(generator, n)
        limit = float(generator.choice(LIMITS))
        assert solve(p, q, n, limit, shared) == solve(p, q, n, limit, make_workspace(n))


def test_divergences_broadcast_over_positions() -> None:
    generator = np.random.default_rng(4)
    p, q = generator.dirichlet(np.ones(6), size=(2, 3)), generator.dirichlet(np.ones(6), (2, 3))
    limits = np.array([0.0, 0.05, math.inf])
    found = mentored_distribution(p, q, limits)
    assert found.shape == p.shape
    for i in range(2):
        for j in range(3):
            alone = mentored_distribution(p[i, j], q[i, j], limits[j])
            assert (found[i, j] == alone).all()
    assert (mentored_distribution(p, q, limits[:2, None]) >= 0).all()


def test_tensors_give_a_tensor_of_the_same_law() -> None:
    p, q = torch.tensor(DRAFT, dtype=torch.float32), torch.tensor(TARGET, dtype=torch.float32)
    pi = mentored_distribution(p, q, torch.tensor(0.1))
    assert isinstance(pi, torch.Tensor)
    assert pi.dtype == torch.float64
    assert pi.numpy() == pytest.approx(mentored_distribution(DRAFT, TARGET, 0.1), abs=1e-6)


def test_rows_of_single_precision_are_normalised() -> None:
    generator = np.random.default_rng(6)
    p, q = (generator.dirichlet(np.ones(5000)).astype(np.float32) for _ in range(2))
    pi = mentored_distribution(p, q, 0.01)
    exact = q.astype(np.float64) / q.sum(dtype=np.float64)
    assert pi.sum() == pytest.approx(1.0, abs=1e-12)
    assert kl(exact, pi) <= 0.01


@pytest.mark.parametrize("limit", [-0.1, math.nan, "much", np.zeros(3)])
def test_a_divergence_that_is_none_is_refused(limit: object) -> None:
    with pytest.raises(UsageError, match="divergence"):
        mentored_distribution(np.stack([DRAFT] * 2), np.stack([TARGET] * 2), limit)


@pytest.mark.parametrize(
    "draft",
    [
        DRAFT[:4],
        np.zeros(0),
        np.float64(1.0),
        DRAFT * 1.001,
        DRAFT - np.array([0.2, 0, -0.2, 0.15, -0.15]),
        np.array([np.nan, 0.5, 0.2, 0.2, 0.1]),
        np.log(DRAFT),
    ],
)
def test_a_draft_that_is_no_law_is_refused(draft: Law) -> None:
    with pytest.raises(UsageError):
        mentored_distribution(draft, TARGET, 0.1)
    with pytest.raises(UsageError):
        mentored_distribution(TARGET, draft, 0.1)


def test_an_array_beside_a_tensor_is_refused() -> None:
    with pytest.raises(UsageError, match="two kinds"):
        mentored_distribution(DRAFT, torch.from_numpy(TARGET), 0.1)
