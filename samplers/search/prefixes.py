"""Visited prefixes of all records of a search: what may follow each, queued with guesses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.search.guide import Guide, guide_of
from cdec.samplers.search.queue import Items, Listing, OpenPrefix, Queue, items_of, listings
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.events import NONE, BestEvents
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.selection import chunks
from cdec.samplers.walks.step import Step

CUT = NONE - 1
"""Token of a prefix that nothing may follow."""


class Prefixes:
    """What was visited and what is queued.

    Args:
        batch: The open requests.
        requests: int64[...] those searched.
        round: Prefixes of a record that are looked at together.
        max_walks: Prefixes evaluated together.

    Attributes:
        queues: By request. guides: By request; None where nothing can be guessed.
    """

    def __init__(
        self, batch: Batch, requests: NDArray[np.int64], round: int, max_walks: int
    ) -> None:
        self._batch = batch
        self._tree = batch.tree
        self._max_walks = max_walks
        self._touched: set[int] = set()
        self.guides = {r: self._guide(r) for r in requests.tolist()}
        self.queues = {r: Queue(round, in_turns=guide is None) for r, guide in self.guides.items()}
        self._tree.add_column("state", np.int64, 0)

    def open(
        self,
        places: Frontier,
        listed: list[Listing],
        log_end: NDArray[np.float64],
        tokens: NDArray[np.int64],
    ) -> None:
        """Queue what may follow prefixes, but for the token that each goes on by at once.

        Args:
            places: W prefixes. listed: Their next tokens. log_end: float64[W].
            tokens: int64[W] as in ``_evaluate``; CUT where nothing may follow.
        """
        rows, opened = [], []
        for i in np.flatnonzero(tokens != CUT).tolist():
            context, log_prefix = int(places.context[i]), float(places.log_prefix[i])
            prefix = OpenPrefix(int(places.depth[i]), log_prefix, float(log_end[i]), listed[i])
            self.queues[int(places.request[i])].prefixes[context] = prefix
            slots = np.flatnonzero(listed[i].tokens != tokens[i])
            rows.append(i)
            opened.append(items_of(context, prefix, slots))
        self._push(places, rows, opened)

    def _push(self, places: Frontier, rows: list[int], opened: list[Items]) -> None:
        """Queue the items of prefixes, those of ``places`` at ``rows``, with guesses."""
        for r in np.unique(places.request[rows]).tolist():
            mine = [i for i, row in enumerate(rows) if places.request[row] == r]
            items = Items.joined([opened[i] for i in mine])
            guide = self.guides[r]
            if guide is not None:
                counts = [len(opened[i].token) for i in mine]
                owners = np.repeat([rows[i] for i in mine], counts)
                state = self._states_after(places, owners, items)
                items = items._replace(state=state, guess=guide.totals(state))
            self.queues[r].push(items)

    def _states_after(
        self, places: Frontier, rows: NDArray[np.int64], items: Items
    ) -> NDArray[np.int64]:
        """Return the state after each item's token, before it for NONE, int64[n] on the host."""
        batch = self._batch
        states = places.host_states()[rows]
        listed = np.flatnonzero(items.token != NONE)
        at, tokens = batch.index(states[listed]), batch.index(items.token[listed])
        after = batch.advance_states(places.request[rows[listed]], at, tokens)
        states[listed] = batch.to_host(after)
        return states

    def learn(self, places: Frontier, listed: list[Listing], log_end: NDArray[np.float64]) -> None:
        """Let the guides learn how probable tokens and ends were."""
        for r in np.unique(places.request).tolist():
            guide = self.guides[r]
            if guide is None:
                continue
            mine = np.flatnonzero(places.request == r)
            rows = [listed[i] for i in mine.tolist()]
            tokens = np.concatenate([row.tokens for row in rows])
            guide.learn(tokens, np.concatenate([row.log_p for row in rows]))
            ended = mine[(log_end[mine] > -np.inf) & (places.token[mine] >= 0)]
            guide.learn_ends(places.token[ended], log_end[ended])

    def note_visits(self, places: Frontier) -> None:
        """Tell the prefixes before ``places`` that these are visited."""
        columns = (places.request, places.parent, places.token, places.log_edge)
        for r, parent, token, log_edge in zip(*(c.tolist() for c in columns), strict=True):
            if parent >= 0:
                self.queues[r].prefixes[parent].visit(token, log_edge)
                self._touched.add(parent)

    def widen(self, contexts: list[int]) -> None:
        """List more next tokens of prefixes whose lists are used up."""
        by_width: dict[int, list[int]] = {}
        for context in contexts:
            width = self._prefix(self._request(context), context).listing.width
            by_width.setdefault(2 * width, []).append(context)
        for width, mine in sorted(by_width.items()):
            for rows in chunks(len(mine), self._max_walks):
                part = mine[rows[0] : rows[-1] + 1]
                places, opened = self.frontier(part), []
                wider = listings(best_events(Step.of(places), width), width)
                for context, listing in zip(part, wider, strict=True):
                    prefix = self._prefix(self._request(context), context)
                    opened.append(items_of(context, prefix, prefix.widen(listing)))
                self._push(places, list(range(len(part))), opened)
                self._touched.update(part)

    def weigh(self) -> None:
        """Tell the tree what mass the visited children of prefixes do not cover."""
        contexts = np.array(sorted(self._touched), np.int64)
        self._touched.clear()
        log_mass = [self._prefix(self._request(c), c).log_mass for c in contexts.tolist()]
        self._tree["mass"][contexts] = log_mass
        self._tree.touch(contexts)

    def frontier(self, contexts: list[int]) -> Frontier:
        """Return a frontier at visited prefixes, one walk each."""
        tree, batch, n = self._tree, self._batch, len(contexts)
        nodes = np.array(contexts, np.int64)
        request = tree["request"][nodes].astype(np.int64)
        pairs = zip(request.tolist(), contexts, strict=True)
        return Frontier(
            batch=batch,
            depth=tree["depth"][nodes].astype(np.int64),
            request=request,
            draw=np.zeros(n, np.int64),
            context=nodes,
            parent=tree["parent"][nodes].astype(np.int64),
            token=tree["token"][nodes].astype(np.int64),
            log_edge=tree["edge"][nodes],
            log_prefix=np.array([self._prefix(r, c).log_prefix for r, c in pairs], np.float64),
            state=batch.index(tree["state"][nodes]),
            in_run=np.zeros(n, np.bool_),
            ahead=np.zeros(n, np.int64),
        )

    def _guide(self, request: int) -> Guide | None:
        number = int(self._batch.session_of[request])
        session = None if number == FREE else self._batch.sessions[number]
        return guide_of(session, self._batch.model.vocabulary.width)

    def _request(self, context: int) -> int:
        return int(self._tree["request"][context])

    def _prefix(self, request: int, context: int) -> OpenPrefix:
        return self.queues[request].prefixes[context]


def best_events(step: Step, width: int) -> BestEvents:
    """Return the ``width + 1`` best events of each walk, no limit regarded."""
    found = events.best(step.without_limit(), width + 1)
    at = step.walk_node
    return BestEvents(
        found.tokens[at], found.log_p[at], found.log_end[at], found.log_z[at], found.missed[at]
    )
