"""Keys and values of the rows of the last pass, laid out for attention, while the rows stay.

Gathering whole rows from the pool costs more than a step's attention. As long as each pass goes on
with exactly the rows of the last one, the gathered tensors are kept with room to the right, and a
step writes one column. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_ROOM = 32
"""Columns that are left free for the tokens to come, at least."""


class RowBuffers:
    """Tensors [B, heads, capacity, head size] of every layer for an unchanging batch of rows.

    Args:
        budget: Bytes; larger batches are gathered anew in each pass.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._layers: dict[tuple[int, int], Tensor] = {}
        self._heads: NDArray[np.int64] | None = None
        self._width = 0
        self._capacity = 0
        self._is_kept = False

    def clear(self) -> None:
        """Forget the rows: a context id may come to mean another prefix."""
        self._layers.clear()
        self._heads = None

    def begin(
        self, parents: NDArray[np.int64] | None, heads: NDArray[np.int64], width: int, size: int
    ) -> None:
        """Start a pass.

        Args:
            parents: int64[B] contexts that the rows continue by one token; None for other passes.
            heads: int64[B] last contexts of the rows.
            width: Columns of the rows, the new one included.
            size: Bytes of one token's keys and values.
        """
        goes_on = (
            parents is not None
            and self._heads is not None
            and self._width == width - 1
            and np.array_equal(parents, self._heads)
        )
        if not goes_on or width > self._capacity:
            self._layers.clear()
            self._capacity = width + max(_ROOM, width // 4)
        # The first pass of a batch of rows is not kept: its rows may well not come again.
        self._is_kept = goes_on and len(heads) * self._capacity * size <= self._budget
        self._heads, self._width = heads, width

    def read(self, layer: int, part: int, states: Tensor, gather: Callable[[], Tensor]) -> Tensor:
        """Return a layer's rows with this pass's column.

        Args:
            layer: The layer.
            part: 0 for keys, 1 for values.
            states: [B, heads, Q, size] of this pass.
            gather: Gives the whole rows [B, heads, K, size] from the pool.
        """
        if not self._is_kept:
            return gather()
        held = self._layers.get((layer, part))
        if held is None:
            batch, heads, _, size = states.shape
            held = states.new_empty((batch, heads, self._capacity, size))
            held[:, :, : self._width] = gather()
            self._layers[layer, part] = held
        else:
            held[:, :, self._width - 1 : self._width] = states
        return held[:, :, : self._width]
