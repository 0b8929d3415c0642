"""Checks of the arrays that sessions on the CPU take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError


def integers(values: Any, dimensions: int, name: str) -> NDArray[np.int64]:
    """Return an argument as a contiguous writable int64 array, the kernels' one type.

    Raises:
        UsageError: No integers, or another number of dimensions.
    """
    array = np.asarray(values)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iu"):
        raise UsageError(
            f"{name} must be integers in {dimensions} dimension(s), not "
            f"{array.dtype}{list(array.shape)}"
        )
    return np.require(array, np.int64, ["C", "W"])


def require_rows(states: int, others: int, name: str) -> None:
    """Check that there are as many of something as states.

    Raises:
        UsageError: There are not.
    """
    if states != others:
        raise UsageError(f"{states} states and {others} {name}: expected as many of both")
