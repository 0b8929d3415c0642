"""Pieces of flat arrays (rows of tokens, texts): their offsets, and copies of picked ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library

_GATHER = {"u1": library.gather_bytes, "i4": library.gather_i32, "i8": library.gather_i64}
"""By element type."""


def offsets_of(lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return offsets, int64[n + 1], of pieces of these lengths; negative lengths count as 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0), dtype=np.int64, out=offsets[1:])
    return offsets


def picked_offsets(offsets: NDArray[np.int64], picked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets, int64[n + 1], that the picked pieces have one after another."""
    result = np.empty(len(picked) + 1, np.int64)
    library.gather_offsets(offsets, picked, result)
    return result


def gather(
    values: NDArray[Any],
    offsets: NDArray[np.int64],
    picked: NDArray[np.int64],
    result: NDArray[Any],
) -> None:
    """Copy the picked pieces of a flat array one after another into ``result``."""
    _GATHER[values.dtype.str[1:]](values, offsets, picked, result)


def gathered(
    values: NDArray[Any], offsets: NDArray[np.int64], picked: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the picked pieces of a flat array one after another, and their offsets."""
    new_offsets = picked_offsets(offsets, picked)
    result = np.empty(new_offsets[-1], values.dtype)
    gather(values, offsets, picked, result)
    return result, new_offsets
