"""Greedy rollouts: what a model would write next, by itself and under the mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD
from cdec.samplers.lookahead.models import Greedy
from cdec.samplers.walks.events import NONE
from cdec.samplers.walks.frontier import Frontier

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Greedy continuations of W walks, up to L events each; the end of a text is an event.

    Attributes:
        events: int64[W, L] tokens or END, NONE behind the last.
        forced: bool[W, L] whether the constraint left nothing else, and no model was asked.
        lengths: int64[W] how many events.
        contexts: int64[W, L + 1] prefixes after 0, 1, ... events; behind the last event, the whole
            text's.
        levels: After each number of events, the walks that can go on (ascending) and where they
            stand.
    """

    events: NDArray[np.int64]
    forced: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    contexts: NDArray[np.int64]
    levels: list[tuple[NDArray[np.int64], Frontier]]

    @property
    def last(self) -> NDArray[np.int64]:
        """Contexts of the whole texts, int64[W]."""
        return self.contexts[:, -1]

    def prefixes(self) -> list[Frontier]:
        """Return all prefixes that something may follow, level by level."""
        return [walks for _, walks in self.levels]

    def is_open(self, rows: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which walks ``rows`` (int64[n]) can go on after ``index`` (int64[n]) events."""
        found = np.zeros(len(rows), np.bool_)
        for number in np.unique(index).tolist():
            if number < len(self.levels):
                mine = index == number
                found[mine] = np.isin(rows[mine], self.levels[number][0])
        return found

    def at(self, rows: NDArray[np.int64], index: NDArray[np.int64]) -> Frontier:
        """Return walks ``rows`` (int64[n]) after ``index`` (int64[n]) events, all of them open."""
        parts, places = [], []
        for number in np.unique(index).tolist():
            mine = np.flatnonzero(index == number)
            known, walks = self.levels[number]
            parts.append(walks.take(np.searchsorted(known, rows[mine])))
            places.append(mine)
        joined = parts[0] if parts else self.levels[0][1].take(rows)
        for part in parts[1:]:
            joined = joined.joined(part)
        if len(parts) < 2:
            return joined
        return joined.take(np.argsort(np.concatenate(places)))


def roll_out(model: Greedy, start: Frontier, depth: int) -> Rollout:
    """Continue walks by their most probable events.

    A continuation stops after ``depth`` events, at an end event, at the length limit, at a dead end
    or where the constraint ends the text. Memory: by the events there are, however large ``depth``.

    Args:
        model: Asked wherever the constraint leaves a choice.
        start: W walks that are not finished.
        depth: d, most events.
    """
    n = len(start.context)
    rows, walks = np.arange(n), start
    levels, contexts = [(rows, walks)], [start.context]
    events, forced = [], []
    for _ in range(depth):
        below = np.flatnonzero(walks.depth < walks.batch.limits[walks.request])
        if not below.size:
            break
        if len(below) < len(rows):
            rows, walks = rows[below], walks.take(below)
        chosen, sure = _greedy(model, walks)
        events.append(_column(n, rows, chosen, NONE))
        forced.append(_column(n, rows, sure, 0))
        going = np.flatnonzero(chosen >= 0)
        reached, is_open = onward(walks, going, chosen[going])
        contexts.append(contexts[-1].copy())
        contexts[-1][rows[going]] = reached.context
        rows, walks = rows[going[is_open]], reached.take(is_open)
        if not rows.size:
            break
        levels.append((rows, walks))
    said = np.stack(events, 1) if events else np.empty((n, 0), np.int64)
    sure = np.stack(forced, 1) if forced else np.empty((n, 0), np.bool_)
    return Rollout(said, sure, (said != NONE).sum(1), np.stack(contexts, 1), levels)


def onward(
    walks: Frontier, rows: NDArray[np.int64], tokens: NDArray[np.int64]
) -> tuple[Frontier, NDArray[np.int64]]:
    """Let walks ``rows`` (int64[n]) take a token each, int64[n].

    Returns:
        Where they stand, all of them; and which of these (int64[m]) can go on: not ended by their
        constraint, not dead, and not at their limit without being members.
    """
    reached = walks.advance(rows, tokens, np.zeros(len(rows)))
    is_dead = reached.batch.to_host(reached.state) == DEAD
    return reached, np.flatnonzero(~reached.is_done() & ~is_dead & ~reached.is_overlong())


def forced_chain(walks: Frontier) -> list[Frontier]:
    """Return the prefixes that surely follow, level by level: ``walks``, then forced tokens."""
    levels = [walks]
    while True:
        tokens = walks.batch.forced(walks.request, walks.state)
        rows = np.flatnonzero((tokens >= 0) & (walks.depth < walks.batch.limits[walks.request]))
        if not rows.size:
            return levels
        reached, is_open = onward(walks, rows, tokens[rows])
        walks = reached.take(is_open)
        levels.append(walks)


def _column(
    n: int, rows: NDArray[np.int64], values: NDArray[_Scalar], fill: int
) -> NDArray[_Scalar]:
    """Return a column of n ``fill`` with values in some rows (int64[m])."""
    column = np.full(n, fill, values.dtype)
    column[rows] = values
    return column


def _greedy(model: Greedy, walks: Frontier) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the next event of each walk, int64[n], and whether it was forced, bool[n]."""
    tokens = walks.batch.forced(walks.request, walks.state)
    forced = tokens >= 0
    if not forced.any():
        return model.next_events(walks), forced
    free = np.flatnonzero(~forced)
    if free.size:
        tokens[free] = model.next_events(walks.take(free))
    return tokens, forced
