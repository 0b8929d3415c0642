"""Warping: temperature, top-k and top-p keep what they should, in numpy and torch alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.errors import UsageError
from cdec.core.models import warping as warping_module
from cdec.core.models.warping import Warping, normalizers

PROBABILITIES = np.array([[0.5, 0.2, 0.15, 0.1, 0.05], [0.05, 0.1, 0.15, 0.2, 0.5]])


def warped(warping: Warping, kind: str, scores: np.ndarray | None = None) -> np.ndarray:
    """Return the warped distributions as probabilities."""
    block: Any = np.log(PROBABILITIES) if scores is None else scores.copy()
    if kind == "torch":
        block = torch.from_numpy(block)
    result = warping.apply(block)
    return np.exp(np.asarray(result) - np.asarray(normalizers(result))[:, None])


@pytest.fixture(params=["numpy", "torch"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_temperature_is_a_power_of_the_probabilities(kind: str) -> None:
    expected = PROBABILITIES**2 / (PROBABILITIES**2).sum(-1, keepdims=True)
    np.testing.assert_allclose(warped(Warping(temperature=0.5), kind), expected)


@pytest.mark.parametrize("temperature", [1e-7, 1e-30, 1e-38, 1e-45, 1e-300, 5e-324])
@pytest.mark.parametrize("kept", [np.float32, np.float64])
def test_a_temperature_near_0_leaves_the_best_tokens_whatever_the_precision(
    kind: str, kept: type, temperature: float
) -> None:
    scores = np.log(np.vstack([PROBABILITIES, [[0.4, 0.05, 0.4, 0.1, 0.05]]])).astype(kept)
    scores[0, 4] = -np.inf
    expected = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0.5, 0, 0.5, 0, 0]]
    np.testing.assert_allclose(warped(Warping(temperature=temperature), kind, scores), expected)


def test_top_k_keeps_the_best_and_renormalises(kind: str) -> None:
    expected = [[0.5 / 0.7, 0.2 / 0.7, 0, 0, 0], [0, 0, 0, 0.2 / 0.7, 0.5 / 0.7]]
    np.testing.assert_allclose(warped(Warping(top_k=2), kind), expected)
    np.testing.assert_allclose(warped(Warping(top_k=9), kind), PROBABILITIES)


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, 1), (0.49, 1), (0.6, 2), (0.71, 3), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(kind: str, top_p: float, kept: int) -> None:
    rows = warped(Warping(top_p=top_p), kind)
    assert ((rows > 0).sum(-1) == kept).all()
    assert (rows[0, :kept] > 0).all()
    np.testing.assert_allclose(rows.sum(-1), 1)


def test_temperature_comes_before_top_p(kind: str) -> None:
    # At temperature 4 the best token holds 0.29, so a nucleus of 0.4 needs two.
    assert ((warped(Warping(temperature=4.0, top_p=0.4), kind) > 0).sum(-1) == 2).all()


def test_a_nucleus_wider_than_the_first_try_ranks_the_whole_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores = np.random.default_rng(0).normal(size=(7, 300)) * np.array([[0.1], [9]] * 3 + [[1]])
    expected = warped(Warping(top_p=0.8), "numpy", scores)
    monkeypatch.setattr(warping_module, "_NUCLEUS_FIRST_TRY", 8)
    np.testing.assert_allclose(warped(Warping(top_p=0.8), "torch", scores), expected)
    kept = (expected > 0).sum(-1)
    assert kept.min() <= 8 < kept.max()


def test_normalisers_hold_to_a_millionth_for_large_float32_scores() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.normal(size=(4, 50_000)) * 3 + 40).astype(np.float32)
    exact = normalizers(scores.astype(np.float64))
    for block in (scores, torch.from_numpy(scores)):
        np.testing.assert_allclose(np.asarray(normalizers(block)), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "not a distribution"),
        ({"temperature": -1.0}, "positive"),
        ({"temperature": float("nan")}, "finite"),
        ({"temperature": "1"}, "number"),
        ({"top_k": 0}, "at least 1"),
        ({"top_k": 1.5}, "integer"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Warping(**options)


def test_temperature_zero_points_to_greedy() -> None:
    with pytest.raises(UsageError) as caught:
        Warping(temperature=0.0)
    assert "greedy" in str(caught.value.hint)
