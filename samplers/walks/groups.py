"""Groups of walks that stand at one prefix, or at one state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library


class Groups(NamedTuple):
    """W walks by pairs of numbers, (request, context) say: N groups.

    Attributes:
        order: int64[W], the walks group by group. starts: int64[N], where each group begins in it.
        of: int64[W] group of each walk.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    of: NDArray[np.int64]

    @property
    def first(self) -> NDArray[np.int64]:
        """The first walk of each group, int64[N]."""
        return self.order[self.starts]


def distinct(
    context: NDArray[np.int64], request: NDArray[np.int64], draw: NDArray[np.int64] | None = None
) -> Groups | None:
    """Group walks by (request, context).

    Args:
        context, request: int64[W]. draw: int64[W], orders the walks of a group; else by position.

    Returns:
        None where every walk is the next group of its own: each walk and its group have one number.
    """
    found = Groups(*(np.empty(len(context), np.int64) for _ in range(3)))
    count = library.contexts_group(context, request, request if draw is None else draw, *found)
    return None if count < 0 else found._replace(starts=found.starts[:count])
