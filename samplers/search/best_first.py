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
from cdec.samplers.search.listings import FIRST_WIDTH, Listings, Successors, successors_of
from cdec.samplers.search.members import Found
from cdec.samplers.search.queue import Guide, Items, Queue, first_completions
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
        self._touched: list[NDArray[np.int64]] = []
        self._listings = Listings()
        self.guides = _guides(batch, requests)
        self.queues = {r: Queue(round, in_turns=guide is None) for r, guide in self.guides.items()}
        self._tree.add_column("state", np.int64, 0)
        self._tree.add_column("listing", np.int64, -1)

    def open(
        self,
        places: Frontier,
        listed: Successors,
        log_end: NDArray[np.float64],
        tokens: NDArray[np.int64],
    ) -> None:
        """Queue what may follow prefixes, but for the token that each goes on by at once.

        Args:
            places: W prefixes. listed: Their next tokens. log_end: float64[W].
            tokens: int64[W] as in ``_evaluate``; CUT where nothing may follow.
        """
        on = np.flatnonzero(tokens != CUT)
        places, listed = places.take(on), listed.at(on)
        columns = places.context, places.depth, places.log_prefix, log_end[on]
        rows = self._listings.add(*columns, listed)
        self._tree["listing"][places.context] = rows
        keep = listed.is_listed & (listed.tokens != tokens[on, None])
        self._push(places, rows, listed, keep)

    def _push(
        self,
        places: Frontier,
        rows: NDArray[np.int64],
        listed: Successors,
        keep: NDArray[np.bool_],
    ) -> None:
        """Queue the items of prefixes, with guesses."""
        owner, items = self._listings.items(rows, listed, keep)
        request = places.request[owner]
        found = np.unique(places.request).tolist()
        guided = np.isin(request, [r for r in found if self.guides[r] is not None])
        if guided.any():
            items.state[guided] = self._states_after(places, owner[guided], items.token[guided])
        for r in found:
            guide, mine = self.guides[r], items.at(request == r)
            if guide is not None:
                mine = mine._replace(guess=guide.totals(mine.state))
            self.queues[r].push(mine)

    def _states_after(
        self, places: Frontier, rows: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the states after tokens, before them for NONE, int64[n] on the host."""
        batch = self._batch
        states = places.host_states()[rows]
        listed = np.flatnonzero(tokens != NONE)
        at, after = batch.index(states[listed]), batch.index(tokens[listed])
        states[listed] = batch.to_host(
            batch.advance_states(places.request[rows[listed]], at, after)
        )
        return states

    def learn(self, places: Frontier, listed: Successors, log_end: NDArray[np.float64]) -> None:
        """Let the guides learn how probable tokens and ends were."""
        for r in np.unique(places.request).tolist():
            guide = self.guides[r]
            if guide is None:
                continue
            mine = np.flatnonzero(places.request == r)
            rows = listed.at(mine)
            guide.learn(rows.tokens[rows.is_listed], rows.log_p[rows.is_listed])
            ended = mine[(log_end[mine] > -np.inf) & (places.token[mine] >= 0)]
            guide.learn_ends(places.token[ended], log_end[ended])

    def note_visits(self, places: Frontier) -> None:
        """Tell the prefixes before ``places`` that these are visited."""
        rows = np.flatnonzero(places.parent >= 0)
        parents = places.parent[rows]
        listings = self._tree["listing"][parents]
        self._listings.visit(listings, places.token[rows], places.log_edge[rows])
        self._touched.append(parents)

    def widen(self, contexts: NDArray[np.int64]) -> None:
        """List more next tokens of prefixes whose lists are used up."""
        widths = 2 * self._listings["width"][self._tree["listing"][contexts]]
        for width in np.unique(widths).tolist():
            mine = contexts[widths == width]
            for rows in chunks(len(mine), self._max_walks):
                places = self.frontier(mine[rows])
                self._batch.count_calls(places.request, places.draw)
                wider = successors_of(best_events(Step.of(places), width), width)
                listings = self._tree["listing"][places.context]
                is_new = self._listings.widen(listings, wider)
                self._push(places, listings, wider, is_new)
                self._touched.append(places.context)

    def weigh(self) -> None:
        """Tell the tree what mass the visited children of prefixes do not cover."""
        if self._touched:
            contexts = np.unique(np.concatenate(self._touched))
            self._touched.clear()
            listings = self._tree["listing"][contexts]
            self._tree["mass"][contexts] = self._listings.log_mass(listings)
            self._tree.touch(contexts)

    def frontier(self, nodes: NDArray[np.int64]) -> Frontier:
        """Return a frontier at visited prefixes, one walk each."""
        log_prefix = self._listings["log_prefix"][self._tree["listing"][nodes]]
        return replace(Frontier.at_visited(self._batch, nodes), log_prefix=log_prefix)


def _guides(batch: Batch, requests: NDArray[np.int64]) -> dict[int, Guide | None]:
    """Return the guide of every request, None where its session knows no completions."""
    width = batch.model.vocabulary.width
    sessions = batch.session_of[requests].tolist()
    constrained = {number for number in sessions if number != UNCONSTRAINED}
    first = {number: first_completions(batch.sessions[number], width) for number in constrained}
    return {
        r: None
        if (known := first.get(number)) is None
        else Guide(batch.sessions[number], known, width)
        for r, number in zip(requests.tolist(), sessions, strict=True)
    }


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
        while (taken := self._take()).token.size:
            is_step = taken.token != NONE
            self._prefixes.widen(taken.context[~is_step])
            if is_step.any():
                steps = taken.at(is_step)
                parents = self._prefixes.frontier(steps.context)
                self._visit(parents.advance(np.arange(len(steps.token)), steps.token, steps.log_p))
            self._prefixes.weigh()

    def _take(self) -> Items:
        """Take what the records look at in this round."""
        taken: list[Items] = []
        for r in self.requests.tolist():
            guide, queue = self._prefixes.guides[r], self.queues[r]
            if guide is not None and guide.renew():
                queue.guess_anew(guide.totals(queue.items.state))
            # subtle: what is taken counts, be it evaluated or not. So a larger budget takes the
            # same and then more, and its list is never worse.
            mine = queue.take(self._most - self._looked_at[r], self.found[r].floor)
            self._looked_at[r] += len(mine.token)
            taken.append(mine)
        return Items.joined(taken)

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
        self._batch.count_calls(places.request, places.draw)
        step = Step.of(places)
        listed_events = best_events(step, FIRST_WIDTH)
        listed = successors_of(listed_events, FIRST_WIDTH)
        log_end = listed_events.log_end
        # Past the limit no text goes on: what would follow is cut off, and weighed.
        at_limit = places.depth >= self._batch.limits[places.request]
        rows = np.flatnonzero(tokens != NONE)
        log_p = _log_p(step, rows, tokens[rows])
        log_listed = listed.log_mass
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
