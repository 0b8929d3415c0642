"""Walks down a prefix tree and vectors of allowed masses, as the compiled library takes them.

Nodes and their columns are those of ``tree.kernels``. A vector holds the mass of each allowed id of
a node times exp(-shift), zero where the id leads to a visited child, and the sums of its blocks.
The shift is such that their sum is above 1e-250, if anything is left: once the likeliest ids are
children, what is left may be e^-2000 of them and all the valid mass there is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Entries whose sum is kept, so that a draw looks into one block only."""
MISSING, ENDED, LEFT, DRY, STUCK = 0, 1, 2, 3, 4
"""How a descent pauses or ends: no vector here; the end event or a terminal child; an unvisited
token; no uniforms left in the block; no mass."""


class Slots(NamedTuple):
    """Where the vector of each slot lies in the pool, int64, and its shift, float64."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    first_block: NDArray[np.int64]
    shift: NDArray[np.float64]


class Pool(NamedTuple):
    """The vectors one after the other: allowed ids (int32), masses and sums of blocks (float64)."""

    ids: NDArray[np.int32]
    masses: NDArray[np.float64]
    blocks: NDArray[np.float64]


class Asked(NamedTuple):
    """Nodes whose vectors are to be stored, n of them, and what the model and the mask say there.

    nodes, rows, lists: int64[n] contexts, their rows in the scores, and their lists. scores:
    float[M, V]. log_normalizer: float64[M]. offsets: int64[L + 1] and allowed: int32[...]: the
    lists, each sorted.
    """

    nodes: NDArray[np.int64]
    scores: Any
    log_normalizer: NDArray[np.float64]
    rows: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    allowed: NDArray[np.int32]


class Descending(NamedTuple):
    """Columns of W walks: node, tokens drawn and log P so far; how they leave the tree, and status.

    node, depth, token: int64[W]. log_p, log_edge: float64[W]. status: uint8[W], MISSING, ENDED,
    LEFT, DRY or STUCK.
    """

    node: NDArray[np.int64]
    depth: NDArray[np.int64]
    log_p: NDArray[np.float64]
    token: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    status: NDArray[np.uint8]
