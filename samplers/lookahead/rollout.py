"""Greedy rollouts: the best events of target and draft after a prefix, and the texts they lead to.

Each prefix is evaluated once in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD
from cdec.samplers.walks import events
from cdec.samplers.walks.decoding import chunks
from cdec.samplers.walks.events import BestEvents, host_scores
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step, with_room

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.drafts.models import ModelDrafting

_UNKNOWN = -3
_NOBODY = np.iinfo(np.int64).max


class Greedy(Protocol):
    """A masked model that is asked for its most probable events."""

    def next_events(self, walks: Frontier) -> NDArray[np.int64]:
        """Return the most probable event after each prefix, int64[n]: a token, END or NONE.

        Of equally probable events the lowest token id comes first, and the end last.
        """


class TargetEvents:
    """The ``branch`` most probable allowed events of the target's prefixes.

    What was found is kept by context, so neither the model's caches nor their budgets matter: a
    prefix is evaluated once in a batch.

    Args:
        ledger: Books the calls.
        branch: k, events kept a prefix; no more than there are ids.
        max_rows: Prefixes that are evaluated together; bounds memory, changes no account.
    """

    def __init__(self, ledger: Ledger, branch: int, max_rows: int) -> None:
        self._ledger = ledger
        self._branch = branch
        self._max_rows = max_rows
        # By context, its place in the columns below: rollouts of a draft pass by many contexts
        # that are never asked here.
        self._place = np.full(1024, _UNKNOWN, np.int64)
        self._is_read = np.zeros(1024, np.bool_)
        self._known = 0
        self._events = np.full((1, branch), NONE, np.int64)
        self._log_p = np.zeros((1, branch))
        self._log_z = np.zeros((1, 2))

    def begin(self) -> None:
        """Forget which prefixes were read, as new walks begin: path calls know no cache."""
        self._is_read[:] = False

    def is_read(self, contexts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which contexts (int64[n]) were asked for since ``begin``, bool[n]."""
        self._is_read = with_room(self._is_read, contexts, 0)
        return self._is_read[contexts]

    def evaluate(self, levels: list[Frontier]) -> None:
        """Book the prefixes of one pass, level by level, and evaluate those not known yet."""
        # subtle: the ledger must hear of known prefixes too, or a prefix would belong to the draw
        # that happened to come first, and not to the lowest one.
        self._ledger.evaluate(levels)
        new = []
        for level in levels:
            self._is_read = with_room(self._is_read, level.context, 0)
            self._is_read[level.context] = True
            rows = np.flatnonzero(~self.is_known(level.context))
            if rows.size:
                new.append(level if len(rows) == len(level.context) else level.take(rows))
        if new:
            nodes = _joined(new).nodes()
            for rows in chunks(len(nodes.context), self._max_rows):
                step = Step.of(nodes.take(rows))
                self._keep(step.nodes.context, events.best(step, self._branch))

    def is_known(self, contexts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which contexts (int64[n]) were evaluated, bool[n]."""
        self._place = with_room(self._place, contexts, _UNKNOWN)
        known: NDArray[np.bool_] = self._place[contexts] != _UNKNOWN
        return known

    def best(self, contexts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the best events of known contexts (int64[n]) and their log P, [n, branch] each.

        Best first, ties as in ``Greedy``; NONE and -inf where there are fewer.
        """
        places = self._place[contexts]
        return self._events[places], self._log_p[places]

    def masses(
        self, contexts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return log Z and log P(end) of known contexts (int64[n]), float64[n] each."""
        places = self._place[contexts]
        return self._log_z[places, 0], self._log_z[places, 1]

    def log_p_of(self, walks: Frontier, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P of one allowed event after each known prefix, float64[n].

        Args:
            walks: n prefixes. chosen: int64[n] a token or END.
        """
        found, log_best = self.best(walks.context)
        is_it, is_end = found == chosen[:, None], chosen == END
        log_p: NDArray[np.float64] = log_best[np.arange(len(chosen)), is_it.argmax(1)]
        log_p[is_end] = self.masses(walks.context)[1][is_end]
        rows = np.flatnonzero(~is_it.any(1) & ~is_end)
        if rows.size:
            step = Step.of(walks.take(rows))
            scores, log_normalizer = host_scores(step)
            at = step.rows[step.walk_node]
            log_p[rows] = scores[at, chosen[rows]].astype(np.float64) - log_normalizer[at]
        return log_p

    def next_events(self, walks: Frontier) -> NDArray[np.int64]:
        """Return the most probable event after each prefix; see ``Greedy``."""
        walks.batch.count_calls(walks.request, walks.draw)
        self.evaluate([walks])
        found: NDArray[np.int64] = self._events[self._place[walks.context], 0]
        return found

    def _keep(self, contexts: NDArray[np.int64], found: BestEvents) -> None:
        """Keep what was found at distinct contexts (int64[N]), tokens and end ranked together."""
        ends = np.full((len(contexts), 1), END)
        tokens = np.concatenate([found.tokens, ends], axis=1)
        log_p = np.concatenate([found.log_p, found.log_end[:, None]], axis=1)
        # A stable sort: tokens are in order already, and the end comes after its equals: one of
        # probability 0 after NONE, so never among the first.
        order = np.argsort(-log_p, axis=1, kind="stable")[:, : self._branch]
        log_p = np.take_along_axis(log_p, order, 1)
        tokens = np.take_along_axis(tokens, order, 1)
        places = self._known + np.arange(len(contexts))
        self._place[contexts] = places
        self._known += len(contexts)
        self._events = with_room(self._events, places, NONE)
        self._log_p = with_room(self._log_p, places, 0.0)
        self._log_z = with_room(self._log_z, places, 0.0)
        self._events[places], self._log_p[places] = tokens, log_p
        self._log_z[places] = np.stack([found.log_z, found.log_end], 1)


class DraftEvents:
    """The most probable allowed events of the draft after the target's prefixes.

    Args:
        drafting: The draft at work; it counts its calls.
        max_rows: As in ``TargetEvents``.

    Attributes:
        path_calls: How often it was asked, whether or not it knew: calls without any cache.
    """

    def __init__(self, drafting: ModelDrafting, max_rows: int) -> None:
        self.path_calls = 0
        self._drafting = drafting
        self._max_rows = max_rows
        self._events = np.full(1024, _UNKNOWN, np.int64)
        self._log_share = np.full(1024, np.nan)
        # By context: the lowest draw that asked.
        self._asked_by = np.full(1024, _NOBODY, np.int64)

    def next_events(self, walks: Frontier) -> NDArray[np.int64]:
        """Return the most probable event after each prefix; see ``Greedy``.

        NONE also where the draft's context is full.
        """
        contexts, known = walks.context, self._is_known(walks.context)
        self.path_calls += len(contexts)
        # A call belongs to the lowest draw that ever needs it, as in ``Ledger``.
        shared = np.flatnonzero(known & (walks.draw < self._asked_by[contexts]))
        if shared.size:
            self._drafting.count(walks.take(shared))
        new = np.flatnonzero(~known)
        nodes = walks.take(new).nodes() if new.size else walks
        for rows in chunks(len(nodes.context) if new.size else 0, self._max_rows):
            asked = nodes.take(rows)
            guess = self._drafting.guess(asked, None)
            self._events[asked.context] = guess.events
            self._log_share = with_room(self._log_share, asked.context, np.nan)
            if guess.log_share is not None:
                self._log_share[asked.context] = guess.log_share
        np.minimum.at(self._asked_by, contexts, walks.draw)
        return self._events[contexts]

    def log_share_of(self, contexts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log of the draft's own, masked probability of what it said at known contexts.

        Args:
            contexts: int64[n].

        Returns:
            float64[n].
        """
        found: NDArray[np.float64] = self._log_share[contexts]
        return found

    def _is_known(self, contexts: NDArray[np.int64]) -> NDArray[np.bool_]:
        self._events = with_room(self._events, contexts, _UNKNOWN)
        self._asked_by = with_room(self._asked_by, contexts, _NOBODY)
        known: NDArray[np.bool_] = self._events[contexts] != _UNKNOWN
        return known


def _joined(levels: list[Frontier]) -> Frontier:
    """Return all walks of some levels (at least one); n log n, whatever the number of levels."""
    while len(levels) > 1:
        pairs = zip(levels[::2], levels[1::2], strict=False)
        levels = [one.joined(other) for one, other in pairs] + levels[len(levels) & ~1 :]
    return levels[0]


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
        parts: list[Frontier] = []
        places = []
        for number in np.unique(index).tolist():
            mine = np.flatnonzero(index == number)
            known, walks = self.levels[number]
            parts.append(walks.take(np.searchsorted(known, rows[mine])))
            places.append(mine)
        if len(parts) < 2:
            return parts[0] if parts else self.levels[0][1].take(rows)
        return parts[0].joined(*parts[1:]).take(np.argsort(np.concatenate(places)))


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
