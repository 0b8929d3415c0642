"""Best-first search over the prefix trees of a batch, all records' rounds in lockstep.

P of a prefix bounds P of every text that begins with it. So the search always goes on at the
prefixes of the best bounds, ``round`` of them a record at once, and a record is done when its n-th
best text is no worse than every bound that is left (design, ALGORITHMS section 3).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.learning.tree.prefix_tree import Visit
from cdec.samplers.search.found import Found
from cdec.samplers.search.queue import FIRST_WIDTH, OpenPrefix, Queue, Take, listings
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.events import NONE, BestEvents
from cdec.samplers.walks.frontier import Frontier
from cdec.samplers.walks.selection import chunks
from cdec.samplers.walks.step import Step


class Search:
    """Searches the best members of every request with a draw.

    What a record looks at depends on its own rounds alone, never on what else is in the batch.

    Args:
        batch: The open requests.
        wanted: int64[R] members of each request; requests with 0 are left out.
        by_text: Whether members of equal text are one.
        round: Prefixes of a record that are looked at together.
        max_evaluations: Most prefixes of a record that are evaluated; None for no limit.
        max_walks: Prefixes evaluated together; changes no result.

    Attributes:
        requests: int64[...] those searched.
        found: By request. queues: By request.
        evaluations: int64[R] prefixes evaluated.
        has_dropped: bool[R] whether prefixes were left out that could hold texts.
    """

    def __init__(
        self,
        batch: Batch,
        wanted: NDArray[np.int64],
        *,
        by_text: bool,
        round: int,
        max_evaluations: int | None,
        max_walks: int,
    ) -> None:
        self._batch = batch
        self._tree = batch.tree
        self._round = round
        self._most = np.iinfo(np.int64).max if max_evaluations is None else max_evaluations
        self._max_walks = max_walks
        self.requests = np.flatnonzero(wanted > 0)
        self.queues = {r: Queue() for r in self.requests.tolist()}
        self.found = {
            r: Found(int(wanted[r]), _Keys(batch, r, by_text), batch.model.tokens)
            for r in self.requests.tolist()
        }
        self.evaluations = np.zeros(len(batch.requests), np.int64)
        self.has_dropped = np.zeros(len(batch.requests), np.bool_)
        self._tree.add_column("state", np.int64, 0)

    def run(self) -> None:
        """Search until every record is done, or has spent its budget."""
        first = Frontier.at_start(self._batch, self.requests, np.zeros_like(self.requests))
        self._visit(first)
        while takes := self._take():
            self._widen([take.context for take in takes if take.token == NONE])
            steps = [take for take in takes if take.token != NONE]
            if steps:
                self._visit(self._children(steps))
            self._weigh(takes)

    def is_open(self, request: int) -> bool:
        """Say whether a text that is not found could still be among the best."""
        return self.queues[request].bound > self.found[request].floor

    def _take(self) -> list[Take]:
        takes: list[Take] = []
        for r in self.requests.tolist():
            most = min(self._round, self._most - int(self.evaluations[r]))
            takes += self.queues[r].take(most, self.found[r].floor)
        return takes

    def _children(self, takes: list[Take]) -> Frontier:
        """Return the prefixes that ``takes`` lead to."""
        parents = self._frontier([take.context for take in takes])
        tokens = np.array([take.token for take in takes], np.int64)
        log_p = np.array([take.log_p for take in takes], np.float64)
        return parents.advance(np.arange(len(takes)), tokens, log_p)

    def _visit(self, places: Frontier) -> None:
        """Look at prefixes nobody looked at: whole texts, cut ones, and those to be evaluated."""
        done = places.is_done()
        if done.any():
            whole = places.take(np.flatnonzero(done))
            nothing_left = np.zeros(len(whole.context))
            self._tree.visit(whole, Visit(nothing_left, evaluated=False, exact=True, terminal=True))
            self._finish(whole, whole.log_prefix)
            places = places.take(np.flatnonzero(~done))
        places = self._still_wanted(places)
        places = places.take(np.flatnonzero(~places.is_cut()))
        for rows in chunks(len(places.context), self._max_walks):
            self._evaluate(places.take(rows))

    def _still_wanted(self, places: Frontier) -> Frontier:
        """Leave out what texts found in this very round have made superfluous."""
        floors = np.array([self.found[r].floor for r in places.request.tolist()])
        is_wanted = places.log_prefix > floors
        for i in np.flatnonzero(~is_wanted).tolist():
            parent = self._prefix(int(places.request[i]), int(places.parent[i]))
            dropped = np.logaddexp(parent.log_dropped, places.log_edge[i])
            parent.log_dropped = float(dropped)
            self.has_dropped[places.request[i]] = True
        return places.take(np.flatnonzero(is_wanted))

    def _evaluate(self, places: Frontier) -> None:
        """Evaluate distinct prefixes, record them, and queue what may follow them."""
        found = _best(places, FIRST_WIDTH)
        listed = listings(found, FIRST_WIDTH)
        # Past the limit no text goes on: what would follow is cut off, and weighed.
        at_limit = places.depth >= self._batch.limits[places.request]
        log_listed = np.array([listing.log_left[0] for listing in listed])
        log_mass = np.where(at_limit, found.log_end, np.logaddexp(log_listed, found.log_end))
        log_beyond = np.where(at_limit, log_listed, -np.inf)
        self._tree.visit(places, Visit(log_mass, found.log_end, log_beyond, exact=True))
        np.add.at(self.evaluations, places.request, 1)
        self._finish(places, places.log_prefix + found.log_end)
        for i in np.flatnonzero(~at_limit).tolist():
            log_prefix, log_end = float(places.log_prefix[i]), float(found.log_end[i])
            prefix = OpenPrefix(log_prefix, log_end, listed[i])
            self.queues[int(places.request[i])].add(int(places.context[i]), prefix)

    def _finish(self, places: Frontier, log_p: NDArray[np.float64]) -> None:
        """Add the texts that end at ``places`` with log P (float64[W], -inf for none)."""
        for i in np.flatnonzero(log_p > -np.inf).tolist():
            self.found[int(places.request[i])].add(int(places.context[i]), float(log_p[i]))

    def _widen(self, contexts: list[int]) -> None:
        """List more next tokens of prefixes whose lists are used up."""
        by_width: dict[int, list[int]] = {}
        for context in contexts:
            listing = self._prefix(self._request(context), context).listing
            by_width.setdefault(2 * listing.width, []).append(context)
        for width, mine in sorted(by_width.items()):
            for rows in chunks(len(mine), self._max_walks):
                part = mine[rows[0] : rows[-1] + 1]
                wider = listings(_best(self._frontier(part), width), width)
                for context, listing in zip(part, wider, strict=True):
                    request = self._request(context)
                    prefix = self._prefix(request, context)
                    prefix.listing = prefix.listing.merged(listing)
                    self.queues[request].push(context)

    def _weigh(self, takes: list[Take]) -> None:
        """Tell the tree what mass the visited children of the expanded prefixes do not cover."""
        contexts = np.unique(np.array([take.context for take in takes], np.int64))
        log_mass = []
        for context in contexts.tolist():
            prefixes = self.queues[self._request(context)].prefixes
            log_mass.append(prefixes[context].log_mass)
            if prefixes[context].bound == -np.inf:
                del prefixes[context]  # Nothing is left of it.
        self._tree["mass"][contexts] = log_mass
        self._tree.touch(contexts)

    def _frontier(self, contexts: list[int]) -> Frontier:
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

    def _request(self, context: int) -> int:
        return int(self._tree["request"][context])

    def _prefix(self, request: int, context: int) -> OpenPrefix:
        return self.queues[request].prefixes[context]


class _Keys:
    """What tells members of one record apart, by their last context."""

    def __init__(self, batch: Batch, request: int, by_text: bool) -> None:
        self._model = batch.model
        is_free = batch.session_of[request] == FREE
        self._constraint = None if is_free else batch.requests[request].constraint
        self._by_text = by_text

    def __call__(self, context: int) -> Hashable:
        if not self._by_text:
            return context
        token_ids = self._model.tokens(context)
        if self._constraint is None:
            return self._model.vocabulary.decode(token_ids)
        return self._constraint.member_text(token_ids)


def _best(places: Frontier, width: int) -> BestEvents:
    """Evaluate distinct prefixes and return their ``width + 1`` best events, no limit regarded."""
    step = Step.of(places)
    found = events.best(step.without_limit(), width + 1)
    at = step.walk_node
    return BestEvents(
        found.tokens[at], found.log_p[at], found.log_end[at], found.log_z[at], found.missed[at]
    )
