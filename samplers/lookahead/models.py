"""What the target and the draft say next: the best events of prefixes, each evaluated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks import events
from cdec.samplers.walks.allowed import host_scores
from cdec.samplers.walks.context_columns import with_room
from cdec.samplers.walks.events import END, NONE, BestEvents
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.selection import chunks
from cdec.samplers.walks.step import Step

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Ledger
    from cdec.samplers.drafts.model_draft import ModelDrafting

_UNKNOWN = -3
_NOBODY = np.iinfo(np.int64).max


class Greedy(Protocol):
    """A masked model that is asked for its most probable events.

    Attributes:
        path_calls: How often it was asked, whether or not it knew: calls without any cache.
    """

    path_calls: int

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

    Attributes:
        path_calls: As in ``Greedy``; those that choose among candidates are added from outside.
    """

    def __init__(self, ledger: Ledger, branch: int, max_rows: int) -> None:
        self.path_calls = 0
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
        self.path_calls += len(walks.context)
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
        path_calls: As in ``Greedy``.
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
