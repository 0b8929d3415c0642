"""How much of the model's mass satisfies the constraint, from a fixed number of candidates.

x = prod Z of a candidate, 0 where it found no end, has mean P(S). subtle: only a number of
candidates fixed in advance may be averaged; stopping at an acceptance biases the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mass and effective sample size of n candidates.

    Attributes:
        log_mass: log of the (weighted) mean of x; None where all are 0.
        log_mass_se: Standard error of ``log_mass`` by the delta method; with equal weights
            sd(x) / (sqrt(n) mean(x)). None for one candidate or no mass.
        ess: (sum x)^2 / sum x^2; None where all are 0.
    """

    log_mass: float | None
    log_mass_se: float | None
    ess: float | None


def estimate(log_x: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Estimate:
    """Estimate from the candidates' weights.

    Args:
        log_x: float64[n] natural logs.
        weights: float64[n] positive, fixed in advance: what each candidate counts for in the mean;
            None for the same.
    """
    n = len(log_x)
    peak = float(log_x.max(initial=-np.inf))
    if not n or peak == -np.inf:
        return Estimate(None, None, None)
    x = np.exp(log_x - peak)
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    mean = float(x.mean() if weights is None else share @ x)
    spread = float((share**2) @ (x - mean) ** 2)
    error = math.sqrt(spread * n / (n - 1)) / mean if n > 1 else None
    return Estimate(peak + math.log(mean), error, float(x.sum() ** 2 / (x**2).sum()))


def rising(n: int, before: int = 0) -> NDArray[np.float64]:
    """Return the weights of n candidates of a tree that learns: each counts for its number.

    The first ones know nothing and vary most: they count least. Numbers are fixed in advance, so
    the mean stays unbiased.

    Args:
        n: Candidates. before: Those the tree has learnt from already.
    """
    numbers: NDArray[np.float64] = np.arange(before + 1, before + n + 1, dtype=np.float64)
    return numbers


def length_mass(log_x: NDArray[np.float64], log_beyond: NDArray[np.float64]) -> float | None:
    """Return the estimated share of the valid mass that lies beyond the length limit.

    What counts there is every prefix that fills the limit and may go on, with the probability of
    going on: no less than the mass of the valid texts that are longer, since some of these prefixes
    have no valid end.

    Args:
        log_x: float64[n] candidates' weights. log_beyond: float64[n] as in ``Candidates``.

    Returns:
        In [0, 1]; None where the candidates found neither.
    """
    inside, outside = (float(np.logaddexp.reduce(part)) for part in (log_x, log_beyond))
    both = float(np.logaddexp(inside, outside))
    return math.exp(outside - both) if both > -math.inf else None
