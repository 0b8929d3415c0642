"""The prefix tree of a language model's contexts: interning, ancestry, per-node columns, release.

Only indices live here: what a model knows about a node (its distribution, its cache slots) is kept
in *columns*, arrays that grow with the tree and are reset when a node is freed; what it knows about
a prompt is kept once a root. A node costs 16 bytes of columns and 6 to 12 of the hash table.

Example: after ``root = tree.add_root()``, ``tree.child([root, root], [5, 5])`` gives one new node
twice: equal integers are equal prefixes, the mirror image of a constraint's states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import LimitError, UsageError
from cdec.core.native import library

MOST_IDS = 2**31 - 1
"""Ids fit int32 columns."""


class IdColumns:
    """Arrays that grow together with the ids they are indexed by.

    Args:
        noun: What the ids number, for messages.
        capacity: Ids that fit at first, and by which the arrays grow at least.

    Attributes:
        arrays: Arrays of one length by name. subtle: growing replaces them, so read them anew
            after ``allocate``.
        used: Ids below this are in use or free; those from here on were never given out.
    """

    def __init__(self, noun: str, capacity: int) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.used = 0
        self._noun = noun
        self._step = capacity
        self._capacity = capacity
        self._fills: dict[str, int] = {}
        self._free = np.empty(0, np.int32)

    @property
    def live(self) -> int:
        """Number of ids in use."""
        return self.used - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and of the list of free ids."""
        return sum(array.nbytes for array in self.arrays.values()) + self._free.nbytes

    def add(self, name: str, dtype: Any, fill: int) -> None:
        """Attach an array, ``fill`` at new ids."""
        self.arrays[name] = np.full(self._capacity, fill, dtype)
        self._fills[name] = fill

    def allocate(self, n: int) -> NDArray[np.int64]:
        """Take ``n`` ids, int64[n] ascending; what was freed last is used again first.

        Raises:
            LimitError: More ids than int32 columns can hold.
        """
        kept = max(len(self._free) - n, 0)
        reused = len(self._free) - kept
        fresh = n - reused
        if self.used + fresh > MOST_IDS:
            raise LimitError(
                f"{self.live + n} {self._noun} are alive at once, at most {MOST_IDS} fit",
                hint="Draw fewer samples at once, or release prompts that are done.",
                limit=MOST_IDS,
            )
        if self.used + fresh > self._capacity:
            # subtle: by an eighth, not by doubling: the nodes of a large tree are what takes its
            # memory, and copying them 9 times over costs less than making them.
            more = max(self._capacity // 8, self._step)
            self._grow(max(self._capacity + more, self.used + fresh))
        ids = np.arange(self.used, self.used + fresh)
        if reused:
            # Ascending, so that children stand in their parents' order and batches keep theirs.
            ids = np.concatenate([np.sort(self._free[kept:]), ids])
            self._free = self._free[:kept]
        self.used += fresh
        return ids

    def free(self, ids: NDArray[np.int64]) -> None:
        """Give back distinct ``ids`` in use."""
        for name, array in self.arrays.items():
            array[ids] = self._fills[name]
        self._free = np.concatenate([self._free, ids.astype(np.int32)])
        if not self.live:
            # Ids begin anew: a release costs what is alive, not what once was.
            self._free = self._free[:0].copy()
            self.used = 0

    def _grow(self, capacity: int) -> None:
        for name, array in self.arrays.items():
            grown = np.full(capacity, self._fills[name], array.dtype)
            grown[: len(array)] = array
            self.arrays[name] = grown
        self._capacity = capacity


_TOKEN_BITS = 32
NONE = -1
"""Parent of a root, the number of a freed node, and a free slot of the hash table."""

_FIRST_SLOTS = 1024


class ContextTree:
    """Interned prefixes as int64 node ids, with ``parent``, ``token``, ``depth`` and ``number``.

    Attributes:
        columns: Arrays by name, one value a node: ``parent`` int32 (NONE for roots), ``token``
            int32 (the last of the prefix; NONE for roots), ``depth`` int32 (tokens after the root),
            ``number`` int32 (of the node's root; NONE where the id is free), and those added.
        root_columns: Arrays by name, indexed by a root's number: ``node`` int64, and those added.
    """

    def __init__(self) -> None:
        self._nodes = IdColumns("contexts", 1024)
        self._roots = IdColumns("prompts", 16)
        self.columns = self._nodes.arrays
        self.root_columns = self._roots.arrays
        self._slots = np.full(_FIRST_SLOTS, NONE, np.int32)
        self._indexed = 0
        for name in ("parent", "token", "depth", "number"):
            self.add_column(name, np.int32, NONE)
        self.add_root_column("node", np.int64, NONE)

    @property
    def parent(self) -> NDArray[np.int32]:
        """Parents by node id."""
        return self.columns["parent"]

    @property
    def token(self) -> NDArray[np.int32]:
        """Last tokens by node id."""
        return self.columns["token"]

    @property
    def depth(self) -> NDArray[np.int32]:
        """Numbers of tokens after the root by node id."""
        return self.columns["depth"]

    @property
    def number(self) -> NDArray[np.int32]:
        """Numbers of the roots by node id."""
        return self.columns["number"]

    @property
    def live(self) -> int:
        """Number of nodes in use."""
        return self._nodes.live

    @property
    def nbytes(self) -> int:
        """Bytes of the hash table and of all columns, those of roots included."""
        return self._nodes.nbytes + self._roots.nbytes + self._slots.nbytes

    def add_column(self, name: str, dtype: Any, fill: int) -> None:
        """Attach an array of one value a node, ``fill`` at new nodes.

        subtle: growing replaces the array, so read it from ``columns`` anew after adding nodes.
        """
        self._nodes.add(name, dtype, fill)

    def add_root_column(self, name: str, dtype: Any, fill: int) -> None:
        """Attach an array of one value a root, by its number; else as ``add_column``."""
        self._roots.add(name, dtype, fill)

    def add_root(self) -> int:
        """Add the root of a new tree and return its id."""
        node = int(self._nodes.allocate(1)[0])
        number = int(self._roots.allocate(1)[0])
        self.root_columns["node"][number] = node
        self.number[node] = number
        self.depth[node] = 0
        return node

    def of_root(self, name: str, nodes: NDArray[Any] | int) -> NDArray[Any]:
        """Return the values of the roots' column ``name`` that hold for ``nodes``, [n]."""
        values: NDArray[Any] = self.root_columns[name][self.number[nodes]]
        return values

    def roots(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the roots of ``nodes``, int64[n]."""
        return self.of_root("node", nodes)

    def child(
        self, parents: ArrayLike, token_ids: ArrayLike, limit: int = MOST_IDS + 1
    ) -> NDArray[np.int64]:
        """Return the contexts one token longer, int64[n]; the same pair gives the same id.

        Args:
            parents: int64[n] live nodes.
            token_ids: int[n], one token a parent, below ``limit``.

        Returns:
            int64[n]; new ids ascend with (parent, token). Cost: one compiled pass, and where pairs
            are new a sort of these and a second pass.

        Raises:
            UsageError: A parent was released, or a token id lies outside 0..limit-1.
        """
        above = np.ascontiguousarray(np.asarray(parents, np.int64).reshape(-1))
        tokens = np.ascontiguousarray(np.asarray(token_ids, np.int64).reshape(-1))
        if above.shape != tokens.shape:
            raise UsageError(f"{len(above)} contexts were advanced by {len(tokens)} tokens")
        nodes = np.empty(len(above), np.int64)
        keys = self._slots, self.parent, self.token, self.number
        missing = library.contexts_find(*keys, self._nodes.used, limit, above, tokens, nodes)
        if missing < 0:
            self.require_live(above)
            raise UsageError(f"a context was advanced by a token id outside 0..{limit - 1}")
        if missing:
            ids = self._nodes.allocate(missing)
            self._reserve(missing)
            columns = self._slots, self.parent, self.token, self.depth, self.number
            library.contexts_add(*columns, ids, above, tokens, nodes)
        return nodes

    def ancestors(self, nodes: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each node's ancestor ``steps[i]`` levels up, int64[n]."""
        if np.any(steps < 0) or np.any(steps > self.depth[nodes]):
            raise UsageError("a rollback goes beyond the prompt (or is negative)")
        above = nodes.copy()
        for step in range(int(steps.max(initial=0))):
            moving = steps > step
            above[moving] = self.parent[above[moving]]
        return above

    def path(self, node: int) -> list[int]:
        """Return the nodes from below the root down to ``node``; empty for a root."""
        nodes = []
        while self.parent[node] != NONE:
            nodes.append(node)
            node = int(self.parent[node])
        return nodes[::-1]

    def known_path(self, node: int, token_ids: Sequence[int]) -> NDArray[np.int64]:
        """Return ``node`` and its descendants along tokens, as far as there are any."""
        tokens = np.array(token_ids, np.int64)
        path = np.full(len(tokens) + 1, node, np.int64)
        columns = self.parent, self.token
        return path[: 1 + library.contexts_path(self._slots, *columns, tokens, path)]

    def tokens(self, node: int) -> list[int]:
        """Return the tokens after the root, root first."""
        path = self.path(node)
        return [int(token) for token in self.token[path]] if path else []

    def missing(self, name: str, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct nodes whose value in column ``name`` is negative, ascending.

        Raises:
            UsageError: One of ``nodes`` (int64[n]) is no live context.
        """
        found = np.empty(len(nodes), np.int64)
        columns = self.number, self._nodes.used, self.columns[name]
        count = library.contexts_missing(*columns, nodes, found)
        if count < 0:
            self.require_live(nodes)
        return found[:count]

    def lengths(self, name: str, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Return depth plus the root's value in column ``name``, int64[n], and the largest."""
        lengths = np.empty(len(nodes), np.int64)
        columns = self.number, self.depth, self.root_columns[name]
        return lengths, library.contexts_lengths(*columns, nodes, lengths)

    def count(self, name: str, nodes: NDArray[np.int64], amounts: ArrayLike) -> int:
        """Add amounts, int[n] or one for all, to the roots' column ``name``; return their sum."""
        added = np.ascontiguousarray(amounts, np.int64).reshape(-1)
        columns = self.number, nodes, added, self.root_columns[name]
        total: int = library.contexts_count(*columns)
        return total

    def require_live(self, nodes: NDArray[np.int64]) -> None:
        """Raise UsageError if one of ``nodes`` (int64[n]) is no live context."""
        at = library.contexts_lost(self.number, self._nodes.used, nodes)
        if at >= 0:
            raise UsageError(
                f"context {nodes[at]} does not exist", hint="Was its root released already?"
            )

    def below(self, roots: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return all live nodes of the trees of ``roots``, the roots included, int64[n].

        Cost: O(n) in the nodes used since the tree was last empty.
        """
        wanted = np.asarray(roots, np.int64).reshape(-1)
        self.require_live(wanted)
        if np.any(self.parent[wanted] != NONE):
            raise UsageError("only contexts returned by prefill can be released")
        owner = self.number[: self._nodes.used]
        if wanted.size == 1:
            return np.flatnonzero(owner == self.number[wanted[0]])
        return np.flatnonzero(np.isin(owner, self.number[wanted]))

    def free(self, nodes: NDArray[np.int64]) -> None:
        """Forget ``nodes`` (whole trees, from ``below``); their ids are used again later."""
        self._indexed -= library.contexts_remove(self._slots, self.parent, self.token, nodes)
        roots = nodes[self.parent[nodes] == NONE]
        self._roots.free(self.number[roots].astype(np.int64))
        self._nodes.free(nodes)

    def _reserve(self, count: int) -> None:
        """Make the hash table large enough for ``count`` more children."""
        self._indexed += count
        if 10 * self._indexed > 7 * len(self._slots):
            held = self._slots
            size = 1 << (10 * self._indexed // 7).bit_length()
            self._slots = np.full(size, NONE, np.int32)
            library.contexts_insert(self._slots, self.parent, self.token, held)
