"""Columns of the prefix tree, as the compiled library visits prefixes and carries bounds upwards.

A node is a model context; every column is indexed by it. Children are a list: ``first_child`` of
the parent, then ``next_sibling``; -1 ends it. Masses are natural logs, sums are of positive terms
only: nothing is ever computed as 1 minus a mass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NIL = -1
"""No node, no vector."""
VISITED, EVALUATED, IN_RUN, EXACT, TERMINAL, MARK = 1, 2, 4, 8, 16, 32
"""Flags of a node. EXACT: its mass leaves the visited children out. TERMINAL: a text ended here.
MARK is scratch."""


class Nodes(NamedTuple):
    """Columns of a tree by context: record, owning draw, log P of its token, masses, links."""

    request: NDArray[np.int32]
    draw: NDArray[np.int32]
    edge: NDArray[np.float64]
    mass: NDArray[np.float64]
    bound: NDArray[np.float64]
    flags: NDArray[np.uint8]
    first_child: NDArray[np.int32]
    next_sibling: NDArray[np.int32]


class Arrivals(NamedTuple):
    """The n prefixes of a visit: contexts, those before (-1 at the root), and what is known."""

    context: NDArray[np.int64]
    parent: NDArray[np.int64]
    request: NDArray[np.int64]
    draw: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    flags: NDArray[np.uint8]
