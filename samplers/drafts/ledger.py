"""Ledger: what drafting cost and gained, by draw, and what the target evaluated in vain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cdec.samplers.batch import Batch
    from cdec.samplers.frontier import Frontier

_NOBODY = -1
TARGET_CALLS = "target_calls"
"""The account of what ``evaluate`` noted."""


class Ledger:
    """Accounts of one batch; everything belongs to a (request, draw), the lowest that shares it.

    Args:
        batch: The open requests.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._sums: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64], Any]]] = {}
        # By context: request, draw and pass that pay for it, and its parent.
        self._owner = np.full((1024, 4), _NOBODY, np.int64)
        self._passes = 0

    def add(self, name: str, request: NDArray[Any], draw: NDArray[Any], amounts: Any) -> None:
        """Add amounts (float64[n], or one for all) to an account of n draws."""
        self._sums.setdefault(name, []).append((request, draw, amounts))

    def replace(self, name: str, request: NDArray[Any], draw: NDArray[Any]) -> None:
        """Make an account hold one for each of these draws (int64[n]), and nothing else."""
        self._sums[name] = [(request, draw, 1)]

    def evaluate(self, positions: list[Frontier]) -> None:
        """Note the prefixes of one pass, level by level, known ones included.

        A prefix belongs to the lowest draw that ever needs it, and to the first of its passes that
        does: so accounts do not depend on which draws decode together.
        """
        self._passes += 1
        context, parent, request, draw = (
            np.concatenate([getattr(level, name) for level in positions])
            for name in ("context", "parent", "request", "draw")
        )
        self._reserve(int(context.max(initial=0)))
        order = np.lexsort((draw, context))
        nodes, first = np.unique(context[order], return_index=True)
        chosen = order[first]
        known = self._owner[nodes]
        better = np.flatnonzero((known[:, 0] == _NOBODY) | (draw[chosen] < known[:, 1]))
        nodes, chosen = nodes[better], chosen[better]
        passes = np.full(len(nodes), self._passes)
        self._owner[nodes] = np.stack([request[chosen], draw[chosen], passes, parent[chosen]], 1)

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every target call so far, int64[n] each.

        A call is a sequence of a pass: a chain of a draw's prefixes, up to where they branch.
        """
        nodes = np.flatnonzero(self._owner[:, 0] != _NOBODY)
        mine = self._owner[nodes]
        above = mine[:, 3]
        follows = (above >= 0) & (self._owner[above, :3] == mine[:, :3]).all(axis=1)
        children = np.bincount(above[follows], minlength=len(self._owner))
        starts = mine[~follows | (children[above] > 1)]
        return starts[:, 0], starts[:, 1]

    def totals(
        self, name: str, owners: Mapping[int, NDArray[np.int64]] | None = None
    ) -> NDArray[np.float64]:
        """Return an account by draw of the batch, float64[D].

        Args:
            owners: As in ``Outcome``: by request, the draw that each candidate belongs to.
        """
        totals = np.zeros(len(self._batch.seeds))
        sums = self._sums.get(name, [])
        for request, draw, amounts in [(*self.calls(), 1)] if name == TARGET_CALLS else sums:
            rows = self._rows(request, draw, owners)
            np.add.at(totals, rows, amounts)
        return totals

    def wasted(self, owners: Mapping[int, NDArray[np.int64]] | None = None) -> NDArray[np.int64]:
        """Return how many prefixes were evaluated for each draw and never visited, int64[D]."""
        evaluated = np.flatnonzero(self._owner[:, 0] != _NOBODY)
        visited = self._batch.tree.visited()
        left = evaluated[~np.isin(evaluated, visited)]
        rows = self._rows(self._owner[left, 0], self._owner[left, 1], owners)
        return np.bincount(rows, minlength=len(self._batch.seeds))

    def _rows(
        self,
        request: NDArray[Any],
        draw: NDArray[Any],
        owners: Mapping[int, NDArray[np.int64]] | None,
    ) -> NDArray[np.int64]:
        """Return the rows of draws in the batch, int64[n]."""
        draw = np.asarray(draw, np.int64).copy()
        for number, owner in (owners or {}).items():
            mine = np.flatnonzero(request == number)
            draw[mine] = owner[draw[mine]]
        first = np.searchsorted(self._batch.draw_request, np.arange(len(self._batch.requests)))
        rows: NDArray[np.int64] = first[request] + draw
        return rows

    def _reserve(self, highest: int) -> None:
        if highest >= len(self._owner):
            grown = np.full((2 * highest + 2, 4), _NOBODY, np.int64)
            grown[: len(self._owner)] = self._owner
            self._owner = grown
