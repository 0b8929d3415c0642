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


def bracket(
    log_upper: float, texts: NDArray[np.int64], log_p: NDArray[np.float64]
) -> dict[str, float | None]:
    """Return certified bounds of log P(S) from all that a record visited and found.

    Args:
        log_upper: log c(root) of the record's visits.
        texts: int64[n] last contexts of complete candidates, which identify their texts.
        log_p: float64[n] log probabilities of these texts.

    Returns:
        ``log_mass_lower``, the log of the sum over distinct texts (None where none was found), and
        ``log_mass_upper``, log c(root).
    """
    _, first = np.unique(texts, return_index=True)
    lower = float(np.logaddexp.reduce(log_p[first])) if first.size else -math.inf
    upper = min(0.0, log_upper)
    return {
        "log_mass_lower": min(lower, upper) if lower > -math.inf else None,
        "log_mass_upper": max(lower, upper) if upper > -math.inf else None,
    }
