"""The key-value pool: one slot a token in tensors of all layers, and rows laid out for a pass.

A row of a forward pass is a list of slot numbers, so forks, rollback and prompts shared between
draws are index arithmetic: each slot knows the one before it. ``PoolPass`` is what a module sees in
a pass that scatters into the pool and gathers from it, which costs more than a step's attention.
``RowBuffers`` is what it sees in a pass that only appends to rows of the last one.
Imports torch: import it lazily.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

EMPTY_SLOT = 0
"""Slot of padding columns: never written, so it stays zero and cannot carry a NaN into a row."""

_FIRST_CAPACITY = 512

Layer: TypeAlias = tuple[Tensor, Tensor]
"""Keys and values of one layer."""


class KeyValuePool:
    """Keys and values [slots, heads, head size] of every layer, grown by doubling up to a budget.

    Args:
        budget: Bytes of keys and values; passed only where one pass needs more.

    Attributes:
        slot_bytes: Bytes of one token's keys and values; 0 before the first pass.
        used: Slots that are taken.
        above: int32[capacity] slot of the token before each one's; EMPTY_SLOT before the first.
            subtle: growing replaces it.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._layers: dict[int, Layer] = {}
        self._capacity = _FIRST_CAPACITY
        self.above = np.full(_FIRST_CAPACITY, EMPTY_SLOT, np.int32)
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

    def chain(self, slots: NDArray[np.int64], above: int) -> None:
        """Note that slots int64[n] follow each other, the first of them ``above``."""
        self.above[slots[0]] = above
        self.above[slots[1:]] = slots[:-1]

    def copy(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Copy the keys and values of slots int64[n] into others."""
        for index in self._layers:
            for part in self._whole(index):
                indices = (torch.from_numpy(slots).to(part.device) for slots in (targets, sources))
                target, source = indices
                part.index_copy_(0, target, part.index_select(0, source))

    def layer(self, index: int, keys: Tensor, values: Tensor) -> Layer:
        """Return a layer's tensors, made on first use like ``keys`` and ``values``.

        Args:
            index: The layer.
            keys: [B, heads, Q, head size] of this pass.
            values: [B, heads, Q, value head size] of this pass.
        """
        if index not in self._layers:
            held = (self._make(keys), self._make(values))
            self._layers[index] = held
            self.slot_bytes += sum(part[0].nbytes for part in held)
        return self._whole(index)

    def kinds(self) -> list[list[tuple[int, int]]]:
        """Return (layer, 0 for keys or 1 for values) by shape, dtype and device."""
        kinds: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        for index, layer in self._layers.items():
            for number, part in enumerate(layer):
                kind = (*part.shape[1:], part.dtype, part.device)
                kinds.setdefault(kind, []).append((index, number))
        return list(kinds.values())

    def part(self, index: int, number: int) -> Tensor:
        """Return the keys (0) or values (1) of a layer that there is, [slots, heads, size]."""
        return self._whole(index)[number]

    def _whole(self, index: int) -> Layer:
        """Return a layer's tensors with all slots: they grow when they are next used."""
        keys, values = self._layers[index]
        if len(keys) < self._capacity:
            keys, values = self._larger_copy(keys), self._larger_copy(values)
            self._layers[index] = keys, values
        return keys, values

    def _larger_copy(self, part: Tensor) -> Tensor:
        larger = part.new_zeros((self._capacity, *part.shape[1:]))
        larger[: len(part)] = part
        return larger

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
        above = np.full(capacity, EMPTY_SLOT, np.int32)
        above[: self._capacity] = self.above
        self.above, self._capacity = above, capacity


@dataclass(frozen=True, slots=True)
class PassSlots:
    """Slots that one forward pass reads and writes.

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


class PassCache(ABC):
    """The cache of one forward pass.

    Attributes:
        past: Columns of the rows before this pass's.
        touched: How often a layer wrote and read.
    """

    past: int = 0
    touched: int = 0

    @abstractmethod
    def write_and_read(
        self, index: int, key_states: Tensor, value_states: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write new columns [B, heads, Q, size] of a layer; return whole rows, K columns."""


class PoolPass(PassCache):
    """The cache of a pass that scatters into a pool and gathers from it.

    Args:
        pool: Of the model.
        slots: Where the pass reads and writes.
    """

    def __init__(self, pool: KeyValuePool, slots: PassSlots) -> None:
        self.past = slots.rows.shape[1] - slots.queries
        self._pool = pool
        self._slots = {slots.rows.device: slots}
        self._home = slots
        # Without padding and without past, the new keys are the rows.
        self._is_whole = self.past == 0 and slots.new_columns is None

    def write_and_read(
        self, index: int, key_states: Tensor, value_states: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As ``PassCache``; the rows are right-aligned, zeros in padding that was never written."""
        self.touched += 1
        slots = self._slots.get(key_states.device)
        if slots is None:
            slots = self._slots[key_states.device] = self._home.to(key_states.device)
        read = []
        tensors = self._pool.layer(index, key_states, value_states)
        for part, states in zip(tensors, (key_states, value_states), strict=True):
            flat = states.transpose(1, 2).flatten(0, 1)
            if slots.new_columns is not None:
                flat = flat.index_select(0, slots.new_columns)
            part.index_copy_(0, slots.new_slots, flat)
            read.append(states if self._is_whole else _gather(part, slots.rows))
        return read[0], read[1]


def _gather(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return the rows [B, heads, K, size] of slots int64[B, K], a strided view of a copy."""
    gathered = tensor.index_select(0, rows.view(-1))
    return gathered.view(*rows.shape, *tensor.shape[1:]).transpose(1, 2)


_ROOM = 32
"""Columns that are left free for the tokens to come, at least."""


class RowBuffers(PassCache):
    """Keys and values of the last pass's rows, laid out for attention, right-aligned.

    A pass that appends to these rows writes its columns here and nowhere else. ``settle`` writes
    them to the pool, before anything else is read from there. Rows that leave are parked behind
    the others, whose last ones take their places: they may never be asked for again, and then are
    written nowhere. Layers of one shape, dtype and device lie in one tensor
    [parts, M, heads, capacity, size], whose first B rows are those of a pass; or each in a tensor
    of its own, as compiled steps want them, ``static``.

    Args:
        pool: Holds what is not here.
        budget: Bytes; rows that need more are gathered anew in each pass.
        is_ragged: Whether rows of one pass may differ in length.
        device: Where masks lie.

    Attributes:
        lengths: int64[B] tokens of each row.
        is_static: Whether steps are compiled; set before the first pass.
    """

    def __init__(
        self, pool: KeyValuePool, budget: int, *, is_ragged: bool, device: torch.device
    ) -> None:
        self._pool = pool
        self._budget = budget
        self._is_ragged = is_ragged
        self._device = device
        self.is_static = False
        self.clear()

    def clear(self) -> None:
        """Forget the rows: what was not settled is lost."""
        self.begin(np.empty(0, np.int64), np.empty((0, 0), np.int64), np.empty(0, np.int64))

    def begin(
        self, heads: NDArray[np.int64], table: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """Note the rows of a pass over the pool; their keys and values come when they are needed.

        Args:
            heads: int64[B] last contexts of the rows.
            table: int64[B, K] slots, right-aligned.
            lengths: int64[B] tokens of the rows.
        """
        self._heads, self._table, self.lengths = heads, table, lengths
        self._parked = _Parked(heads[:0], table[:0], np.empty(0, np.int64))
        self.past = self._settled = self._capacity = table.shape[1]
        self._kinds: list[list[tuple[int, int]]] = []
        self._buffers: list[Tensor] = []
        self._mask: Tensor | None = None
        self._bias: Tensor | None = None
        self._layers: list[Layer] = []
        self._is_padded = bool((lengths < self.past).any())

    def arranged(self, parents: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return an order of int64[n] parents in which most rows stay where they are, int64[n].

        None where their own is as good, or these are not contexts that rows end with, each once.
        """
        count = len(parents)
        if count > len(self._heads) or not count or np.array_equal(parents, self._heads):
            return None
        rows = self._places(parents)
        if not len(rows) or len(np.unique(rows)) < count:
            return None
        order = np.full(count, -1)
        stays = rows < count
        order[rows[stays]] = np.flatnonzero(stays)
        order[order < 0] = np.flatnonzero(~stays)
        return order

    def take(self, parents: NDArray[np.int64], queries: int) -> bool:
        """Make the rows those of ``parents``, with room for more columns.

        Args:
            parents: int64[n] contexts, in the order that the rows shall have.
            queries: Columns to come.

        Returns:
            Whether these are contexts that rows end with; if not, nothing has changed.
        """
        rows = None if np.array_equal(parents, self._heads) else self._places(parents)
        if rows is not None and not len(rows):
            return False
        capacity = self._capacity
        if self.past + queries > capacity:
            capacity = self.past + max(_ROOM, self.past, queries)
        if len(parents) * capacity * self._pool.slot_bytes > self._budget:
            return False
        if rows is not None:
            if not self._is_ragged and len(np.unique(self.lengths[rows])) > 1:
                return False
        elif self._is_padded and not self._is_ragged:
            return False
        if rows is not None and capacity == self._capacity and self._park(rows):
            return True
        if rows is not None or capacity != self._capacity:
            self._move(rows, capacity)
        return True

    def forget(self, contexts: NDArray[np.int64]) -> None:
        """Drop the rows that end with one of int64[n] contexts; what was not settled is lost."""
        left = np.flatnonzero(~np.isin(self._heads, contexts))
        parked = self._parked
        # What is parked and gone is written nowhere any more.
        parked.ends[np.isin(parked.heads, contexts)] = self._settled
        if len(left) == len(self._heads):
            return
        self._settle_parked()
        if len(left):
            self._move(left, self._capacity, settles=False)
        else:
            self.clear()

    def settle(self) -> None:
        """Write what the pool lacks of all rows."""
        self._settle_parked()
        self._write(np.arange(len(self._heads)), self._table, self.past)
        self._settled = self.past

    def _settle_parked(self) -> None:
        """Write what the pool lacks of rows that left, and give up their places."""
        parked, first = self._parked, len(self._heads)
        for end in np.unique(parked.ends).tolist():
            rows = np.flatnonzero(parked.ends == end)
            self._write(first + rows, parked.table[rows], end)
        self._parked = _Parked(parked.heads[:0], parked.table[:0], parked.ends[:0])

    def _write(self, rows: NDArray[np.int64], table: NDArray[np.int64], end: int) -> None:
        """Write the columns from the first unsettled one to ``end`` of int64[n] rows."""
        if end <= self._settled or not len(rows):
            return
        slots = np.ascontiguousarray(table[:, self._settled : end]).reshape(-1)
        for kind, held in zip(self._kinds, self._buffers, strict=True):
            states = held.narrow(3, self._settled, end - self._settled)
            if len(rows) < states.shape[1]:
                states = states.index_select(1, _like(rows, held))
            targets = _like(slots, held)
            for (index, number), part in zip(kind, states.transpose(2, 3), strict=True):
                pooled = self._pool.part(index, number)
                pooled.index_copy_(0, targets, part.flatten(0, 1))

    def open(self, queries: int) -> Tensor | None:
        """Make ready for a pass of so many new columns; gather the rows if they are not here.

        Returns:
            Which columns hold tokens, int64[B, past + queries]; None where all do.
        """
        if not self._buffers:
            self._load()
        self.touched = 0
        self._bias = None
        whole, rows = self.past + queries, len(self._heads)
        self._new: list[Tensor] = []
        self._whole: list[Tensor] = []
        for held in self._buffers:
            live = held if held.shape[1] == rows else held.narrow(1, 0, rows)
            self._new += live.narrow(3, self.past, queries).unbind(0)
            self._whole += live.narrow(3, 0, whole).unbind(0)
        if not self._is_padded:
            return None
        if self._mask is None:
            mask = np.ones((rows, self._capacity), np.int64)
            mask[:, : self.past] = np.arange(self.past) >= self.past - self.lengths[:, None]
            self._mask = torch.from_numpy(mask).to(self._device)
        return self._mask.narrow(1, 0, whole)

    def static(self) -> tuple[list[Layer], Tensor]:
        """Make ready for a compiled pass of one new column.

        Returns:
            Keys and values [B, heads, C, size] of each layer, and float[B, 1, 1, C], which is added
            to columns' scores: -inf for those that hold nothing.
        """
        if not self._buffers:
            self._load()
        rows, first = len(self._heads), self._buffers[0]
        # Graphs want tensors that stay; else few columns are read that are not there yet.
        columns = self._capacity
        if not first.is_cuda:
            columns = min(columns, -(-(self.past + 1) // _ROOM) * _ROOM)
        if self._bias is None:
            places = np.arange(self._capacity)
            hidden = (places < self.past - self.lengths[:, None]) | (places >= self.past)
            made = torch.from_numpy(np.where(hidden, -np.inf, 0.0)[:, None, None])
            self._bias = made.to(first.device, first.dtype)
        if not self._layers or self._layers[0][0].shape[::2] != (rows, columns):
            parts = [held[0, :rows, :, :columns] for held in self._buffers]
            numbers = sorted(self._parts.items())
            self._layers = [(parts[keys], parts[values]) for _, (keys, values) in numbers]
        return self._layers, self._bias[..., :columns]

    def append(self, heads: NDArray[np.int64], slots: NDArray[np.int32]) -> None:
        """Note what a pass has written: int64[B] last contexts and int32[B, Q] slots."""
        queries = slots.shape[1]
        self._table[:, self.past : self.past + queries] = slots
        self._heads, self.lengths = heads, self.lengths + queries
        self.past += queries

    def write_and_read(
        self, index: int, key_states: Tensor, value_states: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As ``PassCache``: views of the buffers."""
        self.touched += 1
        keys, values = self._parts[index]
        self._new[keys].copy_(key_states)
        self._new[values].copy_(value_states)
        return self._whole[keys], self._whole[values]

    def _places(self, parents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that end with contexts, int64[n]; none if there is not one for each."""
        if not len(self._heads):
            return self._heads
        order = np.argsort(self._heads)
        rows: NDArray[np.int64] = order[
            np.searchsorted(self._heads, parents, sorter=order).clip(max=len(order) - 1)
        ]
        return rows if np.array_equal(self._heads[rows], parents) else rows[:0]

    def _load(self) -> None:
        """Gather the rows from the pool."""
        slots = np.ascontiguousarray(self._table[:, : self.past])
        kinds, buffers = self._pool.kinds(), []
        if self.is_static:
            kinds = [[place] for kind in kinds for place in kind]
        for kind in kinds:
            first = self._pool.part(*kind[0])
            shape = (len(kind), len(slots), first.shape[1], self._capacity, first.shape[2])
            held = first.new_empty(shape)
            rows = _like(slots, first)
            for place, target in zip(kind, held.narrow(3, 0, self.past), strict=True):
                target.copy_(_gather(self._pool.part(*place), rows))
            buffers.append(held)
        self._kinds, self._buffers = kinds, buffers
        number = {place: i for i, place in enumerate(place for kind in kinds for place in kind)}
        self._parts = {index: (number[index, 0], number[index, 1]) for index, _ in number}

    def _park(self, rows: NDArray[np.int64]) -> bool:
        """Make int64[n] rows the first ones, and park the others, if few change their places.

        Returns:
            Whether that was done: not where a row is to be there twice, where one that stays is to
            change its place, or where most columns would be padding.
        """
        count = len(rows)
        holes = np.flatnonzero(rows != np.arange(count))
        lengths = self.lengths[rows]
        is_wide = 4 * (self.past - int(lengths.max())) > self.past
        if is_wide or count > len(self._heads) or (rows[holes] < count).any():
            return False
        if len(np.unique(rows[holes])) < len(holes) or not self._buffers:
            return False
        order = np.arange(len(self._heads))
        order[holes], order[rows[holes]] = rows[holes], holes
        for held in self._buffers:
            states = held.narrow(3, 0, self.past)
            for hole, row in zip(holes.tolist(), rows[holes].tolist(), strict=True):
                leaving = states[:, hole].clone()
                states[:, hole] = states[:, row]
                states[:, row] = leaving
        heads, table = self._heads[order], self._table[order]
        gone = _Parked(heads[count:], table[count:], np.full(len(heads) - count, self.past))
        self._parked = gone.before(self._parked)
        self._heads, self._table, self.lengths = heads[:count], table[:count], lengths
        self._is_padded = bool((lengths < self.past).any())
        self._mask, self._bias, self._layers = None, None, []
        return True

    def _move(self, rows: NDArray[np.int64] | None, capacity: int, *, settles: bool = True) -> None:
        """Keep int64[n] rows (None: all) in tensors of ``capacity`` columns.

        Columns that hold padding alone are left out. Rows that go are settled if ``settles``.
        """
        self._settle_parked()
        chosen: Any = slice(None) if rows is None else rows
        if rows is not None and settles:
            gone = np.setdiff1d(np.arange(len(self._heads)), rows)
            self._write(gone, self._table[gone], self.past)
        lengths = self.lengths[chosen]
        first = self.past - int(lengths.max())
        live = np.arange(len(self._heads)) if rows is None else rows
        buffers = [self._moved(held, live, first, capacity) for held in self._buffers]
        table = np.zeros((len(lengths), capacity), np.int64)
        table[:, : self.past - first] = self._table[chosen, first : self.past]
        self._buffers, self._table, self._capacity = buffers, table, capacity
        self._heads, self.lengths = self._heads[chosen], lengths
        self.past -= first
        self._settled = max(0, self._settled - first)
        self._is_padded = bool((lengths < self.past).any())
        self._mask, self._bias, self._layers = None, None, []

    def _moved(self, held: Tensor, rows: NDArray[np.int64], first: int, capacity: int) -> Tensor:
        parts, _, heads, _, size = held.shape
        made = held.new_empty((parts, len(rows), heads, capacity, size))
        source = held.narrow(3, first, self.past - first)
        target = made.narrow(3, 0, self.past - first)
        if (rows == np.arange(len(rows))).all():
            target.copy_(source.narrow(1, 0, len(rows)))
        else:
            torch.index_select(source, 1, _like(rows, held), out=target)
        return made


class _Parked(NamedTuple):
    """Rows that left and lie behind the others: last contexts, slots, and how many columns hold."""

    heads: NDArray[np.int64]
    table: NDArray[np.int64]
    ends: NDArray[np.int64]

    def before(self, others: _Parked) -> _Parked:
        """Return these rows and those that lie behind them already."""
        if not len(others.heads):
            return self
        return _Parked(*(np.concatenate(parts) for parts in zip(self, others, strict=True)))


def _like(numbers: NDArray[np.int64], tensor: Tensor) -> Tensor:
    """Return numbers as an index of a tensor's device."""
    return torch.from_numpy(numbers).to(tensor.device)
