"""Pairs of int64 in the memory of kernels, sorted."""

from __future__ import annotations

from cdec.core.grammars.engine.pointers import Pointer
from cdec.core.kernels import inner

__all__ = ["sort_pairs"]


@inner
def sort_pairs(pairs: Pointer, n: int) -> None:
    """Sort n pairs of int64 in place (Shell's method: no recursion, no memory)."""
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            a, b, at = pairs[2 * i], pairs[2 * i + 1], i - gap
            while at >= 0 and (pairs[2 * at] > a or (pairs[2 * at] == a and pairs[2 * at + 1] > b)):
                pairs[2 * (at + gap)], pairs[2 * (at + gap) + 1] = pairs[2 * at], pairs[2 * at + 1]
                at -= gap
            pairs[2 * (at + gap)], pairs[2 * (at + gap) + 1] = a, b
        gap //= 3
