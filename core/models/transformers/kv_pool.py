"""The key-value pool: one slot a token in tensors of all layers, and the cache of one pass.

A row of a forward pass is a list of slot numbers, so forks, removal of finished rows, rollback and
prompts shared between draws are index arithmetic. Imports torch: import it lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.models.transformers.row_buffers import RowBuffers

EMPTY_SLOT = 0
"""Slot of padding columns: never written, so it stays zero and cannot carry a NaN into a row."""

_FIRST_CAPACITY = 512


class KeyValuePool:
    """Keys and values [slots, heads, head size] of every layer, grown by doubling up to a budget.

    Args:
        budget: Bytes of keys and values; passed only where one pass needs more.

    Attributes:
        slot_bytes: Bytes of one token's keys and values; 0 before the first pass.
        used: Slots that are taken.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._capacity = _FIRST_CAPACITY
        self._free = np.arange(_FIRST_CAPACITY - 1, EMPTY_SLOT, -1, dtype=np.int64)
        self._n_free = _FIRST_CAPACITY - 1
        self.slot_bytes = 0

    @property
    def used(self) -> int:
        """Slots that are taken."""
        return self._capacity - 1 - self._n_free

    def shortage(self, n: int) -> int:
        """Return how many slots must be given back before ``n`` fit the budget; 0 if they fit."""
        if not self.slot_bytes:
            return 0
        return max(0, self.used + n - self._budget // self.slot_bytes)

    def allocate(self, n: int) -> NDArray[np.int64]:
        """Take ``n`` slots, growing the tensors where too few are free."""
        if n > self._n_free:
            self._grow(self._larger(self._capacity + n - self._n_free))
        self._n_free -= n
        return self._free[self._n_free : self._n_free + n][::-1].copy()

    def release(self, slots: NDArray[np.int64]) -> None:
        """Give slots back."""
        self._free[self._n_free : self._n_free + len(slots)] = slots
        self._n_free += len(slots)

    def copy(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Copy the keys and values of slots int64[n] into others."""
        for held in self._layers.values():
            for part in held:
                indices = (torch.from_numpy(slots).to(part.device) for slots in (targets, sources))
                target, source = indices
                part.index_copy_(0, target, part.index_select(0, source))

    def layer(self, index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return a layer's tensors, made on first use like ``keys`` and ``values``.

        Args:
            index: The layer.
            keys: [B, heads, Q, head size] of this pass.
            values: [B, heads, Q, value head size] of this pass.
        """
        held = self._layers.get(index)
        if held is None:
            held = (self._make(keys), self._make(values))
            self._layers[index] = held
            self.slot_bytes += sum(part[0].nbytes for part in held)
        return held

    def _larger(self, needed: int) -> int:
        """Return the next capacity, at least ``needed``: doubled, but within the budget."""
        doubled = 2 * self._capacity
        if not self.slot_bytes:
            return max(needed, doubled)
        affordable = self._budget // self.slot_bytes + 1
        if needed <= affordable:
            return max(needed, min(doubled, affordable))
        # A pass needs more than the budget, and so may the next ones: do not copy at each.
        return needed + needed // 8

    def _make(self, states: Tensor) -> Tensor:
        return states.new_zeros((self._capacity, states.shape[1], states.shape[3]))

    def _grow(self, capacity: int) -> None:
        added = capacity - self._capacity
        free = np.empty(capacity, np.int64)
        free[:added] = np.arange(capacity - 1, self._capacity - 1, -1)
        free[added : added + self._n_free] = self._free[: self._n_free]
        self._free, self._n_free = free, self._n_free + added
        for index, held in self._layers.items():
            grown = []
            for part in held:
                larger = part.new_zeros((capacity, *part.shape[1:]))
                larger[: self._capacity] = part
                grown.append(larger)
            self._layers[index] = (grown[0], grown[1])
        self._capacity = capacity


@dataclass(frozen=True, slots=True)
class PassSlots:
    """Where one forward pass reads and writes.

    Attributes:
        rows: int64[B, K] slots of each row, right-aligned, EMPTY_SLOT in padding.
        new_slots: int64[N] slots that the pass writes.
        new_columns: int64[N] where their keys stand among the B x Q flattened query columns;
            None if all of them are new.
        queries: Q.
    """

    rows: Tensor
    new_slots: Tensor
    new_columns: Tensor | None
    queries: int

    def to(self, device: torch.device) -> PassSlots:
        """Return the same indices on another device."""
        columns = self.new_columns
        return PassSlots(
            self.rows.to(device),
            self.new_slots.to(device),
            None if columns is None else columns.to(device),
            self.queries,
        )


class PassCache:
    """The cache of one forward pass over a pool.

    Args:
        pool: Of the model.
        slots: Where the pass reads and writes.
        buffers: Rows of the last pass.

    Attributes:
        past: Columns of the rows before this pass's.
        touched: How often a layer wrote and read.
    """

    def __init__(self, pool: KeyValuePool, slots: PassSlots, buffers: RowBuffers) -> None:
        self._buffers = buffers
        self.past = slots.rows.shape[1] - slots.queries
        self.touched = 0
        self._pool = pool
        self._slots = {slots.rows.device: slots}
        self._home = slots
        # Without padding and without past, the new keys are the rows.
        self._is_whole = self.past == 0 and slots.new_columns is None

    def write_and_read(
        self, index: int, key_states: Tensor, value_states: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Scatter the new columns into the pool and gather the rows [B, heads, K, size]."""
        self.touched += 1
        slots = self._slots.get(key_states.device)
        if slots is None:
            slots = self._slots[key_states.device] = self._home.to(key_states.device)
        read = []
        tensors = self._pool.layer(index, key_states, value_states)
        for part, states in enumerate((key_states, value_states)):
            batch, heads, queries, size = states.shape
            flat = states.transpose(1, 2).reshape(batch * queries, heads, size)
            if slots.new_columns is not None:
                flat = flat.index_select(0, slots.new_columns)
            tensors[part].index_copy_(0, slots.new_slots, flat)
            if self._is_whole:
                read.append(states)
            else:
                gather = partial(_gather, tensors[part], slots.rows)
                read.append(self._buffers.read(index, part, states, gather))
        return read[0], read[1]


def _gather(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return the rows [B, heads, K, size] of slots int64[B, K], a strided view of a copy."""
    gathered = tensor.index_select(0, rows.view(-1))
    return gathered.view(*rows.shape, *tensor.shape[1:]).transpose(1, 2)
