"""The key-value pool: one slot a token in tensors of all layers, and the slots of each context.

A row of a forward pass is a list of slot numbers, so forks, removal of finished rows, rollback and
prompts shared between draws are index arithmetic. ``PassCache`` is the cache that a module sees in
one pass; ``RowBuffers`` keeps the rows of the last pass laid out for attention, because gathering
whole rows from the pool costs more than a step's attention.

Nodes own the slot of their last token, roots those of the whole prompt; a root whose text was begun
may have those of its beginning alone, copied, and counts as not cached. The cached nodes are closed
upwards: a node with slots has ancestors with slots, because eviction takes descendants first.
Imports torch: import it lazily.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.models.context_tree import NONE, ContextTree

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


_LAST_PASS = 2**31 - 1
"""Passes are counted in int32 columns; the count begins anew after this one."""

_KEPT_PASSES = 8
"""Rows of the last passes, from which the rows of child contexts are copied."""

_EVICTION_SHARE = 0.1
"""Part of the taken slots that an eviction gives back at least, so that it seldom runs."""


class SlotTable:
    """Slots by context.

    Args:
        tree: The model's contexts; gets the columns ``slot``, ``pass`` and ``pass_row``.
        pool: Where slots come from.
    """

    def __init__(self, tree: ContextTree, pool: KeyValuePool) -> None:
        self._tree = tree
        self._pool = pool
        self._root_slots: dict[int, NDArray[np.int64]] = {}
        self._passes: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._clock = 0
        for name, fill in (("slot", NONE), ("pass", NONE), ("pass_row", 0)):
            tree.add_column(name, np.int32, fill)

    def is_cached(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which nodes have slots, bool[n]; a parent's NONE counts as cached."""
        cached: NDArray[np.bool_] = self._tree.columns["slot"][nodes] != NONE
        cached |= nodes == NONE
        return cached

    def assign(self, nodes: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give slots to ``nodes``, evicting what was least recently used.

        Args:
            nodes: int64[n] distinct nodes below a root, or one root's id repeated once a prompt
                token; without slots.
            rows: Contexts of the pass: they and their ancestors are never evicted.

        Returns:
            int64[n] slots.
        """
        slots = self._allocated(len(nodes), rows)
        self._tree.columns["slot"][nodes] = slots
        is_root = self._tree.parent[nodes] == NONE
        for root in np.unique(nodes[is_root]).tolist():
            there = self._root_slots.get(root, slots[:0])
            self._root_slots[root] = np.append(there, slots[nodes == root])
        return slots

    def copied(self, node: int) -> int:
        """Return how many tokens of a context without slots of its own are cached all the same.

        Those at the beginning of a root's, copied from another context (see ``copy``).
        """
        is_whole = self._tree.columns["slot"][node] != NONE
        return 0 if is_whole else len(self._root_slots.get(node, ()))

    def copy(self, root: int, context: int, length: int) -> None:
        """Copy the first ``length`` tokens of a cached context into a root without slots."""
        above = np.array([context], np.int64)
        width = int(self._tree.of_root("start", above)[0] + self._tree.depth[context])
        slots = self._allocated(length, above)
        self._pool.copy(self.rows(above, width)[0, :length], slots)
        self._root_slots[root] = slots

    def nearest(
        self, root: int, prompts: Mapping[int, list[int]], begun: Mapping[int, tuple[int, ...]]
    ) -> int | None:
        """Return the cached context that has most of a root's tokens; None where none has any.

        Args:
            root: Of a begun text.
            prompts, begun: By root: the tokens of the prompt, and of a text that stood behind it.
        """
        best, longest = None, -1
        for other, tokens in prompts.items():
            there = len(begun[other])
            if other == root or tokens != prompts[root] or begun[other] != begun[root][:there]:
                continue
            path = self._tree.known_path(other, begun[root][there:])
            reached = int(self.is_cached(path).sum()) - 1
            # Cached nodes are closed upwards, so those of a path are its first ones.
            if reached >= 0 and there + reached > longest:
                best, longest = int(path[reached]), there + reached
        return best

    def rows(self, nodes: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the slots of whole prefixes, right-aligned, 0 to the left.

        Args:
            nodes: int64[B] cached nodes, or roots' parents (NONE), whose rows are empty.
            width: K, at least the longest prefix.

        Returns:
            int64[B, K].
        """
        table = np.zeros((len(nodes), width), np.int64)
        passes = self._tree.columns["pass"]
        pass_row = self._tree.columns["pass_row"]
        rows = np.flatnonzero(nodes != NONE)
        nodes, column = nodes[rows], width
        while len(rows):
            left = np.ones(len(rows), bool)
            for number in np.unique(passes[nodes]).tolist():
                kept = self._passes.get(number)
                if kept is None:
                    continue
                found = passes[nodes] == number
                span = min(column, kept.shape[1])
                copied = kept[pass_row[nodes[found]], kept.shape[1] - span :]
                table[rows[found], column - span : column] = copied
                left[found] = False
            for i in np.flatnonzero(left & (self._tree.parent[nodes] == NONE)).tolist():
                slots = self._root_slots[int(nodes[i])]
                table[rows[i], column - len(slots) : column] = slots
                left[i] = False
            rows, nodes, column = rows[left], nodes[left], column - 1
            table[rows, column] = self._tree.columns["slot"][nodes]
            nodes = self._tree.parent[nodes].astype(np.int64)
        return table

    def remember(self, nodes: NDArray[np.int64], table: NDArray[np.int64]) -> None:
        """Keep the rows of a pass, from which those of ``nodes``' children will be copied."""
        columns = self._tree.columns
        if self._clock == _LAST_PASS:
            # What was used when is forgotten, once in weeks.
            self._passes.clear()
            columns["pass"][columns["pass"] != NONE] = 0
            self._clock = 0
        self._clock += 1
        self._passes[self._clock] = table
        if len(self._passes) > _KEPT_PASSES:
            self._passes.popitem(last=False)
        columns["pass"][nodes] = self._clock
        columns["pass_row"][nodes] = np.arange(len(nodes))

    def release(self, nodes: NDArray[np.int64]) -> None:
        """Give back the slots of ``nodes``, of which every cached descendant is included."""
        columns = self._tree.columns
        is_root = self._tree.parent[nodes] == NONE
        inner = columns["slot"][nodes[~is_root]]
        self._pool.release(inner[inner != NONE])
        for root in nodes[is_root].tolist():
            slots = self._root_slots.pop(root, None)
            if slots is not None:
                self._pool.release(slots)
        columns["slot"][nodes] = NONE
        columns["pass"][nodes] = NONE

    def _allocated(self, n: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take ``n`` slots; of ``rows`` (contexts) and their ancestors none is evicted for them."""
        shortage = self._pool.shortage(n)
        if shortage:
            self._evict(shortage, rows)
        return self._pool.allocate(n)

    def _evict(self, shortage: int, rows: NDArray[np.int64]) -> None:
        """Give back ``shortage`` slots or a little more; fewer only if ``rows`` need the rest."""
        tree, columns = self._tree, self._tree.columns
        cached = np.flatnonzero(columns["slot"] != NONE)
        # A node is as recent as its most recent descendant: levels upwards, deepest first.
        recent = columns["pass"].copy()
        depth = tree.depth[cached]
        for level in range(int(depth.max(initial=0)), 0, -1):
            nodes = cached[depth == level]
            np.maximum.at(recent, tree.parent[nodes], recent[nodes])
        protected = np.zeros(len(recent), bool)
        above = rows
        while len(above):
            protected[above] = True
            above = np.unique(tree.parent[above])
            above = above[above != NONE]
        victims = cached[~protected[cached]]
        victims = victims[np.lexsort((-tree.depth[victims], recent[victims]))]
        sizes = np.array([len(self._root_slots.get(node, (0,))) for node in victims.tolist()])
        wanted = max(shortage, int(_EVICTION_SHARE * self._pool.used))
        count = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1 if len(victims) else 0
        self.release(victims[:count])
