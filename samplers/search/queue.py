"""Queues of a search: what of a record is still to be looked at, bounded and in an order.

A visited prefix lists its most probable next tokens. Each that nobody took is an *item* under its
bound, P of the prefix and the token; one more item stands for all tokens that are not listed: when
its turn comes the prefix is *widened*. Which item comes first is decided by its bound and a guess
of what follows (``Guide``).

Where nothing can be guessed, prefixes of one depth wait for each other alone, and the depths take
turns, from the shortest to the longest and again from the shortest, 1 item a turn in the first
sweep, then 2, 4, up to ``width``. So the search begins with beams, and every sweep adds the next
best at each depth ("Anytime Column Search", Vadlamudi, Gaurav, Aine and Chakrabarti, 2012). By
bounds alone it would look at nearly all short prefixes before it came to any text.

The guess is an estimate of what is still to come, which lets prefixes of unlike lengths be compared
(the future cost of phrase-based decoding: Koehn, Och and Marcu, 2003): log P of a prefix plus the
scores of the best completion after it, each token scored by the mean of its log P where it was
seen. Completions are those of the constraint's session, so a set is searched along its members. It
is a guess and no bound: it decides what is looked at first, never what is proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import Completions, Session
from cdec.samplers.walks.events import BestEvents
from cdec.samplers.walks.frontier import NONE

_TOKEN, _END = -6.0, -7.0
"""log P of a token, and of the end, before anything was seen; nats."""
_TOKENS, _ENDS = 4.0, 2.0
"""How many sightings these count for."""
_LEAST = -30.0
"""log P that counts for no less."""
_GRAIN = 2.0**-20
"""Of what is summed. subtle: multiples of it sum exactly, so no order of sums changes a result."""
_GROWTH = 1.2
"""By how much more must have been seen for completions to be found anew."""


class Guide:
    """Completions of one record.

    Args:
        session: Of its constraint; it knows completions.
        width: V.
    """

    def __init__(self, session: Session, width: int) -> None:
        self._session = session
        # Sums of log P and counts: row 0 of tokens, row 1 of ends after each token.
        self._sums = np.zeros((2, width))
        self._counts = np.zeros((2, width))
        self._found_at = 0.0
        self._found: Completions | None = None

    @property
    def is_known(self) -> bool:
        """True where the session knows completions."""
        return self._found is not None

    def learn(self, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        """Learn the log P of tokens, int64[n] and float64[n], each wherever it was allowed."""
        self._add(0, tokens, log_p)

    def learn_ends(self, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        """Learn the log P of ending after tokens, int64[n] and float64[n]."""
        self._add(1, tokens, log_p)

    def renew(self) -> bool:
        """Find completions anew if much was learnt since; say whether they were found."""
        seen = float(self._counts.sum()) + 1.0
        if seen < _GROWTH * self._found_at:
            return False
        self._found_at = seen
        scores = self._means(0, _TOKEN, _TOKENS)
        self._found = self._session.completions(scores, self._means(1, _END, _ENDS))
        return True

    def totals(self, states: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the guessed log P of what follows each state, float64[n]."""
        return np.zeros(len(states)) if self._found is None else self._found.totals(states)

    def tokens(self, states: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return likely completions, int64[n, most] tokens, -1 after the last."""
        if self._found is None:
            return np.full((len(states), 0), -1, np.int64)
        return self._found.tokens(states, most)

    def _add(self, row: int, tokens: NDArray[np.int64], log_p: NDArray[np.float64]) -> None:
        grains = np.round(np.maximum(log_p, _LEAST) / _GRAIN)
        np.add.at(self._sums[row], tokens, grains * _GRAIN)
        np.add.at(self._counts[row], tokens, 1.0)

    def _means(self, row: int, first: float, weight: float) -> NDArray[np.float64]:
        """Return each token's mean, drawn to the mean of all as if that had been seen once."""
        sums, counts = self._sums[row], self._counts[row]
        overall = (sums.sum() + weight * first) / (counts.sum() + weight)
        means: NDArray[np.float64] = (sums + overall) / (counts + 1.0)
        return means


def guide_of(session: Session | None, width: int) -> Guide | None:
    """Return the guide of a record, None where its session knows no completions."""
    if session is None:
        return None
    guide = Guide(session, width)
    guide.renew()
    return guide if guide.is_known else None


FIRST_WIDTH = 64
"""Next tokens listed at a new prefix; each widening doubles them."""
_ROUNDING = 1e-13
"""Share of a prefix's allowed mass that a difference of sums may have lost to rounding."""


class Expansion(NamedTuple):
    """One expansion: the prefix ``context`` goes on by ``token``, or is to be widened (NONE)."""

    context: int
    token: int
    log_p: float


@dataclass(slots=True)
class Successors:
    """Next tokens of a prefix, m of them.

    Attributes:
        tokens: int64[m]. log_p: float64[m].
        log_rest: Log of an upper bound of the mass of all tokens that are not listed.
        log_next: Upper bound of log p of each of them; both are -inf where all are listed.
        width: Tokens that were asked for.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_rest: float
    log_next: float
    width: int


@dataclass(slots=True)
class OpenPrefix:
    """A visited prefix.

    Attributes:
        depth: Its tokens.
        log_prefix: log P of the prefix. log_end: log P(end | prefix), -inf where it may not end.
        listing: Its next tokens.
        visited: bool[m] which of them were visited.
    """

    depth: int
    log_prefix: float
    log_end: float
    listing: Successors
    visited: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.visited = np.zeros(len(self.listing.tokens), np.bool_)

    @property
    def log_mass(self) -> float:
        """Log of an upper bound of the mass that no visited child covers, the end included."""
        own = np.array([self.log_end, self.listing.log_rest])
        unvisited = self.listing.log_p[~self.visited]
        return float(np.logaddexp.reduce(np.concatenate([own, unvisited])))

    def visit(self, token: int, log_p: float) -> None:
        """Note that the prefix with ``token`` is visited; it is listed from now on."""
        listing = self.listing
        at = np.flatnonzero(listing.tokens == token)
        if at.size:
            self.visited[at] = True
            return
        listing.tokens = np.append(listing.tokens, token)
        listing.log_p = np.append(listing.log_p, log_p)
        self.visited = np.append(self.visited, True)

    def widen(self, wider: Successors) -> NDArray[np.int64]:
        """List the tokens of ``wider`` too, int64[...] places of the new ones.

        On a device a second evaluation may order near ties anew: no token may come twice.
        """
        old, new = self.listing, ~np.isin(wider.tokens, self.listing.tokens)
        first, count = len(old.tokens), int(new.sum())
        tokens = np.concatenate([old.tokens, wider.tokens[new]])
        log_p = np.concatenate([old.log_p, wider.log_p[new]])
        self.listing = Successors(tokens, log_p, wider.log_rest, wider.log_next, wider.width)
        self.visited = np.append(self.visited, np.zeros(count, np.bool_))
        return np.arange(first, first + count)


class Items(NamedTuple):
    """n items.

    Attributes:
        context: int64[n] prefix. token: int64[n] next token, NONE for all that are not listed.
        log_p: float64[n] of the token. depth: int64[n] of the prefix.
        bound: float64[n] upper bound of log P of each text there. log_mass: float64[n] of all.
        state: int64[n] constraint state after the token; before it for NONE.
        guess: float64[n] guessed log P of what follows. number: int64[n] as they came.
    """

    context: NDArray[np.int64]
    token: NDArray[np.int64]
    log_p: NDArray[np.float64]
    depth: NDArray[np.int64]
    bound: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    state: NDArray[np.int64]
    guess: NDArray[np.float64]
    number: NDArray[np.int64]

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Items:
        """Return some of them."""
        return Items._make(column[rows] for column in self)

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Items:
        """Return the items of all parts, in order."""
        columns = zip(*(parts or [_NOTHING]), strict=True)
        return cls._make(np.concatenate(column) for column in columns)


def items_of(context: int, prefix: OpenPrefix, slots: NDArray[np.int64]) -> Items:
    """Return the listed tokens ``slots`` (int64[...]) of a prefix, and all that are not listed.

    States and guesses are to be filled in.
    """
    listing = prefix.listing
    rest = [listing.log_next] if listing.log_next > -np.inf else []
    log_p = np.concatenate([listing.log_p[slots], rest])
    n = len(log_p)
    log_rest = np.full(len(rest), listing.log_rest)
    return Items(
        context=np.full(n, context, np.int64),
        token=np.concatenate([listing.tokens[slots], np.full(len(rest), NONE, np.int64)]),
        log_p=log_p,
        depth=np.full(n, prefix.depth, np.int64),
        bound=prefix.log_prefix + log_p,
        log_mass=prefix.log_prefix + np.concatenate([listing.log_p[slots], log_rest]),
        state=np.zeros(n, np.int64),
        guess=np.zeros(n),
        number=np.zeros(n, np.int64),
    )


class Queue:
    """Items of one record.

    Args:
        width: Most items of a turn.
        in_turns: Whether depths take turns.

    Attributes:
        prefixes: Visited ones of which something was left, by context.
    """

    def __init__(self, width: int, *, in_turns: bool) -> None:
        self.prefixes: dict[int, OpenPrefix] = {}
        self._left_out = -np.inf
        self._width = width
        self._in_turns = in_turns
        self._turn, self._turn_width = 0, 1 if in_turns else width
        self._parts: list[Items] = []
        self._pushed = 0

    @property
    def bound(self) -> float:
        """Upper bound of log P of every text that is not found; -inf where all are."""
        return max(self._left_out, float(self.items.bound.max(initial=-np.inf)))

    @property
    def items(self) -> Items:
        """All items, in the order they came."""
        if len(self._parts) != 1:
            self._parts = [Items.joined(self._parts)]
        return self._parts[0]

    def push(self, items: Items) -> None:
        """Add items; those with bound -inf hold no text."""
        items = items.at(items.bound > -np.inf)
        numbers = np.arange(self._pushed, self._pushed + len(items.token))
        self._pushed += len(numbers)
        self._parts.append(items._replace(number=numbers))

    def guess_anew(self, guesses: NDArray[np.float64]) -> None:
        """Replace the guesses of all items, float64[n]."""
        self._parts = [self.items._replace(guess=guesses)]

    def leave_out(self, bound: float) -> None:
        """Note that a text whose log P is ``bound`` at most will never be looked at."""
        self._left_out = max(self._left_out, bound)

    def take(self, most: int, floor: float) -> list[Expansion]:
        """Take the items whose turn it is, the best first; what is not above ``floor`` is left out.

        Cost: O(items).
        """
        items = self.items
        is_wanted = items.bound > floor
        self.leave_out(float(items.bound[~is_wanted].max(initial=-np.inf)))
        items = items.at(is_wanted)
        rows = np.arange(len(items.token))
        if most > 0 and rows.size and self._in_turns:
            rows = self._whose_turn(items.depth)
        rows = rows[_first(items.bound[rows] + items.guess[rows], min(most, self._turn_width))]
        is_left = np.ones(len(items.token), np.bool_)
        is_left[rows] = False
        self._parts = [items.at(is_left)]
        taken = items.at(rows)
        columns = (taken.context.tolist(), taken.token.tolist(), taken.log_p.tolist())
        return [Expansion(*row) for row in zip(*columns, strict=True)]

    def most_above(self, log_p: float) -> float:
        """Return an upper bound of the number of texts not found whose log P is above ``log_p``.

        Under an item there are no more of them than times that its mass holds P.
        """
        if self.bound <= log_p:
            return 0.0
        log_mass = self.items.log_mass[self.items.bound > log_p]
        with np.errstate(over="ignore"):
            return float(np.floor(np.exp(log_mass - log_p) * (1 + _ROUNDING)).sum())

    def _whose_turn(self, depth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the items of the next depth that has any; a new sweep is twice as wide."""
        later = depth[depth >= self._turn]
        if not later.size:
            self._turn_width = min(self._width, 2 * self._turn_width)
        turn = int(later.min() if later.size else depth.min())
        self._turn = turn + 1
        return np.flatnonzero(depth == turn)


_WHOLE, _REAL = np.zeros(0, np.int64), np.zeros(0)
_NOTHING = Items(_WHOLE, _WHOLE, _REAL, _WHOLE, _REAL, _REAL, _WHOLE, _REAL, _WHOLE)


def _first(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the places of the ``most`` largest values, largest first, equal ones as they come."""
    places = np.arange(len(values))
    if len(values) > 4 * most > 0:
        least = -np.partition(-values, most - 1)[most - 1]
        places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")[:most]]


def successors_of(found: BestEvents, width: int) -> list[Successors]:
    """Return the ``width`` most probable tokens of each node.

    Args:
        found: The ``width + 1`` best events of N nodes: the last one bounds what is not listed.
    """
    log_p = np.where(found.tokens == NONE, -np.inf, found.log_p)
    log_next = log_p[:, width]
    has_more = log_next > -np.inf
    log_z = np.where(has_more, found.log_z, 0.0)
    share = np.exp(log_p - log_z[:, None]).sum(1) + np.exp(found.log_end - log_z)
    # subtle: a difference of sums; it may only err upwards, and never falls below one term.
    others = log_z + np.log(np.maximum(0.0, 1.0 - share) + _ROUNDING)
    log_rest = np.where(has_more, np.logaddexp(log_next, others), -np.inf)
    counts = (log_p[:, :width] > -np.inf).sum(1)
    return [
        Successors(
            tokens=found.tokens[i, :n].copy(),
            log_p=log_p[i, :n].copy(),
            log_rest=float(log_rest[i]),
            log_next=float(log_next[i]),
            width=width,
        )
        for i, n in enumerate(counts.tolist())
    ]
