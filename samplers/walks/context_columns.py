"""Columns by context: arrays that grow with the ids of a model's prefix tree."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def with_room(column: NDArray[_Scalar], nodes: NDArray[np.int64], fill: float) -> NDArray[_Scalar]:
    """Return ``column`` ([C, ...]) with a row for each of ``nodes``, new rows holding ``fill``."""
    highest = int(nodes.max(initial=0))
    if highest < len(column):
        return column
    grown = np.full((2 * highest + 2, *column.shape[1:]), fill, column.dtype)
    grown[: len(column)] = column
    return grown
