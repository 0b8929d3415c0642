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


def require_mask(mask: Any, n: int, words: int) -> tuple[int, int]:
    """Check that a mask to be filled on the host is numpy int32[n, words]; return that shape.

    Raises:
        UsageError: It is not.
    """
    shape = (n, words)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.int32 or mask.shape != shape:
        found = f"{getattr(mask, 'dtype', type(mask).__name__)}{list(np.shape(mask))}"
        raise UsageError(
            f"the mask of {n} states must be numpy int32{list(shape)}, not {found}",
            hint="Use allocate_mask(n, vocabulary.width).",
        )
    return shape


def require_tensor_mask(mask: Any, n: int, words: int) -> tuple[int, int]:
    """Check that a mask to be filled on a device is a tensor int32[n, words]; return that shape.

    Raises:
        UsageError: It is not.
    """
    import torch

    shape = (n, words)
    if mask.dtype != torch.int32 or tuple(mask.shape) != shape:
        raise UsageError(
            f"the mask of {n} states must be int32{list(shape)}, not "
            f"{mask.dtype}{list(mask.shape)}",
            hint="Use allocate_mask(n, vocabulary.width, session.device).",
        )
    return shape
