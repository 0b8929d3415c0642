"""Listings of a search: the most probable next tokens of every visited prefix, and who was there.

A visited prefix lists its most probable next tokens, best first. All that are not listed are one
*rest* with bounds of its own, from which the prefix is *widened* when the rest's turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.search.queue import ROUNDING, Items
from cdec.samplers.walks.events import BestEvents
from cdec.samplers.walks.frontier import NONE

FIRST_WIDTH = 64
"""Next tokens listed at a new prefix; each widening doubles them."""


class Successors(NamedTuple):
    """Next tokens of N prefixes, of each the ``width`` best.

    Attributes:
        tokens: int64[N, width], NONE after the last. log_p: float64[N, width], -inf there.
        log_rest: float64[N] log of an upper bound of the mass of all tokens that are not listed.
        log_next: float64[N] upper bound of log p of each of them; both are -inf where all are.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_rest: NDArray[np.float64]
    log_next: NDArray[np.float64]

    def at(self, rows: NDArray[np.int64]) -> Successors:
        """Return those of some prefixes."""
        return Successors._make(column[rows] for column in self)

    @property
    def log_mass(self) -> NDArray[np.float64]:
        """Log of the mass of all next tokens, listed or not, float64[N]."""
        terms = np.column_stack([self.log_p, self.log_rest])
        log_mass: NDArray[np.float64] = np.logaddexp.reduce(terms, axis=1)
        return log_mass

    @property
    def is_listed(self) -> NDArray[np.bool_]:
        """Which places hold a token, bool[N, width]."""
        is_listed: NDArray[np.bool_] = self.tokens != NONE
        return is_listed


def successors_of(found: BestEvents, width: int) -> Successors:
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
    others = log_z + np.log(np.maximum(0.0, 1.0 - share) + ROUNDING)
    log_rest = np.where(has_more, np.logaddexp(log_next, others), -np.inf)
    # What has no mass is no next token, and stands last.
    tokens = np.where(log_p > -np.inf, found.tokens, NONE)
    return Successors(tokens[:, :width], log_p[:, :width], log_rest, log_next)


_PREFIX = {
    "context": np.int64,
    "depth": np.int64,
    "log_prefix": np.float64,
    "log_end": np.float64,
    "log_rest": np.float64,
    "width": np.int64,
    "first": np.int64,
    "count": np.int64,
}
_SLOT = {"token": np.int64, "log_p": np.float64, "visited": np.bool_}


class Listings:
    """What is listed after P prefixes, in rows as they came.

    Attributes:
        depth: int64[P...] tokens of the prefix. log_prefix: float64[P...] its log P.
        width: int64[P...] tokens that were asked for.

    Each prefix has a span of *slots*, its tokens; where it is given more, its span moves behind all
    others.
    """

    def __init__(self) -> None:
        self._prefixes = _Columns(_PREFIX)
        self._slots = _Columns(_SLOT)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._prefixes[name]

    def add(
        self,
        context: NDArray[np.int64],
        depth: NDArray[np.int64],
        log_prefix: NDArray[np.float64],
        log_end: NDArray[np.float64],
        listed: Successors,
    ) -> NDArray[np.int64]:
        """Add N prefixes that were visited; return their rows, int64[N]."""
        rows = self._prefixes.extend(len(context))
        values = (context, depth, log_prefix, log_end, listed.log_rest, listed.tokens.shape[1])
        for name, value in zip(_PREFIX, values, strict=False):
            self._prefixes[name][rows] = value
        self._list(rows, listed, listed.is_listed)
        return rows

    def widen(self, rows: NDArray[np.int64], wider: Successors) -> NDArray[np.bool_]:
        """List the tokens of ``wider`` too; return which of them are new, bool[N, width].

        On a device a second evaluation may order near ties anew: no token may come twice.
        """
        owner, slots = self._spans(rows)
        base = int(wider.tokens.max(initial=0)) + 1
        known = self._slots["token"][slots]
        may_match = known < base
        old = owner[may_match] * base + known[may_match]
        asked = np.arange(len(rows))[:, None] * base + wider.tokens
        is_new = wider.is_listed & ~np.isin(asked, old)
        self._prefixes["log_rest"][rows] = wider.log_rest
        self._prefixes["width"][rows] = wider.tokens.shape[1]
        self._list(rows, wider, is_new)
        return is_new

    def visit(
        self, rows: NDArray[np.int64], tokens: NDArray[np.int64], log_p: NDArray[np.float64]
    ) -> None:
        """Note that prefixes with ``tokens`` are visited; these are listed from now on."""
        owner, slots = self._spans(rows)
        hits = np.flatnonzero(self._slots["token"][slots] == tokens[owner])
        self._slots["visited"][slots[hits]] = True
        is_missing = np.ones(len(rows), np.bool_)
        is_missing[owner[hits]] = False
        missing = np.flatnonzero(is_missing)
        if missing.size:
            parents, owners = np.unique(rows[missing], return_inverse=True)
            self._append(parents, owners, (tokens[missing], log_p[missing], True))

    def log_mass(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log of an upper bound of the mass that no visited child covers, float64[N].

        The end is part of it.
        """
        owner, slots = self._spans(rows)
        count = self._prefixes["count"][rows]
        terms = np.full((len(rows), 2 + int(count.max(initial=0))), -np.inf)
        terms[:, 0] = self._prefixes["log_end"][rows]
        terms[:, 1] = self._prefixes["log_rest"][rows]
        place = 2 + slots - self._prefixes["first"][rows][owner]
        unvisited = np.flatnonzero(~self._slots["visited"][slots])
        terms[owner[unvisited], place[unvisited]] = self._slots["log_p"][slots[unvisited]]
        log_mass: NDArray[np.float64] = np.logaddexp.reduce(terms, axis=1)
        return log_mass

    def items(
        self, rows: NDArray[np.int64], listed: Successors, keep: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Items]:
        """Return the tokens of ``listed`` that ``keep`` (bool[N, width]) says, and each rest.

        States and guesses are to be filled in.

        Returns:
            Which of the N prefixes each item is of, int64[n], ascending; and the n items.
        """
        has_rest = listed.log_next > -np.inf
        owner, place = np.nonzero(np.column_stack([keep, has_rest]))
        tokens = np.column_stack([listed.tokens, np.full(len(rows), NONE)])[owner, place]
        log_p = np.column_stack([listed.log_p, listed.log_next])[owner, place]
        log_mass = np.column_stack([listed.log_p, listed.log_rest])[owner, place]
        row = rows[owner]
        log_prefix = self._prefixes["log_prefix"][row]
        return owner, Items(
            context=self._prefixes["context"][row],
            token=tokens,
            log_p=log_p,
            depth=self._prefixes["depth"][row],
            bound=log_prefix + log_p,
            log_mass=log_prefix + log_mass,
            state=np.zeros(len(row), np.int64),
            guess=np.zeros(len(row)),
        )

    def _list(self, rows: NDArray[np.int64], listed: Successors, which: NDArray[np.bool_]) -> None:
        owners = np.nonzero(which)[0]
        self._append(rows, owners, (listed.tokens[which], listed.log_p[which], False))

    def _append(
        self, rows: NDArray[np.int64], owners: NDArray[np.int64], new: Sequence[Any]
    ) -> None:
        """Give distinct ``rows`` more slots: ``owners`` says which of them each is of."""
        before, slots = self._spans(rows)
        together = np.concatenate([before, owners])
        order = np.argsort(together, kind="stable")
        held = [self._slots[name][slots] for name in _SLOT]
        start = self._slots.used
        places = self._slots.extend(len(order))
        for name, old, value in zip(_SLOT, held, new, strict=True):
            column = np.concatenate([old, np.broadcast_to(value, len(owners))])
            self._slots[name][places] = column[order]
        counts = np.bincount(together, minlength=len(rows))
        self._prefixes["count"][rows] = counts
        self._prefixes["first"][rows] = start + np.cumsum(counts) - counts

    def _spans(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots of ``rows``, and which of these each is of."""
        first, count = self._prefixes["first"][rows], self._prefixes["count"][rows]
        owner = np.repeat(np.arange(len(rows)), count)
        return owner, np.arange(len(owner)) + (first - np.cumsum(count) + count)[owner]


class _Columns:
    """Columns of one length that grow by doubling.

    Args:
        dtypes: By name.

    Attributes:
        used: Their length.
    """

    def __init__(self, dtypes: Mapping[str, type]) -> None:
        self.used = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(256, dtype) for name, dtype in dtypes.items()
        }

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def extend(self, n: int) -> NDArray[np.int64]:
        """Make room for n more; return their places, int64[n]."""
        first, self.used = self.used, self.used + n
        for name, column in self._columns.items():
            if len(column) < self.used:
                grown = np.zeros(max(self.used, 2 * len(column)), column.dtype)
                grown[:first] = column[:first]
                self._columns[name] = grown
        return np.arange(first, self.used)
