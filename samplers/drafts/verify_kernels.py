"""Verification of drafted events, as the compiled library takes and judges them.

The law claimed for a drafted event is the law it was drawn from: the draft's scores over the same
allowed ids, renormalised; the law of the target is masked and renormalised alike. All end ids are
one event, the last of each list. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PLAIN, ONE_HOT, DRAWN = 0, 1, 2
"""What stands against the target: nothing, so its own law is drawn from; a sure guess; a draw."""

SPENT = 1.0 - 1e-9
"""Share of a limit from which it counts as spent: ``solve`` leaves a little for rounding."""


class Law(NamedTuple):
    """Scores of a model: float[M, V] rows, and their float64[M] log normalisers, as in ``Step``."""

    scores: Any
    log_normalizer: NDArray[np.float64]


class AllowedLists(NamedTuple):
    """Sorted lists of allowed ids, int64[L + 1] and int32[...]; end ids, int64[...] and bool[V]."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    end_ids: NDArray[np.int64]
    is_end: NDArray[np.bool_]


class TestedNodes(NamedTuple):
    """The S nodes at which something was proposed, and the T walks that are tested there.

    rows: int64[S] of the target. list_of: int64[S]. log_end: float64[S] of the target.
    starts: int64[S + 1] and walks: int64[T]: the tested walks by node.
    """

    rows: NDArray[np.int64]
    list_of: NDArray[np.int64]
    log_end: NDArray[np.float64]
    starts: NDArray[np.int64]
    walks: NDArray[np.int64]


class Proposed(NamedTuple):
    """The proposals to W walks: int64[W] rows of the draft's law, -1 for a one-hot law; events."""

    laws: NDArray[np.int64]
    events: NDArray[np.int64]


class Numbers(NamedTuple):
    """Uniforms of W walks, float64[W]: of the tests and of draws; limits in nats, 0 is lossless."""

    tests: NDArray[np.float64]
    picks: NDArray[np.float64]
    limits: NDArray[np.float64]


class Chosen(NamedTuple):
    """The events of W walks: int64[W] tokens and float64[W] log P."""

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]


class Judged(NamedTuple):
    """What became of the proposals to W walks.

    accepted: bool[W]. log_ratio: float64[W] log of target over aim at the event. spent: float64[W]
    min(limit, KL(target || draft)). charged: float64[W] KL(target || aim).
    """

    accepted: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]
    spent: NDArray[np.float64]
    charged: NDArray[np.float64]
