"""Queues of a search: what of a record is still to be looked at, bounded and in an order.

An *item* is a next token that nobody took, under its bound, P of the prefix and the token, or all
tokens that its prefix does not list (``listings``). Which item comes first is decided by its bound
and a guess of what follows (``Guide``).

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.session import Completions, Session

_TOKEN, _END = -6.0, -7.0
"""log P of a token, and of the end, before anything was seen; nats."""
_TOKENS, _ENDS = 4.0, 2.0
"""How many sightings these count for."""
_LEAST = -30.0
"""log P that counts for no less."""
_GRAIN = 2.0**-20
"""Of what is summed. subtle: multiples of it sum exactly, so no order of sums changes a result."""
_GROWTH = 2.0
"""By how much more must have been seen for completions to be found anew: each time is a pass over
the whole trie, and more of them find no better texts."""


class Guide:
    """Completions of one record.

    Args:
        session: Of its constraint; it knows completions.
        first: Those found before anything was seen.
        width: V.
    """

    def __init__(self, session: Session, first: Completions, width: int) -> None:
        self._session = session
        # Sums of log P and counts: row 0 of tokens, row 1 of ends after each token.
        self._sums = np.zeros((2, width))
        self._counts = np.zeros((2, width))
        self._found_at = 1.0
        self._found: Completions | None = first

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


def first_completions(session: Session, width: int) -> Completions | None:
    """Return the completions found before anything was seen; None where none are known."""
    return session.completions(np.full(width, _TOKEN), np.full(width, _END))


ROUNDING = 1e-13
"""Share of a prefix's allowed mass that a difference of sums may have lost to rounding."""


class Items(NamedTuple):
    """n items.

    Attributes:
        context: int64[n] prefix. token: int64[n] next token, NONE for all that are not listed.
        log_p: float64[n] of the token. depth: int64[n] of the prefix.
        bound: float64[n] upper bound of log P of each text there. log_mass: float64[n] of all.
        state: int64[n] constraint state after the token; before it for NONE.
        guess: float64[n] guessed log P of what follows.
    """

    context: NDArray[np.int64]
    token: NDArray[np.int64]
    log_p: NDArray[np.float64]
    depth: NDArray[np.int64]
    bound: NDArray[np.float64]
    log_mass: NDArray[np.float64]
    state: NDArray[np.int64]
    guess: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Items:
        """Return some of them."""
        return Items._make(column[rows] for column in self)

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Items:
        """Return the items of all parts, in order."""
        columns = zip(*(parts or [_NOTHING]), strict=True)
        return cls._make(np.concatenate(column) for column in columns)


class Queue:
    """Items of one record.

    Args:
        width: Most items of a turn.
        in_turns: Whether depths take turns.

    """

    def __init__(self, width: int, *, in_turns: bool) -> None:
        self._left_out = -np.inf
        self._width = width
        self._in_turns = in_turns
        self._turn, self._turn_width = 0, 1 if in_turns else width
        self._parts: list[Items] = []

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
        self._parts.append(items.at(items.bound > -np.inf))

    def guess_anew(self, guesses: NDArray[np.float64]) -> None:
        """Replace the guesses of all items, float64[n]."""
        self._parts = [self.items._replace(guess=guesses)]

    def leave_out(self, bound: float) -> None:
        """Note that a text whose log P is ``bound`` at most will never be looked at."""
        self._left_out = max(self._left_out, bound)

    def take(self, most: int, floor: float) -> Items:
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
        return items.at(rows)

    def most_above(self, log_p: float) -> float:
        """Return an upper bound of the number of texts not found whose log P is above ``log_p``.

        Under an item there are no more of them than times that its mass holds P.
        """
        if self.bound <= log_p:
            return 0.0
        log_mass = self.items.log_mass[self.items.bound > log_p]
        with np.errstate(over="ignore"):
            return float(np.floor(np.exp(log_mass - log_p) * (1 + ROUNDING)).sum())

    def _whose_turn(self, depth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the items of the next depth that has any; a new sweep is twice as wide."""
        later = depth[depth >= self._turn]
        if not later.size:
            self._turn_width = min(self._width, 2 * self._turn_width)
        turn = int(later.min() if later.size else depth.min())
        self._turn = turn + 1
        return np.flatnonzero(depth == turn)


_WHOLE, _REAL = np.zeros(0, np.int64), np.zeros(0)
_NOTHING = Items(_WHOLE, _WHOLE, _REAL, _WHOLE, _REAL, _REAL, _WHOLE, _REAL)


def _first(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the places of the ``most`` largest values, largest first, equal ones as they come."""
    places = np.arange(len(values))
    if len(values) > 4 * most > 0:
        least = -np.partition(-values, most - 1)[most - 1]
        places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")[:most]]
