"""Which pool slots belong to which context: rows of slots, allocation, eviction, release.

Nodes own the slot of their last token, roots those of the whole prompt; a root whose text was begun
may have those of its beginning alone, copied, and counts as not cached. The cached nodes are closed
upwards: a node with slots has ancestors with slots, because eviction takes descendants first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.context_tree import NONE, ContextTree

_LAST_PASS = 2**31 - 1
"""Passes are counted in int32 columns; the count begins anew after this one."""

_KEPT_PASSES = 8
"""Rows of the last passes, from which the rows of child contexts are copied."""

_EVICTION_SHARE = 0.1
"""Part of the taken slots that an eviction gives back at least, so that it seldom runs."""


class SlotPool(Protocol):
    """What the table needs of a pool."""

    @property
    def used(self) -> int:
        """Slots that are taken."""

    def shortage(self, n: int) -> int:
        """Return how many slots must be given back before ``n`` fit."""

    def allocate(self, n: int) -> NDArray[np.int64]:
        """Take ``n`` slots."""

    def release(self, slots: NDArray[np.int64]) -> None:
        """Give slots back."""

    def copy(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Copy the keys and values of slots int64[n] into others."""


class SlotTable:
    """Slots by context.

    Args:
        tree: The model's contexts; gets the columns ``slot``, ``pass`` and ``pass_row``.
        pool: Where slots come from.
    """

    def __init__(self, tree: ContextTree, pool: SlotPool) -> None:
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
