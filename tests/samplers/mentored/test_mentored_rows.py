"""The mentored solver's public surface: rows, tensors, devices, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cdec.core.errors import UsageError
from cdec.samplers.mentored import mentored_distribution, solve_rows, values
from tests.samplers.mentored.mentored_checks import (
    DRAFT,
    LIMITS,
    TARGET,
    Law,
    kl,
    random_law,
    wide_pairs,
)


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
