"""Bootstrap intervals of metrics, and paired tests of their differences.

Records are resampled with replacement, all metrics and systems by the same draws (Efron 1979;
percentile intervals). A difference of two systems is tested by approximate randomisation: under
the hypothesis that they do not differ, either may have given a record's samples (Noreen 1989; Yeh
2000). Both take metrics as values of sums, so F1 and perplexity as well as means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Value: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_CELLS = 1 << 22
"""Largest number of counts or signs that are made at once."""
EXACT_UP_TO = 14
"""Records up to which every way of exchanging systems is tried."""


class RecordTerms(NamedTuple):
    """What records add to the sums of a metric.

    Attributes:
        records: int64 ``[n]``: their numbers, each once.
        terms: float64 ``[n, width]``.
    """

    records: NDArray[np.int64]
    terms: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """The sums over all records, float64 ``[width]``."""
        return np.asarray(self.terms.sum(axis=0))


class Interval(NamedTuple):
    """A value with its bootstrap interval; nan where it is not defined."""

    value: float
    lower: float
    upper: float


def resampled(
    jobs: Sequence[RecordTerms], records: int, resamples: int, rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Return the sums of resampled records, for several metrics by the same draws.

    Args:
        jobs: Terms of each metric.
        records: How many there are in all; numbers are below.
        resamples: Number of them.
        rng: Draws the records.

    Returns:
        For each job float64 ``[resamples, width]``. Cost: ``resamples * records``, in memory that
        does not grow with either.
    """
    sums = [np.empty((resamples, job.terms.shape[1])) for job in jobs]
    for start, stop in _portions(resamples, records):
        drawn = rng.integers(0, records, size=(stop - start, records))
        drawn += np.arange(stop - start)[:, None] * records
        counts = np.bincount(drawn.ravel(), minlength=(stop - start) * records)
        _add_up(counts.reshape(-1, records), jobs, sums, slice(start, stop))
    return sums


def exchanged(
    gaps: Sequence[RecordTerms], records: int, resamples: int, rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Return sums over the records that were exchanged, for several metrics by the same draws.

    Args:
        gaps: Terms of each metric: one system's less the other's.
        records, resamples, rng: As in ``resampled``; a record is exchanged with probability 1/2.

    Returns:
        For each metric float64 ``[resamples, width]``; of up to 14 records all ways, each once,
        ``[2 ** n, width]``.
    """
    sums = [np.empty((resamples, gap.terms.shape[1])) for gap in gaps]
    for start, stop in _portions(resamples, records):
        signs = rng.integers(0, 2, size=(stop - start, records), dtype=np.int8)
        _add_up(signs, gaps, sums, slice(start, stop))
    for place, gap in enumerate(gaps):
        if (n := len(gap.records)) <= EXACT_UP_TO:
            sums[place] = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1) @ gap.terms
    return sums


def _portions(resamples: int, records: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CELLS // max(records, 1))
    for start in range(0, resamples if records else 0, step):
        yield start, min(resamples, start + step)


def _add_up(
    counts: NDArray[np.integer],
    jobs: Sequence[RecordTerms],
    sums: Sequence[NDArray[np.float64]],
    rows: slice,
) -> None:
    whole = counts.astype(np.float64)
    for job, into in zip(jobs, sums, strict=True):
        is_whole = len(job.records) == whole.shape[1]
        own = whole if is_whole and _is_sorted(job.records) else whole[:, job.records]
        into[rows] = own @ job.terms


def _is_sorted(records: NDArray[np.int64]) -> bool:
    return bool(np.all(records[1:] > records[:-1]))


def interval(found: float, values: NDArray[np.float64], confidence: float) -> Interval:
    """Return a value with the percentiles of its resampled values.

    Args:
        found: The value.
        values: float64 ``[resamples]``; nan where a resample has no record of the metric.
        confidence: Share of the values within the interval; between 0 and 1.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return Interval(found, float("nan"), float("nan"))
    tail = (1.0 - confidence) / 2
    # One of the values, not a mean of two: some may be infinite.
    lower, upper = np.quantile(known, [tail, 1.0 - tail], method="inverted_cdf")
    return Interval(found, float(lower), float(upper))


def p_value(
    first: RecordTerms, second: RecordTerms, moved: NDArray[np.float64], value: Value
) -> float:
    """Return the two-sided p-value of a difference of two systems on the same records.

    Args:
        first, second: Their terms.
        moved: Of second less first, as ``exchanged`` returns them.
        value: Of sums.
    """
    both, own = first.total + second.total, second.total
    observed = abs(float(value(own) - value(both - own)))
    sums = own - moved
    gaps = np.abs(value(sums) - value(both - sums))
    # Equal differences count, whatever the order of their sums.
    beyond = int(np.sum(gaps >= observed - 1e-9 * max(1.0, observed)))
    is_exact = len(first.records) <= EXACT_UP_TO
    return beyond / len(gaps) if is_exact else (1 + beyond) / (1 + len(gaps))
