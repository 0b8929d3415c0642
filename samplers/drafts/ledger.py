"""Accounts of drafting by draw: cost, gain, and what the target evaluated in vain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import EVALUATED, IN_RUN
from cdec.samplers.walks.frontier import with_room

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.frontier import Frontier

_NOBODY = -1
TARGET_CALLS = "target_calls"
"""The account of what ``evaluate`` noted."""
PASSED_OVER = "passed_over"
"""The account of the tokens that passes read where nothing was asked."""


@dataclass(frozen=True, slots=True)
class Tested:
    """Proposals that a round of W walks put to the test.

    Attributes:
        start: Where they stood. candidates: int64[W] their rows in the record.
        verified, accepted: int64[W] proposals of the draft that were put to the test and taken.
        refused: bool[W] whether a walk's last proposal was refused.
    """

    start: Frontier
    candidates: NDArray[np.int64]
    verified: NDArray[np.int64]
    accepted: NDArray[np.int64]
    refused: NDArray[np.bool_]

    @classmethod
    def nothing(cls, start: Frontier, candidates: NDArray[np.int64]) -> Tested:
        """Begin a round of walks that stand at ``start``."""
        n = len(candidates)
        none, zeros = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        return cls(start, candidates, zeros, zeros.copy(), none)


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
        self._read = np.full(1024, -1, np.int64)
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
        self._owner = with_room(self._owner, context, _NOBODY)
        order = np.lexsort((draw, context))
        nodes, first = np.unique(context[order], return_index=True)
        chosen = order[first]
        known = self._owner[nodes]
        better = np.flatnonzero((known[:, 0] == _NOBODY) | (draw[chosen] < known[:, 1]))
        nodes, chosen = nodes[better], chosen[better]
        passes = np.full(len(nodes), self._passes)
        self._owner[nodes] = np.stack([request[chosen], draw[chosen], passes, parent[chosen]], 1)
        self._read = with_room(self._read, context, -1)
        self._pass_over(nodes)

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every target call so far, int64[n] each.

        A call is a sequence of a pass: a chain of a draw's prefixes, up to where they branch.
        """
        if not self._passes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        nodes = np.flatnonzero(self._owner[:, 0] != _NOBODY)
        mine = self._owner[nodes]
        above = mine[:, 3]
        self._owner = with_room(self._owner, above, _NOBODY)
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
        sums = [(*self.calls(), 1)] if name == TARGET_CALLS else self._sums.get(name, [])
        if any(len(draw) for _, draw, _ in sums):
            amounts = [np.broadcast_to(amount, len(draw)) for _, draw, amount in sums]
            request, draw = (np.concatenate([part[i] for part in sums]) for i in range(2))
            np.add.at(totals, self._rows(request, draw, owners), np.concatenate(amounts))
        return totals

    def stepped(self, owners: Mapping[int, NDArray[np.int64]] | None = None) -> NDArray[np.int64]:
        """Return how many prefixes had a pass in steps without a draft, of each draw, int64[D]."""
        tree, visited = self._batch.tree, self._batch.tree.visited()
        flags = tree["flags"][visited]
        mine = visited[(flags & EVALUATED > 0) & (flags & IN_RUN == 0)]
        rows = self._rows(tree["request"][mine], tree["draw"][mine], owners)
        return np.bincount(rows, minlength=len(self._batch.seeds))

    def wasted(self, owners: Mapping[int, NDArray[np.int64]] | None = None) -> NDArray[np.int64]:
        """Return how many prefixes were evaluated for each draw and never visited, int64[D]."""
        if not self._passes:
            return np.zeros(len(self._batch.seeds), np.int64)
        evaluated = np.flatnonzero(self._owner[:, 0] != _NOBODY)
        visited = self._batch.tree.visited()
        left = evaluated[~np.isin(evaluated, visited)]
        rows = self._rows(self._owner[left, 0], self._owner[left, 1], owners)
        return np.bincount(rows, minlength=len(self._batch.seeds))

    def _pass_over(self, nodes: NDArray[np.int64]) -> None:
        """Note what a pass reads above ``nodes`` (int64[n]) without being asked there."""
        parents = self._batch.model.tree.parent
        request, draw = self._owner[nodes, 0], self._owner[nodes, 1]
        self._read[nodes] = 1
        while nodes.size:
            above = parents[nodes].astype(np.int64)
            # subtle: ids are used again once freed, so a parent's may be the larger one.
            self._read = with_room(self._read, above, -1)
            rows = np.flatnonzero((above >= 0) & (self._read[above] < 0))
            nodes, first = np.unique(above[rows], return_index=True)
            request, draw = request[rows[first]], draw[rows[first]]
            self._read[nodes] = 1
            self.add(PASSED_OVER, request, draw, 1)

    def _rows(
        self,
        request: NDArray[Any],
        draw: NDArray[Any],
        owners: Mapping[int, NDArray[np.int64]] | None,
    ) -> NDArray[np.int64]:
        """Return the rows of draws in the batch, int64[n]."""
        draw = np.asarray(draw, np.int64)
        if owners:
            draw = owning(owners, len(self._batch.requests), request, draw)
        first = np.searchsorted(self._batch.draw_request, np.arange(len(self._batch.requests)))
        rows: NDArray[np.int64] = first[request] + draw
        return rows


def owning(
    owners: Mapping[int, NDArray[np.int64]],
    requests: int,
    request: NDArray[Any],
    candidate: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the draws that candidates belong to, int64[n]; those of other requests are draws.

    Args:
        owners: By request, the draw of each candidate.
        requests: Number of requests of the batch.
        request: int[n]. candidate: int64[n].
    """
    flat = np.concatenate(list(owners.values()))
    lengths = [len(owner) for owner in owners.values()]
    begin = np.full(requests, -1, np.int64)
    begin[list(owners)] = np.cumsum(lengths) - lengths
    mine = np.flatnonzero(begin[request] >= 0)
    draw = candidate.copy()
    draw[mine] = flat[begin[request[mine]] + candidate[mine]]
    return draw
