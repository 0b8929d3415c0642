"""The curves of ASAp's Figures 4 to 6, computed from drawn texts and their log probabilities.

Paper: arXiv 2405.21047, section 4. Everything is in natural logs; a *text* is a token sequence, and
a text that a limit cut has no probability and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Text = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Draws:
    """Complete texts of one method, n of them in draw order.

    Attributes:
        texts: n token sequences.
        log_p: float64[n] log P of each, end event included.
    """

    texts: Sequence[Text]
    log_p: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Target:
    """Q restricted to the distinct texts that any method found, N of them.

    Attributes:
        law: Q of each text.
        log_p: float64[N]. log_q: float64[N] of the same texts.
    """

    law: dict[Text, float]
    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]

    @property
    def mean_q(self) -> float:
        """E_Q[Q], the paper's expectation: near 1 where one text has nearly all of the mass."""
        return float(np.exp(2 * self.log_q).sum())

    @property
    def mean_log_p(self) -> float:
        """E_Q[log P]."""
        return float((np.exp(self.log_q) * self.log_p).sum())

    @property
    def log_mass(self) -> float:
        """Log of the mass of the texts found, a lower bound of log P(S)."""
        return float(np.logaddexp.reduce(self.log_p))


def target_of(methods: Sequence[Draws]) -> Target:
    """Normalise P over all distinct texts found, as the paper does where Q is out of reach."""
    found: dict[Text, float] = {}
    for draws in methods:
        found.update(zip(draws.texts, draws.log_p.tolist(), strict=True))
    log_p = np.array(list(found.values()))
    log_q = log_p - np.logaddexp.reduce(log_p)
    return Target(dict(zip(found, np.exp(log_q).tolist(), strict=True)), log_p, log_q)


def window_divergence(draws: Draws, start: int, width: int) -> float:
    """Return KL(empirical law of one window ‖ P) = sum over its texts of q log(q / P)."""
    counts: dict[Text, int] = {}
    for text in draws.texts[start : start + width]:
        counts[text] = counts.get(text, 0) + 1
    n = sum(counts.values())
    entropy = -sum(c / n * np.log(c / n) for c in counts.values())
    return float(-entropy - draws.log_p[start : start + width].mean())


def divergence_curve(draws: Draws, width: int, stride: int) -> dict[str, list[float]]:
    """Return Figure 4's curve: a point at x is the window of draws x to x + width."""
    starts = list(range(0, max(1, len(draws.texts) - width + 1), stride))
    if not draws.texts:
        return {"x": [], "kl": []}
    return {
        "x": [float(start) for start in starts],
        "kl": [window_divergence(draws, start, width) for start in starts],
    }


def expectation_curve(values: NDArray[np.float64], points: int) -> dict[str, list[float]]:
    """Return Figure 5's curve: the mean of the first i draws at ``points`` values of i."""
    if not values.size:
        return {"x": [], "mean": []}
    at = np.unique(np.linspace(1, len(values), min(points, len(values))).astype(int))
    means = np.cumsum(values)[at - 1] / at
    return {"x": at.astype(float).tolist(), "mean": means.tolist()}


def floor_divergence(
    target: Target, width: int, rng: np.random.Generator, repeats: int = 100
) -> tuple[float, float]:
    """Return what a window of draws from Q itself shows, mean and standard deviation.

    It lies above -log P(S), which the curve tends to in wide windows: a window does not hold all of
    Q's texts, so its empirical law has too little entropy.
    """
    q = np.exp(target.log_q)
    counts = rng.multinomial(width, q / q.sum(), size=repeats) / width
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * (np.log(counts) - target.log_p), 0.0)
    values = terms.sum(axis=1)
    return float(values.mean()), float(values.std())


def values_of(draws: Draws, target: Target) -> NDArray[np.float64]:
    """Return Q of every draw, float64[n]: what Figures 5 and 6 average."""
    return np.array([target.law[text] for text in draws.texts])
