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
        log_mass: log of the mean of x; None where all are 0.
        log_mass_se: Standard error of ``log_mass`` by the delta method, sd(x) / (sqrt(n) mean(x));
            None for one candidate or no mass.
        ess: (sum x)^2 / sum x^2; None where all are 0.
    """

    log_mass: float | None
    log_mass_se: float | None
    ess: float | None


def estimate(log_x: NDArray[np.float64]) -> Estimate:
    """Estimate from the candidates' weights, float64[n] natural logs."""
    n = len(log_x)
    peak = float(log_x.max(initial=-np.inf))
    if not n or peak == -np.inf:
        return Estimate(None, None, None)
    x = np.exp(log_x - peak)
    mean = float(x.mean())
    error = float(x.std(ddof=1)) / (math.sqrt(n) * mean) if n > 1 else None
    return Estimate(peak + math.log(mean), error, float(x.sum() ** 2 / (x**2).sum()))


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
