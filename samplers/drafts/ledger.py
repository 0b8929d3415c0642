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


class Ledger:
    """Accounts of one batch; everything belongs to a (request, draw), the lowest that shares it.

    Args:
        batch: The open requests.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._sums: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64], Any]]] = {}
        self._owner = np.full((1024, 2), _NOBODY, np.int64)

    def add(self, name: str, request: NDArray[Any], draw: NDArray[Any], amounts: Any) -> None:
        """Add amounts (float64[n], or one for all) to an account of n draws."""
        self._sums.setdefault(name, []).append((request, draw, amounts))

    def replace(self, name: str, request: NDArray[Any], draw: NDArray[Any]) -> None:
        """Make an account hold one for each of these draws (int64[n]), and nothing else."""
        self._sums[name] = [(request, draw, 1)]

    def evaluate(self, positions: list[Frontier]) -> None:
        """Note the prefixes of one pass, level by level; what was evaluated before is not again.

        A call is a sequence of the pass: a chain of new prefixes, up to where they branch. It
        belongs to the lowest draw that needs it.
        """
        context, parent, request, draw = (
            np.concatenate([getattr(level, name) for level in positions])
            for name in ("context", "parent", "request", "draw")
        )
        self._reserve(int(context.max(initial=0)))
        new = np.flatnonzero(self._owner[context, 0] == _NOBODY)
        # The first of equal contexts is the one of the lowest draw.
        new = new[np.lexsort((draw[new], context[new]))]
        nodes, first = np.unique(context[new], return_index=True)
        chosen = new[first]
        self._owner[nodes, 0], self._owner[nodes, 1] = request[chosen], draw[chosen]
        above = parent[chosen]
        place = np.minimum(np.searchsorted(nodes, above), len(nodes) - 1)
        inside = nodes[place] == above if len(nodes) else np.zeros(0, np.bool_)
        children = np.bincount(place[inside], minlength=len(nodes))
        starts = chosen[~inside | (children[place] > 1)] if len(nodes) else chosen
        self.add("target_calls", request[starts], draw[starts], 1)

    def totals(
        self, name: str, owners: Mapping[int, NDArray[np.int64]] | None = None
    ) -> NDArray[np.float64]:
        """Return an account by draw of the batch, float64[D].

        Args:
            owners: As in ``Outcome``: by request, the draw that each candidate belongs to.
        """
        totals = np.zeros(len(self._batch.seeds))
        for request, draw, amounts in self._sums.get(name, ()):
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
            grown = np.full((2 * highest + 2, 2), _NOBODY, np.int64)
            grown[: len(self._owner)] = self._owner
            self._owner = grown
