"""Laws of masked decoding, DISC and Q over the members of a set that a real model scores.

What scoring says of each member is enough: the probability that masked decoding draws it, and x,
the product of the step masses along it (DISC, arXiv 2504.09135, Algorithm 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Law = NDArray[np.float64]
"""float64[n], the probability of each member."""
_STEP = 0.25
_TAIL = 40.0


@dataclass(frozen=True)
class MemberLaws:
    """Laws of the n members of a set, in their order.

    Attributes:
        log_masked: float64[n], log of the probability that masked decoding draws each.
        log_x: float64[n], log of the product of step masses along each, the end's among them.
    """

    log_masked: NDArray[np.float64]
    log_x: NDArray[np.float64]

    @property
    def log_p(self) -> NDArray[np.float64]:
        """The model's log P of each member."""
        return self.log_masked + self.log_x

    @cached_property
    def log_mass(self) -> float:
        """Log of P(S)."""
        return float(np.logaddexp.reduce(self.log_p))

    @property
    def masked(self) -> Law:
        """The law of masked decoding."""
        return np.exp(self.log_masked)

    @property
    def target(self) -> Law:
        """Q = P(. | S)."""
        return np.exp(self.log_p - self.log_mass)

    def disc(self, tries: int) -> Law:
        """Return the law of DISC with K = ``tries``: acceptance, then importance resampling."""
        log_refused = tries * math.log1p(-min(math.exp(self.log_mass), 1.0 - 1e-15))
        refused = resampled(self.log_masked, self.log_x, tries)
        return -math.expm1(log_refused) * self.target + math.exp(log_refused) * refused

    def divergence(self, law: Law) -> float:
        """Return KL(Q || law) in nats, inf where the law lacks a member that Q has."""
        q = self.target
        has = q > 0
        with np.errstate(divide="ignore"):
            return float(np.sum(q[has] * (np.log(q[has]) - np.log(law[has]))))

    def distance(self, law: Law) -> float:
        """Return the total variation of a law from Q."""
        return float(np.abs(law - self.target).sum() / 2)


def resampled(log_law: NDArray[np.float64], log_x: NDArray[np.float64], draws: int) -> Law:
    """Return the law of one of ``draws`` candidates, taken in proportion to its x.

    Member i is taken with probability ``draws * p_i x_i E[1 / (x_i + W)]``, W the sum of the x of
    the other candidates, and ``1 / s`` is the integral of ``exp(-t s)`` over t > 0: so E is that
    of ``exp(-t x_i) * phi(t) ** (draws - 1)``, phi(t) the mean of ``exp(-t x)``. By the trapezoidal
    rule over log t, whose error falls exponentially: below 1e-12 with this step.

    Args:
        log_law: float64[n], of a candidate. log_x: float64[n], of each member.
        draws: At least 1.

    Returns:
        float64[n]. Cost: O(n) for each of some 400 points.
    """
    # Only ratios of x count.
    log_x = log_x - log_x.max()
    first, last = -_TAIL, _TAIL / 8 - float(log_x.min())
    law = np.zeros(len(log_x))
    for u in np.arange(first, last, _STEP):
        # subtle: t x is cut where exp(-t x) is 0 by far, before it overflows.
        log_tx = u + log_x
        tx = np.exp(np.minimum(log_tx, 20.0))
        phi = float(np.sum(np.exp(log_law - tx)))
        law += np.exp(log_law + log_tx - tx) * phi ** (draws - 1)
    return law * draws * _STEP


def standard_errors(hits: Sequence[int], chances: Sequence[float], draws: int) -> float:
    """Return how far counts are from their law, in standard deviations of their sum.

    Args:
        hits: Of each record, among its draws.
        chances: Probability of a hit in each draw of the record.
        draws: Of each record, independent of each other.
    """
    chance = np.array(chances)
    variance = draws * float(np.sum(chance * (1 - chance)))
    gap = abs(sum(hits) - draws * float(chance.sum()))
    return gap / math.sqrt(variance) if variance > 0 else gap
