"""Distance from Q against calls of the model: what runs of a method have drawn at equal cost.

A run is a sequence of draws, each with what it cost. After a number of calls a run has its first n
draws, n the same for all runs: the most that take no more calls on average. (Each run stopped by
its own calls would count short texts too often.) The law of these draws, weighted where they have
weights, is held against Q.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.integrations.findings.worlds import Row

_REPEATS = 2_000
_SEED = 2506


@dataclass(frozen=True)
class Drawn:
    """A run: n draws in their order.

    Attributes:
        rows: Texts; None where none came out.
        log_weights: float64[n] natural logs; 0 where draws count as they are.
        calls: float64[n] evaluations of the model along all paths of a draw, nothing cached.
    """

    rows: Sequence[Row | None]
    log_weights: NDArray[np.float64]
    calls: NDArray[np.float64]


@dataclass(frozen=True)
class Distances:
    """Distances of a method's draws from Q at M numbers of calls; NaN where a run has no text.

    Attributes:
        draws: int64[M] of each run.
        kl: float64[M] mean over runs of KL(draws || Q) in nats. kl_error: its standard error.
        tv: float64[M] likewise of the total variation. tv_error: its standard error.
    """

    draws: NDArray[np.int64]
    kl: NDArray[np.float64]
    kl_error: NDArray[np.float64]
    tv: NDArray[np.float64]
    tv_error: NDArray[np.float64]


def distances(
    runs: Sequence[Drawn], log_q: Mapping[Row, float], calls: Sequence[float]
) -> Distances:
    """Return how far R runs of equally many draws are from Q after some numbers of calls.

    Args:
        runs: R of them. log_q: Log of Q of every text that was drawn.
        calls: M numbers.
    """
    spent = np.cumsum([run.calls for run in runs], axis=1).mean(axis=0)
    draws = np.searchsorted(spent, np.asarray(calls, float), side="right")
    found = np.array([[_distance(run, int(n), log_q) for n in draws] for run in runs])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(runs))
    return Distances(draws, means[:, 0], errors[:, 0], means[:, 1], errors[:, 1])


def _distance(run: Drawn, n: int, log_q: Mapping[Row, float]) -> tuple[float, float]:
    """Return KL(draws || Q) and the total variation of the first n draws."""
    weights: dict[Row, float] = {}
    kept = [i for i in range(n) if run.rows[i] is not None and run.log_weights[i] > -math.inf]
    if not kept:
        return math.nan, math.nan
    most = max(run.log_weights[i] for i in kept)
    for i in kept:
        row = run.rows[i]
        assert row is not None
        weights[row] = weights.get(row, 0.0) + math.exp(run.log_weights[i] - most)
    total = sum(weights.values())
    law = {row: weight / total for row, weight in weights.items() if weight > 0}
    kl = sum(p * (math.log(p) - log_q[row]) for row, p in law.items())
    return kl, sum(max(0.0, p - math.exp(log_q[row])) for row, p in law.items())


def sampling_divergence(
    law: Mapping[Row, float], q: Mapping[Row, float], draws: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of KL(n independent draws of a law || Q) by n.

    The mean is KL(law || Q) + (texts - 1) / 2n for large n; both are simulated, float64[M] nats.
    """
    rng = np.random.default_rng(_SEED)
    rows = [row for row, value in law.items() if value > 0]
    p, goal = (np.array([each[row] for row in rows]) for each in (law, q))
    found = np.full((2, len(draws)), np.nan)
    for i, n in enumerate(draws):
        if n:
            shares = rng.multinomial(n, p / p.sum(), size=_REPEATS) / n
            kl = (shares * np.log(np.where(shares > 0, shares / goal, 1.0))).sum(axis=1)
            found[:, i] = kl.mean(), kl.std()
    return found[0], found[1]
