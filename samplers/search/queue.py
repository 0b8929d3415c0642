"""The queue of a best-first search: visited prefixes of one record by the bound of what can follow.

A prefix lists its most probable next tokens, best first, and waits in the queue under the next one
that nobody took; so it has one place however many children it has. Where the list is used up the
prefix waits under a bound of all tokens that are not listed, and is to be *widened* when its turn
comes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.walks.events import NONE, BestEvents

FIRST_WIDTH = 16
"""Next tokens listed at a new prefix; each widening doubles them."""
_ROUNDING = 1e-13
"""Share of a prefix's allowed mass that a difference of sums may have lost to rounding."""


class Take(NamedTuple):
    """One expansion: the prefix ``context`` goes on by ``token``, or is to be widened (NONE)."""

    context: int
    token: int
    log_p: float


@dataclass(slots=True)
class Listing:
    """Next tokens of a prefix, m of them.

    Attributes:
        tokens: int64[m], best first. log_p: float64[m].
        log_left: float64[m + 1] log of an upper bound of the mass of ``tokens[i:]`` and of all
            tokens that are not listed; nothing is subtracted where all are.
        log_next: Upper bound of log p of every token that is not listed; -inf where all are.
        width: Tokens that were asked for.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_left: NDArray[np.float64]
    log_next: float
    width: int

    def merged(self, wider: Listing) -> Listing:
        """Return ``wider`` with the tokens of this list first, in this list's order.

        On a device a second evaluation may order near ties anew: no token may come twice.
        """
        new = ~np.isin(wider.tokens, self.tokens)
        log_p = np.concatenate([self.log_p, wider.log_p[new]])
        log_left = _sums_from(log_p[None], wider.log_left[-1:])[0]
        tokens = np.concatenate([self.tokens, wider.tokens[new]])
        return Listing(tokens, log_p, log_left, wider.log_next, wider.width)


@dataclass(slots=True)
class OpenPrefix:
    """A visited prefix and what of it is still to be looked at.

    Attributes:
        log_prefix: log P of the prefix. log_end: log P(end | prefix), -inf where it may not end.
        listing: Its next tokens. taken: How many of them were taken.
        log_dropped: log of the mass of tokens that were taken and never visited.
    """

    log_prefix: float
    log_end: float
    listing: Listing
    taken: int = 0
    log_dropped: float = -np.inf

    @property
    def bound(self) -> float:
        """Upper bound of log P of every text by a token that was not taken; -inf for none."""
        listing = self.listing
        if self.taken < len(listing.tokens):
            return self.log_prefix + float(listing.log_p[self.taken])
        return self.log_prefix + listing.log_next

    @property
    def log_mass(self) -> float:
        """Log of an upper bound of the mass that no visited child covers, the end included."""
        left = np.logaddexp(self.log_end, self.listing.log_left[self.taken])
        return float(np.logaddexp(left, self.log_dropped))


class Queue:
    """Open prefixes of one record, the best bound first; equal bounds in the order they came.

    Attributes:
        prefixes: Those of which something is left, by context.
    """

    def __init__(self) -> None:
        self.prefixes: dict[int, OpenPrefix] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._pushed = 0

    @property
    def bound(self) -> float:
        """Upper bound of log P of every text that is not found yet; -inf where none is left."""
        return -self._heap[0][0] if self._heap else -np.inf

    def add(self, context: int, prefix: OpenPrefix) -> None:
        """Add a prefix that was just visited, unless nothing can follow it."""
        if prefix.bound > -np.inf:
            self.prefixes[context] = prefix
            self.push(context)

    def push(self, context: int) -> None:
        """Let a prefix wait for its next token, unless nothing is left of it."""
        bound = self.prefixes[context].bound
        if bound > -np.inf:
            heapq.heappush(self._heap, (-bound, self._pushed, context))
            self._pushed += 1

    def take(self, most: int, floor: float) -> list[Take]:
        """Take the best ``most`` expansions whose bounds are above ``floor``, best first.

        A prefix that is to be widened is out of the queue until it is pushed again.
        Cost: O(log(prefixes)) an expansion.
        """
        taken: list[Take] = []
        while len(taken) < most and self.bound > floor:
            context = heapq.heappop(self._heap)[2]
            prefix = self.prefixes[context]
            listing, at = prefix.listing, prefix.taken
            if at == len(listing.tokens):
                taken.append(Take(context, NONE, 0.0))
                continue
            prefix.taken += 1
            taken.append(Take(context, int(listing.tokens[at]), float(listing.log_p[at])))
            self.push(context)
        return taken


def listings(found: BestEvents, width: int) -> list[Listing]:
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
    log_left = _sums_from(log_p[:, :width], log_rest)
    counts = (log_p[:, :width] > -np.inf).sum(1)
    return [
        Listing(
            tokens=found.tokens[i, :n].copy(),
            log_p=log_p[i, :n].copy(),
            log_left=log_left[i, : n + 1].copy(),
            log_next=float(log_next[i]),
            width=width,
        )
        for i, n in enumerate(counts.tolist())
    ]


def _sums_from(log_p: NDArray[np.float64], log_rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logs of rest + p[i:].sum() for every i, float64[N, m + 1]."""
    backwards = np.concatenate([log_rest[:, None], log_p[:, ::-1]], axis=1)
    return np.logaddexp.accumulate(backwards, axis=1)[:, ::-1]
