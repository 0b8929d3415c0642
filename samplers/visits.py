"""Visits: every distinct prefix a run evaluated, per record; what it cost and what it certifies.

From them come the counters of a sample (each prefix belongs to the lowest draw that reached it, so
that no counter depends on batching) and the upper bound c(root) of the allowed mass (design,
ALGORITHMS section 3): c = 1 at members and at unvisited prefixes, 0 where nothing can follow, and
the sum of P * c upwards.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

_MERGE_AT = 1 << 18
"""Rows gathered before repetitions are merged away."""


@dataclass(frozen=True, slots=True)
class VisitRows:
    """Distinct prefixes as columns of equal length n.

    Attributes:
        request: int64[n]. context: int64[n], a node of the model's tree. depth: int64[n] tokens.
        parent: int64[n] context one token shorter, -1 at the root.
        log_edge: float64[n] log P(last token | parent).
        log_bound: float64[n] log of an upper bound of the allowed mass here, -inf if none.
        draw: int64[n] lowest draw (position in its request) that came here.
        evaluated: bool[n] False where a text was cut before the model was asked.
        in_run: bool[n] whether it was computed along with its parent, as part of a forced run.
    """

    request: NDArray[np.int64]
    context: NDArray[np.int64]
    depth: NDArray[np.int64]
    parent: NDArray[np.int64]
    log_edge: NDArray[np.float64]
    log_bound: NDArray[np.float64]
    draw: NDArray[np.int64]
    evaluated: NDArray[np.bool_]
    in_run: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> VisitRows:
        """Return the given rows."""
        return VisitRows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def of_request(self, number: int) -> VisitRows:
        """Return the rows of one request, given rows sorted by request."""
        start, stop = np.searchsorted(self.request, [number, number + 1])
        return self.take(np.arange(start, stop))


class Visits:
    """Collects the prefixes that the steps of a run evaluate."""

    def __init__(self) -> None:
        self._parts: list[VisitRows] = []
        self._size = 0

    def add(self, rows: VisitRows) -> None:
        """Add the distinct prefixes of one step."""
        self._parts.append(rows)
        self._size += len(rows.request)
        if self._size > _MERGE_AT:
            merged = self._merge()
            self._parts = [merged]
            # Merged rows count little: what remains distinct is bounded by what was evaluated.
            self._size = 0

    def rows(self) -> VisitRows:
        """Return every distinct (request, context) once, sorted by request, depth and context."""
        merged = self._merge()
        self._parts = [merged]
        return merged

    def _merge(self) -> VisitRows:
        columns = [
            np.concatenate([getattr(part, field.name) for part in self._parts])
            if self._parts
            else np.zeros(0, np.bool_ if field.name in ("evaluated", "in_run") else np.int64)
            for field in fields(VisitRows)
        ]
        everything = VisitRows(*columns)
        order = np.lexsort(
            (everything.draw, everything.context, everything.depth, everything.request)
        )
        ordered = everything.take(order)
        first = np.ones(len(order), np.bool_)
        first[1:] = (ordered.request[1:] != ordered.request[:-1]) | (
            ordered.context[1:] != ordered.context[:-1]
        )
        return ordered.take(np.flatnonzero(first))


def log_mass_upper(rows: VisitRows) -> dict[int, float]:
    """Return log c(root), an upper bound of the allowed mass, of every record, by its request.

    Args:
        rows: Visits, with every prefix's parent among them.

    Returns:
        Natural logs, up to the rounding of sums (about 1e-15 of probability); -inf for no mass.
        Cost: one pass a depth over all records together.
    """
    bound = np.exp(rows.log_bound)
    seen = np.zeros(len(bound))
    kept = np.zeros(len(bound))
    span = int(rows.context.max(initial=0)) + 2
    keys = rows.request * span + rows.context
    by_key = np.argsort(keys)
    sorted_keys = keys[by_key]
    by_depth = np.argsort(rows.depth, kind="stable")
    deepest = int(rows.depth.max(initial=-1))
    edges = np.searchsorted(rows.depth[by_depth], np.arange(deepest + 2))
    for depth in range(deepest, -1, -1):
        here = by_depth[edges[depth] : edges[depth + 1]]
        # The unvisited rest, then what the visited children still hold: never 1 minus bad mass.
        bound[here] = np.maximum(bound[here] - seen[here], 0.0) + kept[here]
        if depth:
            above = rows.request[here] * span + rows.parent[here]
            parents = by_key[np.searchsorted(sorted_keys, above)]
            mass = np.exp(rows.log_edge[here])
            np.add.at(seen, parents, mass)
            np.add.at(kept, parents, mass * bound[here])
    roots = np.flatnonzero(rows.depth == 0)
    with np.errstate(divide="ignore"):
        return dict(zip(rows.request[roots].tolist(), np.log(bound[roots]).tolist(), strict=True))
