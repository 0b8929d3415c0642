"""Mass of the model that satisfies the constraint, from a fixed number of candidates.

x = prod Z of a candidate, 0 where it found no end, has mean P(S). subtle: only a number of
candidates fixed in advance may be averaged; stopping at an acceptance biases the mean.

The mean goes wrong where most of the mass lies in texts that are hardly ever drawn: all x that were
seen are small and alike, so their spread says that all is well. What was visited says otherwise: a
certified bracket, in which P(S) lies whatever was drawn. ``estimate`` holds the one against the
other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import ROUNDING, Bracket
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.candidates import Candidates

LARGEST_ERROR = 1.0
"""Nats: beyond a relative error of 1 the error of a logarithm means nothing (delta method)."""
NARROW = 0.1
"""Nats: a bracket that tells P(S) so closely needs no estimate."""
DEVIATIONS = 1.96
"""Standard errors to both sides that make an interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mass by n candidates, held against its bracket.

    Attributes:
        log_mean: log of the (weighted) mean of x, unbiased before the logarithm; -inf for 0.
        sampling_error: Standard error of ``log_mean``, given what was seen; inf for one candidate.
        log_mass: The same, or the end of the bracket that it lies beyond; None for no mass.
        log_mass_se: Standard error of ``log_mass`` in nats; None where ``log_mass`` is.
        log_mass_reliable: Whether ``log_mass`` within 1.96 standard errors may be relied on.
        log_mass_unclipped: ``log_mean``, None for 0: what may be averaged over records, where
            ``log_mass``, which its bracket holds back on one side mostly, may not.
    """

    log_mean: float
    sampling_error: float
    log_mass: float | None
    log_mass_se: float | None
    log_mass_reliable: bool

    @property
    def log_mass_unclipped(self) -> float | None:
        """The log of the mean of x as it is; None for 0."""
        return self.log_mean if self.log_mean > -math.inf else None

    def fields(self) -> dict[str, object]:
        """Return what records show of it."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = ("log_mass", "log_mass_se", "log_mass_reliable", "log_mass_unclipped")
UNKNOWN: dict[str, object] = dict.fromkeys(FIELDS)
"""The fields of an estimate where weights are not known."""


def estimate(
    log_x: NDArray[np.float64], bracket: Bracket, weights: NDArray[np.float64] | None = None
) -> Estimate:
    """Estimate the mass from the candidates' weights, and say whether that can be relied on.

    With m the mean of x, its squared error has two parts, by the delta method relative to m:

    - the sampling error s^2 / n, given what was seen;
    - what was not seen: at most upper minus lower, and at most M / n, M the largest weight there
      can be. A kind of text that is drawn with probability q stays out of n draws with probability
      (1 - q)^n, so q is hardly more than a few 1 / n, and what it adds to the mean is at most q M.
      It enters as one more candidate of weight M would.

    Both the truth and what is returned lie in the bracket, so the error is at most the distance to
    its farther end, in nats: where the upper end takes the place of the mean, a relative error
    below 1 says nothing of how far below the truth may be. The estimate is relied on if its error
    is at most ``LARGEST_ERROR`` and its bracket does not contradict the mean, given its sampling
    error (``DEVIATIONS`` of it); or if the bracket is ``NARROW``. Nothing is assumed of the law but
    that candidates vary no more than was seen and not seen; that the interval of 1.96 errors covers
    is measured (tests, ``bench_estimates``).

    Args:
        log_x: float64[n] natural logs.
        bracket: Certified, of the same record.
        weights: float64[n] positive, fixed in advance: what each candidate counts for in the mean;
            None for the same.
    """
    n = len(log_x)
    peak = float(log_x.max(initial=-np.inf))
    log_mean, sampling = -math.inf, 0.0
    shares = np.full(n, 1 / max(n, 1)) if weights is None else weights / weights.sum()
    if peak > -np.inf:
        x = np.exp(log_x - peak)
        mean = float(x.mean() if weights is None else shares @ x)
        spread = float((shares**2) @ (x - mean) ** 2)
        log_mean = peak + math.log(mean)
        sampling = math.sqrt(spread * n / (n - 1)) / mean if n > 1 else math.inf
    log_mass = min(max(log_mean, bracket.lowest), bracket.highest)
    if log_mass == -math.inf:
        return Estimate(log_mean, sampling, None, None, bracket.log_upper == -math.inf)
    log_most = max(bracket.log_most, peak) + math.log(float(shares @ shares)) if n else 0.0
    width = _exp(bracket.log_unseen - log_mass)
    farthest = max(bracket.highest - log_mass, log_mass - bracket.lowest)
    if not bracket.width or farthest == math.inf:
        farthest = width
    # Of the mean, hence relative to it: where the bracket moved it, to where it was moved.
    moved = log_mean - log_mass
    seen = sampling * _exp(moved) if math.isfinite(sampling) else sampling
    error = min(math.hypot(seen, min(width, _exp(log_most - log_mass))), farthest)
    is_consistent = abs(moved) <= max(DEVIATIONS * sampling, ROUNDING)
    is_reliable = bracket.width <= NARROW or (is_consistent and error <= LARGEST_ERROR)
    return Estimate(log_mean, sampling, log_mass, error, is_reliable)


def distinct_ess(log_x: NDArray[np.float64], texts: NDArray[np.int64]) -> float | None:
    """Return the effective sample size of weighted texts, repeats of a text counted once.

    Kish's (sum W)^2 / sum W^2 (Survey Sampling, 1965) over the distinct texts, W the summed weight
    of each: 1 where all weight is on one text, however often it was drawn; the usual effective
    sample size where no text was drawn twice. A text is a sequence of tokens.

    Args:
        log_x: float64[n] natural logs of the weights.
        texts: int64[n] equal numbers where texts are equal; of weight 0 they do not matter.

    Returns:
        None where all weights are 0. Cost: a sort.
    """
    rows = np.flatnonzero(log_x > -np.inf)
    if not rows.size:
        return None
    _, which = np.unique(texts[rows], return_inverse=True)
    total = np.bincount(which.reshape(-1), np.exp(log_x[rows] - log_x[rows].max()))
    return float(total.sum() ** 2 / (total**2).sum())


def rising(n: int, before: int = 0) -> NDArray[np.float64]:
    """Return the weights of n candidates of a tree that learns: each counts for its number.

    The first ones know nothing and vary most: they count least. Numbers are fixed in advance, so
    the mean stays unbiased.

    Args:
        n: Candidates. before: Those the tree has learnt from already.
    """
    numbers: NDArray[np.float64] = np.arange(before + 1, before + n + 1, dtype=np.float64)
    return numbers


def length_mass_upper(
    log_x: NDArray[np.float64], log_truncated: NDArray[np.float64]
) -> float | None:
    """Estimate an upper bound of the share of the valid mass that lies beyond the length limit.

    What counts there is every prefix that fills the limit and may go on, with the probability of
    going on: no less than the mass of the valid texts that are longer, and maybe far more, since
    nobody looks whether such a prefix has a valid end.

    Args:
        log_x: float64[n] candidates' weights. log_truncated: float64[n] as in ``Candidates``.

    Returns:
        In [0, 1]; None where the candidates found neither.
    """
    inside, outside = (float(np.logaddexp.reduce(part)) for part in (log_x, log_truncated))
    both = float(np.logaddexp(inside, outside))
    return math.exp(outside - both) if both > -math.inf else None


class MassAccumulator:
    """Candidates' weights of every record, for its mass fields.

    Args:
        batch: The open requests.
        unbiased: Whether x has mean P(S), so that the mass can be estimated.
        log_most: No log x is above this, inf for no bound; None for log Z at the prompt, which
            that of masked candidates never is.
    """

    def __init__(self, batch: Batch, *, unbiased: bool, log_most: float | None = None) -> None:
        self._batch = batch
        self._unbiased = unbiased
        self._log_most = log_most
        self._weighed: list[tuple[NDArray[Any], ...]] = []

    def weigh(self, draws: NDArray[np.int64], candidates: Candidates) -> None:
        """Add candidates of a number fixed in advance.

        Args:
            draws: int64[n] rows of the batch's draws that they belong to.
            candidates: n of them; their tokens do not matter here.
        """
        owners = self._batch.draw_request[draws]
        self._weighed.append((owners, candidates.log_x, candidates.log_truncated, candidates.last))

    def fields(self, *, bounds: bool = True, lengths: bool = True) -> dict[int, dict[str, object]]:
        """Return the mass fields of each request: the estimate, its bracket, and what was cut off.

        Args:
            bounds: Whether the record's visits bound the mass; they do where masks led the walks.
            lengths: Whether it is known what the length limit cut off.
        """
        batch = self._batch
        columns = (np.concatenate(part) for part in zip(*self._weighed, strict=True))
        request, log_x, log_truncated, texts = columns
        fields: dict[int, dict[str, object]] = {}
        for number in np.unique(batch.draw_request).tolist():
            if batch.session_of[number] == UNCONSTRAINED:
                continue
            mine = request == number
            bracket = Bracket()
            if bounds:
                bracket = batch.tree.bounds(number, int(batch.roots[number]))
            if self._log_most is not None:
                bracket = replace(bracket, log_most=self._log_most)
            known = self._unbiased
            fields[number] = estimate(log_x[mine], bracket).fields() if known else dict(UNKNOWN)
            if bounds:
                fields[number] |= bracket.fields()
                is_told = known and lengths
                share = length_mass_upper(log_x[mine], log_truncated[mine]) if is_told else None
                fields[number]["length_mass_upper"] = share
            fields[number]["ess"] = distinct_ess(log_x[mine], texts[mine])
        return fields


def _exp(log: float) -> float:
    """Return exp, inf where it is too large for a number."""
    return math.exp(log) if log < 700 else math.inf
