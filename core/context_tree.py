"""The prefix tree of a language model's contexts: interning, ancestry, per-node columns, release.

Only indices live here: what a model knows about a node (its distribution, its cache slots) is kept
in *columns*, arrays that grow with the tree and are reset when a node is freed.

Example: after ``root = tree.add_root()``, ``tree.child([root, root], [5, 5])`` gives one new node
twice: equal integers are equal prefixes, the mirror image of a constraint's states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import UsageError

_TOKEN_BITS = 32
NONE = -1
"""Parent of a root, and the root of a freed node."""


class ContextTree:
    """Interned prefixes as int64 node ids, with ``parent``, ``token``, ``depth`` and ``root``.

    Attributes:
        parent: int64[capacity], NONE for roots.
        token: int32[capacity], the last token of the prefix; -1 for roots.
        depth: int32[capacity], tokens after the root.
        root: int64[capacity], NONE where the id is free.
        columns: Further arrays by name, of the same capacity (see ``add_column``).
    """

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        self._fills: dict[str, int] = {}
        self._children: dict[int, int] = {}
        self._free: list[int] = []
        self._used = 0
        for name, dtype in (("parent", np.int64), ("token", np.int32), ("depth", np.int32)):
            self.add_column(name, dtype, NONE)
        self.add_column("root", np.int64, NONE)

    @property
    def parent(self) -> NDArray[np.int64]:
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
    def root(self) -> NDArray[np.int64]:
        """Roots by node id."""
        return self.columns["root"]

    @property
    def live(self) -> int:
        """Number of nodes in use."""
        return self._used - len(self._free)

    def add_column(self, name: str, dtype: Any, fill: int) -> None:
        """Attach an array of one value a node, ``fill`` at new nodes.

        subtle: growing replaces the array, so read it from ``columns`` anew after adding nodes.
        """
        capacity = len(self.columns["parent"]) if "parent" in self.columns else 1024
        self.columns[name] = np.full(capacity, fill, dtype)
        self._fills[name] = fill

    def add_root(self) -> int:
        """Add the root of a new tree and return its id."""
        node = int(self._allocate(1)[0])
        self.depth[node] = 0
        self.root[node] = node
        return node

    def child(self, parents: ArrayLike, token_ids: ArrayLike) -> NDArray[np.int64]:
        """Return the contexts one token longer, int64[n]; the same pair gives the same id.

        Args:
            parents: int64[n] live nodes.
            token_ids: int[n], one token a parent.

        Returns:
            int64[n]. Cost: a sort of n integers plus one dict access a distinct pair.
        """
        above = np.asarray(parents, np.int64).reshape(-1)
        tokens = np.asarray(token_ids, np.int64).reshape(-1)
        if above.shape != tokens.shape:
            raise UsageError(f"{len(above)} contexts were advanced by {len(tokens)} tokens")
        self.require_live(above)
        if tokens.size and (tokens.min() < 0 or tokens.max() >> (_TOKEN_BITS - 1)):
            raise UsageError("a context was advanced by a token id outside 0..2**31-1")
        keys, inverse = np.unique(above << _TOKEN_BITS | tokens, return_inverse=True)
        nodes = np.fromiter(
            (self._children.get(key, NONE) for key in keys.tolist()), np.int64, len(keys)
        )
        new = np.flatnonzero(nodes == NONE)
        if new.size:
            nodes[new] = self._add_children(keys[new])
        interned: NDArray[np.int64] = nodes[inverse.reshape(-1)]
        return interned

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

    def tokens(self, node: int) -> list[int]:
        """Return the tokens after the root, root first."""
        path = self.path(node)
        return [int(token) for token in self.token[path]] if path else []

    def require_live(self, nodes: NDArray[np.int64]) -> None:
        """Raise UsageError if one of ``nodes`` is no live context."""
        known = (nodes >= 0) & (nodes < self._used)
        known[known] = self.root[nodes[known]] != NONE
        if not known.all():
            lost = int(nodes[~known][0])
            raise UsageError(
                f"context {lost} does not exist", hint="Was its root released already?"
            )

    def below(self, roots: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return all live nodes of the trees of ``roots``, the roots included.

        Cost: O(n) in the nodes used since the tree was last empty.
        """
        wanted = np.asarray(roots, np.int64).reshape(-1)
        self.require_live(wanted)
        if np.any(self.parent[wanted] != NONE):
            raise UsageError("only contexts returned by prefill can be released")
        owner = self.root[: self._used]
        if wanted.size == 1:
            return np.flatnonzero(owner == wanted[0])
        return np.flatnonzero(np.isin(owner, wanted))

    def free(self, nodes: NDArray[np.int64]) -> None:
        """Forget ``nodes`` (whole trees, from ``below``); their ids are used again later."""
        inner = nodes[self.parent[nodes] != NONE]
        keys = self.parent[inner] << _TOKEN_BITS | self.token[inner].astype(np.int64)
        for key in keys.tolist():
            del self._children[key]
        for name, column in self.columns.items():
            column[nodes] = self._fills[name]
        self._free.extend(nodes.tolist())
        if not self.live:
            # Ids begin anew: a release costs what is alive, not what once was.
            self._free.clear()
            self._used = 0

    def _add_children(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        nodes = self._allocate(len(keys))
        parents = keys >> _TOKEN_BITS
        self.parent[nodes] = parents
        self.token[nodes] = (keys & ((1 << _TOKEN_BITS) - 1)).astype(np.int32)
        self.depth[nodes] = self.depth[parents] + 1
        self.root[nodes] = self.root[parents]
        self._children.update(zip(keys.tolist(), nodes.tolist(), strict=True))
        return nodes

    def _allocate(self, n: int) -> NDArray[np.int64]:
        # Ascending, so that children stand in their parents' order and batches keep theirs.
        reused = sorted(self._free.pop() for _ in range(min(n, len(self._free))))
        fresh = n - len(reused)
        capacity = len(self.parent)
        if self._used + fresh > capacity:
            self._grow(max(2 * capacity, self._used + fresh))
        nodes = np.array([*reused, *range(self._used, self._used + fresh)], np.int64)
        self._used += fresh
        return nodes

    def _grow(self, capacity: int) -> None:
        for name, column in self.columns.items():
            grown = np.full(capacity, self._fills[name], column.dtype)
            grown[: len(column)] = column
            self.columns[name] = grown
