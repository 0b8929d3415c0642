"""Best-first search over the prefix trees of a batch, all records' rounds in lockstep.

P of a prefix bounds P of every text that begins with it. A round looks at up to ``round`` prefixes
of a record, in the order of ``queue``, and a record is done when its n-th best text is no worse
than every bound that is left (design, ALGORITHMS section 3).

With each prefix goes a likely completion of it (``queue.Guide``), or else the tokens that the
constraint forces, through the model in one pass: one call for all prefixes along a text, each of
which lists its next tokens. So a call nearly always finds a member of a set.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.prefix_tree import Visit
from cdec.samplers.search.members import Found
from cdec.samplers.search.queue import (
    FIRST_WIDTH,
    Expansion,
    Guide,
    Items,
    OpenPrefix,
    Queue,
    Successors,
    guide_of,
    items_of,
    successors_of,
)
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.decoding import chunks
from cdec.samplers.walks.events import BestEvents, host_scores
from cdec.samplers.walks.frontier import NONE, Frontier, Step

CUT = NONE - 1
"""Token of a prefix that nothing may follow."""


class Prefixes:
    """Prefixes that were visited or are queued.

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
        listed: list[Successors],
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

    def learn(
        self, places: Frontier, listed: list[Successors], log_end: NDArray[np.float64]
    ) -> None:
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
                wider = successors_of(best_events(Step.of(places), width), width)
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
        session = None if number == UNCONSTRAINED else self._batch.sessions[number]
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


_PASS_BYTES = 64 << 20
"""Bytes of distributions that what follows prefixes may fill in one pass."""


class Search:
    """Searches the best members of every request with a draw.

    What a record looks at depends on its own rounds alone, never on what else is in the batch.

    Args:
        batch: The open requests.
        wanted: int64[R] members of each request; requests with 0 are left out.
        by_text: Whether members of equal text are one.
        round: Prefixes of a record that are looked at together.
        max_evaluations: Most prefixes of a record that are looked at, those that follow in the same
            pass not counted; None for no limit.
        max_walks: Prefixes evaluated together; changes no result.

    Attributes:
        requests: int64[...] those searched.
        found: By request. queues: By request.
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
        self._most = np.iinfo(np.int64).max if max_evaluations is None else max_evaluations
        self._max_walks = max_walks
        self.requests = np.flatnonzero(wanted > 0)
        numbers = self.requests.tolist()
        self._prefixes = Prefixes(batch, self.requests, round, max_walks)
        self.queues = self._prefixes.queues
        self.found = {
            r: Found(int(wanted[r]), _Keys(batch, r, by_text), batch.model.tokens) for r in numbers
        }
        self._looked_at = dict.fromkeys(numbers, 1)

    def run(self) -> None:
        """Search until every record is done, or has spent its budget."""
        self._visit(Frontier.at_start(self._batch, self.requests, np.zeros_like(self.requests)))
        self._prefixes.weigh()
        while expansions := self._take():
            self._prefixes.widen([each.context for each in expansions if each.token == NONE])
            steps = [each for each in expansions if each.token != NONE]
            if steps:
                self._visit(self._children(steps))
            self._prefixes.weigh()

    def _take(self) -> list[Expansion]:
        expansions: list[Expansion] = []
        for r in self.requests.tolist():
            guide, queue = self._prefixes.guides[r], self.queues[r]
            if guide is not None and guide.renew():
                queue.guess_anew(guide.totals(queue.items.state))
            # subtle: what is taken counts, be it evaluated or not. So a larger budget takes the
            # same and then more, and its list is never worse.
            mine = queue.take(self._most - self._looked_at[r], self.found[r].floor)
            self._looked_at[r] += len(mine)
            expansions += mine
        return expansions

    def _children(self, expansions: list[Expansion]) -> Frontier:
        """Return the prefixes that ``expansions`` lead to."""
        parents = self._prefixes.frontier([each.context for each in expansions])
        tokens = np.array([each.token for each in expansions], np.int64)
        log_p = np.array([each.log_p for each in expansions], np.float64)
        return parents.advance(np.arange(len(expansions)), tokens, log_p)

    def _visit(self, places: Frontier) -> None:
        """Look at prefixes nobody looked at, and at those that follow in the same pass."""
        places = self._still_wanted(places.take(self._going(places)))
        places, following = self._read(places)
        # Level by level, whatever fits together: the order in which items come decides ties.
        while places.context.size:
            tokens = following[:, 0] if following.shape[1] else np.full(len(following), NONE)
            rows = np.flatnonzero(tokens != NONE)
            parts = [
                self._evaluate(places.take(part), tokens[part])
                for part in _parts(places.request, self._max_walks)
            ]
            places = reduce(Frontier.joined, parts)
            going = self._going(places)
            places, following = places.take(going), following[rows[going], 1:]

    def _going(self, places: Frontier) -> NDArray[np.int64]:
        """Record whole texts and cut ones, and return which prefixes go on, int64[...]."""
        done = places.is_done()
        if done.any():
            whole = places.take(np.flatnonzero(done))
            self._prefixes.note_visits(whole)
            nothing_left = np.zeros(len(whole.context))
            self._tree.visit(whole, Visit(nothing_left, evaluated=False, exact=True, terminal=True))
            self._finish(whole, whole.log_prefix)
        rows = np.flatnonzero(~done)
        cut = places.take(rows).is_cut()
        self._prefixes.note_visits(places.take(rows[cut]))
        return rows[~cut]

    def _still_wanted(self, places: Frontier) -> Frontier:
        """Leave out what texts found in this very round have made superfluous."""
        floors = np.array([self.found[r].floor for r in places.request.tolist()])
        is_wanted = places.log_prefix > floors
        for i in np.flatnonzero(~is_wanted).tolist():
            self.queues[int(places.request[i])].leave_out(float(places.log_prefix[i]))
        return places.take(np.flatnonzero(is_wanted))

    def _read(self, places: Frontier) -> tuple[Frontier, NDArray[np.int64]]:
        """Evaluate prefixes and what follows each, in one pass.

        Returns:
            The places, with ``ahead`` set; and the tokens that follow, int64[W, L], NONE after.
        """
        batch, n = self._batch, len(places.context)
        guessed = self._guessed(places)
        walk, alive = places, np.arange(n)
        contexts: list[NDArray[np.int64]] = [places.context]
        columns: list[NDArray[np.int64]] = []
        lengths = np.zeros(n, np.int64)
        while alive.size:
            depth, tokens = len(columns), batch.forced(walk.request, walk.state)
            if depth < guessed.shape[1]:
                tokens = np.where(guessed[alive, depth] >= 0, guessed[alive, depth], tokens)
            rows = np.flatnonzero((tokens >= 0) & (walk.depth < batch.limits[walk.request]))
            if not rows.size:
                break
            columns.append(np.full(n, NONE, np.int64))
            columns[-1][alive[rows]] = tokens[rows]
            walk = walk.advance(rows, tokens[rows], np.zeros(len(rows)))
            going = np.flatnonzero(~walk.is_done() & ~walk.is_overlong())
            alive, walk = alive[rows[going]], walk.take(going)
            lengths[alive] += 1
            contexts.append(walk.context)
        # Breadth first: where room is scarce, what is left out is evaluated later.
        room = min(self._max_walks, _PASS_BYTES // (4 * batch.model.vocabulary.width))
        batch.model.evaluate(np.concatenate(contexts)[: max(1, room)])
        following = np.stack(columns, 1) if columns else np.zeros((n, 0), np.int64)
        return replace(places, ahead=lengths), following

    def _guessed(self, places: Frontier) -> NDArray[np.int64]:
        """Return the likely completions of prefixes, int64[W, L], NONE after the last token."""
        room = self._batch.limits[places.request] - places.depth
        width = int(room.max(initial=0))
        # subtle: no member is longer than the longest, whoever asks for a billion tokens.
        guided = [r for r, guide in self._prefixes.guides.items() if guide is not None]
        asked = [self._batch.requests[r].constraint for r in guided]
        longest = [width if c is None or c.max_tokens is None else c.max_tokens for c in asked]
        width = min(width, max(longest, default=0))
        guessed = np.full((len(places.request), width), NONE, np.int64)
        states = places.host_states()
        for r, guide in self._prefixes.guides.items():
            rows = np.flatnonzero(places.request == r)
            if guide is not None and rows.size:
                tokens = guide.tokens(states[rows], guessed.shape[1])
                guessed[rows, : tokens.shape[1]] = tokens
        return guessed

    def _evaluate(self, places: Frontier, tokens: NDArray[np.int64]) -> Frontier:
        """Record distinct prefixes that were evaluated, and queue what may follow them.

        Args:
            places: W prefixes. tokens: int64[W] token that each goes on by at once, NONE for none.

        Returns:
            Where these tokens lead, in the order of ``places``.
        """
        step = Step.of(places)
        listed_events = best_events(step, FIRST_WIDTH)
        listed = successors_of(listed_events, FIRST_WIDTH)
        log_end = listed_events.log_end
        # Past the limit no text goes on: what would follow is cut off, and weighed.
        at_limit = places.depth >= self._batch.limits[places.request]
        rows = np.flatnonzero(tokens != NONE)
        log_p = _log_p(step, rows, tokens[rows])
        log_listed = np.array([_log_sum(listing) for listing in listed])
        log_mass = np.where(at_limit, log_end, np.logaddexp(log_listed, log_end))
        log_truncated = np.where(at_limit, log_listed, -np.inf)
        self._prefixes.note_visits(places)
        self._tree.visit(places, Visit(log_mass, log_end, log_truncated, exact=True))
        self._finish(places, places.log_prefix + log_end)
        self._prefixes.learn(places, listed, log_end)
        after = places.advance(rows, tokens[rows], log_p)
        self._prefixes.open(places, listed, log_end, np.where(at_limit, CUT, tokens))
        return after

    def _finish(self, places: Frontier, log_p: NDArray[np.float64]) -> None:
        """Add the texts that end at ``places`` with log P (float64[W], -inf for none)."""
        for i in np.flatnonzero(log_p > -np.inf).tolist():
            self.found[int(places.request[i])].add(int(places.context[i]), float(log_p[i]))


class _Keys:
    """What tells members of one record apart, by their last context."""

    def __init__(self, batch: Batch, request: int, by_text: bool) -> None:
        self._model = batch.model
        is_unconstrained = batch.session_of[request] == UNCONSTRAINED
        self._constraint = None if is_unconstrained else batch.requests[request].constraint
        self._by_text = by_text

    def __call__(self, context: int) -> Hashable:
        if not self._by_text:
            return context
        token_ids = self._model.tokens(context)
        if self._constraint is None:
            return self._model.vocabulary.decode(token_ids)
        return self._constraint.member_text(token_ids)


def _parts(request: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Return rows to be evaluated together, in order: all, or parts of single records.

    subtle: sums are rounded in the order of their terms, so a record is split in its own way.
    """
    if len(request) <= size:
        return [np.arange(len(request))]
    starts = np.flatnonzero(np.diff(request, prepend=-1)).tolist()
    ends = [*starts[1:], len(request)]
    spans = zip(starts, ends, strict=True)
    return [first + part for first, end in spans for part in chunks(end - first, size)]


def _log_p(step: Step, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log P of one token after each of the walks ``rows``, float64[n]."""
    if not rows.size:
        return np.zeros(0)
    scores, log_normalizer = host_scores(step)
    at = step.rows[step.walk_node[rows]]
    log_p: NDArray[np.float64] = scores[at, tokens].astype(np.float64) - log_normalizer[at]
    return log_p


def _log_sum(listing: Successors) -> float:
    """Return the log of the mass of all next tokens, listed or not."""
    return float(np.logaddexp.reduce(np.append(listing.log_p, listing.log_rest)))
