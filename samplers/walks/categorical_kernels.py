"""What the compiled choice among allowed events takes and gives (``sampling`` of the library).

It works on *nodes* (distinct prefixes) with a ragged list of allowed ids, and on the walks that
stand at each node: a node is gathered and summed once however many walks share it. All
end-of-sequence ids together are one event, END. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

END = -1
"""Chosen event: the end of the text, by any end id."""
NONE = -2
"""No event has positive mass: a dead end."""


class Known(NamedTuple):
    """The model's scores at N nodes.

    scores: float[M, V]. log_normalizer: float64[M]. rows: int64[N] row of each node.
    """

    scores: Any
    log_normalizer: NDArray[np.float64]
    rows: NDArray[np.int64]


class Lists(NamedTuple):
    """Allowed ids of S of the nodes, which share lists.

    which: int64[S] nodes. lists: int64[S] list of each. offsets: int64[L + 1] and ids: int32[...]:
    the L lists, each sorted.
    """

    which: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]


class Ends(NamedTuple):
    """The end ids: int64[...], and bool[V]."""

    ids: NDArray[np.int64]
    is_end: NDArray[np.bool_]


class Draws(NamedTuple):
    """W walks by node: int64[N + 1] starts in the order int64[W]; and their uniforms float64[W]."""

    walk_starts: NDArray[np.int64]
    walk_order: NDArray[np.int64]
    uniforms: NDArray[np.float64]


class Drawn(NamedTuple):
    """What was drawn for W walks at N nodes.

    tokens: int64[W] a token id, END or NONE. log_p: float64[W] log P of the event under the model,
    all end ids together. log_z: float64[N] log of the allowed mass, -inf at dead ends, NaN where
    the scores hold NaN. log_end: float64[N] log of the allowed end ids' mass. log_residual:
    float64[N] log of the allowed mass without the drawn tokens, a sum over the other ids; or
    empty, not asked for.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_residual: NDArray[np.float64]


class Best(NamedTuple):
    """The k best tokens of N nodes.

    tokens: int64[N, k] best first, ties by id, NONE where there are fewer. log_p: float64[N, k],
    -inf where there are fewer. log_end: float64[N] log of the allowed end ids' mass. log_z:
    float64[N].
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_z: NDArray[np.float64]
