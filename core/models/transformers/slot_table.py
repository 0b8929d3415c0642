"""Slots by context: which a context's tokens have in the pool, who shares them, who is evicted.

Nodes own the slot of their last token, roots those of the whole prompt but what they share; a root
whose text was begun may have those of its beginning alone, copied, and counts as not cached. The
cached nodes are closed upwards: a node with slots has ancestors with slots, because eviction takes
descendants first. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.transformers.kv_pool import EMPTY_SLOT, KeyValuePool
from cdec.core.models.transformers.prefixes import Piece, SharedPrefixes
from cdec.core.native import library

_LAST_PASS = 2**31 - 1
"""Passes are counted in int32 columns; the count begins anew after this one."""

_EVICTION_SHARE = 0.1
"""Part of the taken slots that an eviction gives back at least, so that it seldom runs."""


class SlotTable:
    """Slots by context.

    Args:
        tree: The model's contexts; gets the columns ``slot`` (of a root that of its last token) and
            ``pass``, the number of the last pass that a row ended there.
        pool: Where slots come from.
        prefix_bytes: Bytes of beginnings that are kept when no prompt has them any more.
        settle: Writes what is still to be written into slots, before some of them change hands.

    Attributes:
        prefixes: What prompts share.
    """

    def __init__(
        self,
        tree: ContextTree,
        pool: KeyValuePool,
        prefix_bytes: int,
        settle: Callable[[], None],
    ) -> None:
        self._tree = tree
        self._settle = settle
        self._pool = pool
        self.prefixes = SharedPrefixes(pool, prefix_bytes)
        self._shared: dict[int, Piece] = {}
        self._root_slots: dict[int, NDArray[np.int64]] = {}
        self._clock = 0
        for name in ("slot", "pass"):
            tree.add_column(name, np.int32, NONE)

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
        held, parents = self._tree.columns["slot"], self._tree.parent[nodes]
        # subtle: of a root's slots the last is assigned last, and stays.
        held[nodes] = slots
        self._pool.above[slots] = held[parents]
        for root in np.unique(nodes[parents == NONE]).tolist() if parents.min() < 0 else ():
            whole = np.append(self._root_slots.get(root, slots[:0]), slots[nodes == root])
            self._root_slots[root] = whole
            shared = self._shared.get(root)
            self._pool.chain(whole, EMPTY_SLOT if shared is None else shared.last)
        return slots

    def shared(self, root: int) -> int:
        """Return how many tokens of a root without slots of its own are shared with others."""
        has_own = self._tree.columns["slot"][root] != NONE or root not in self._shared
        return 0 if has_own else self._shared[root].end

    def share(self, root: int, piece: Piece) -> None:
        """Let a root without slots begin with a piece."""
        self.prefixes.use(piece)
        self.unshare(root)
        self._shared[root] = piece

    def unshare(self, root: int) -> None:
        """Let a root begin with no piece."""
        piece = self._shared.pop(root, None)
        if piece is not None:
            self.prefixes.leave(piece)

    def place(self, piece: Piece, rows: NDArray[np.int64]) -> None:
        """Give slots to a piece; arguments as of ``assign``."""
        self.prefixes.place(piece, self._allocated(len(piece.tokens), rows))

    def keep(self, root: int, tokens: NDArray[np.int64]) -> None:
        """Let what is cached of a root's ``tokens`` but the last one outlive it."""
        own, shared = self._root_slots[root], self._shared.get(root)
        start = 0 if shared is None else shared.end
        piece = self.prefixes.keep(shared, tokens[start:-1], own[:-1])
        if piece is not None:
            self.share(root, piece)
            self._root_slots[root] = own[-1:]

    def copied(self, node: int) -> int:
        """Return how many tokens of a context without slots of its own are cached all the same.

        Those at the beginning of a root's, copied from another context (see ``copy``) or shared.
        """
        is_whole = self._tree.columns["slot"][node] != NONE
        return 0 if is_whole else len(self._root_slots.get(node, ())) + self.shared(node)

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
        last = np.where(nodes == NONE, EMPTY_SLOT, self._tree.columns["slot"][nodes])
        return self.rows_to(last.astype(np.int64), width)

    def rows_to(self, last: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the rows that end with slots int64[B], as ``rows``."""
        table = np.empty((len(last), width), np.int64)
        library.slots_rows(self._pool.above, last, table)
        return table

    def touch(self, nodes: NDArray[np.int64]) -> None:
        """Note that a pass used ``nodes``, int64[n]."""
        last = self._tree.columns["pass"]
        if self._clock == _LAST_PASS:
            # What was used when is forgotten, once in weeks.
            last[last != NONE] = 0
            self._clock = 0
        self._clock += 1
        last[nodes] = self._clock

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
            self.unshare(root)
        columns["slot"][nodes] = NONE
        columns["pass"][nodes] = NONE

    def _allocated(self, n: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take ``n`` slots; of ``rows`` (contexts) and their ancestors none is evicted for them."""
        for evict in (self.prefixes.evict, partial(self._evict, rows=rows), self.prefixes.evict):
            shortage = self._pool.shortage(n)
            if not shortage:
                break
            self._settle()
            evict(shortage)
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
