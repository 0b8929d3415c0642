"""Accounts of candidates that belong to other draws: one gather, equal to a loop over requests."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.samplers.drafts.ledger import owning


def looped(
    owners: dict[int, NDArray[np.int64]],
    request: NDArray[np.int64],
    candidate: NDArray[np.int64],
) -> list[int]:
    """Return the owning draws, one row at a time."""
    return [
        int(owners[r][c]) if r in owners else c
        for r, c in zip(request.tolist(), candidate.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_find_the_draws_they_belong_to(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests = int(rng.integers(1, 30))
    counts = rng.integers(1, 9, size=requests)
    having = rng.permutation(requests)[: int(rng.integers(1, requests + 1))].tolist()
    owners = {r: rng.integers(0, 5, size=counts[r]) for r in having}
    request = rng.integers(0, requests, size=int(rng.integers(0, 200)))
    candidate = rng.integers(0, counts[request])
    before = candidate.copy()
    found = owning(owners, requests, request, candidate)
    assert found.tolist() == looped(owners, request, candidate)
    assert np.array_equal(candidate, before)


def test_a_request_without_candidates_leaves_those_of_others_alone() -> None:
    none = np.zeros(0, np.int64)
    owners = {0: none, 2: np.array([1, 0, 1])}
    found = owning(owners, 4, np.array([2, 3, 2]), np.array([0, 5, 1]))
    assert found.tolist() == [1, 5, 0]
