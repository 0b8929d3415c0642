"""Metric: sums over records and a value of these sums, so that all are resampled alike.

A mean is a sum of values over a sum of ones, micro-averaged F1 twice the true positives over all
positives, perplexity the exponential of such a ratio. Resampling records only changes how often
each one's terms enter the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.data.metrics.records import Evaluated

Terms: TypeAlias = Sequence[float] | None
"""What one record adds to each sum; None where the metric says nothing of it."""


def ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first sum over the second, nan where the second is 0.

    Args:
        sums: float64 ``[..., 2]``.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums[..., 1] == 0, np.nan, sums[..., 0] / sums[..., 1]))


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: As options and tables call it.
        meaning: One sentence.
        needs: What records have to have for it, in words.
        terms: Returns what a record adds to the sums; None where it lacks what is needed.
        value: Returns the value of sums: float64 ``[..., width]`` to ``[...]``.
        width: Number of the sums.
        better: ``higher`` or ``lower`` is better; "" where neither is.
        unit: Of the value: ``share`` between 0 and 1, nats, calls, ...
    """

    name: str
    meaning: str
    needs: str
    terms: Callable[[Evaluated], Terms]
    value: Callable[[NDArray[np.float64]], NDArray[np.float64]] = ratio
    width: int = 2
    better: str = "higher"
    unit: str = "share"


def mean_of(value: Callable[[Evaluated], float | None]) -> Callable[[Evaluated], Terms]:
    """Return the terms of a mean over the records of which a value is known."""

    def terms(record: Evaluated) -> Terms:
        found = value(record)
        return None if found is None else (found, 1.0)

    return terms
