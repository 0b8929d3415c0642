"""What a finished best-first search says of each draw: its member, rank, proof and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cdec.samplers.learning.tree.bracket import ROUNDING
from cdec.samplers.search.found import Entry, Found
from cdec.samplers.search.queue import Queue
from cdec.samplers.walks.batch import FREE, Batch
from cdec.samplers.walks.mass import length_mass_upper

_LARGEST_RANK = 2.0**53
"""Larger whole numbers are not exact in JSON, and say nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a finished search knows of one record, natural logs, -inf for nothing.

    Attributes:
        log_lower, log_upper: Bounds of P(S); 0 for the model alone.
        log_open: Upper bound of the mass of all token sequences that were not found.
        log_bound: Upper bound of P of each single one of them.
        is_constrained: Whether S is less than all texts.
        most_above: Gives an upper bound of how many of them have more than a log P.
        noise: Nats by which the bounds of P(S) were widened, as in ``Bracket``.
    """

    log_lower: float
    log_upper: float
    log_open: float
    log_bound: float
    is_constrained: bool
    most_above: Callable[[float], float]
    noise: float = 0.0

    @classmethod
    def of(cls, batch: Batch, request: int, queue: Queue) -> Known:
        """Read the tree of a request and what is left in its queue."""
        bracket = batch.tree.bracket(request, int(batch.roots[request]))
        lower, upper = bracket["log_mass_lower"], bracket["log_mass_upper"]
        log_found = -math.inf if lower is None else lower
        is_constrained = bool(batch.session_of[request] != FREE)
        log_all = 0.0 if not is_constrained else -math.inf if upper is None else upper
        return cls(
            log_lower=log_found if is_constrained else 0.0,
            log_upper=log_all,
            log_open=_log_difference(log_all, log_found),
            log_bound=queue.bound,
            is_constrained=is_constrained,
            most_above=queue.most_above,
            noise=batch.tree.noise_of(request),
        )

    def fields(self, batch: Batch, request: int) -> dict[str, object]:
        """Return the fields that all records of a request share.

        ``length_mass_upper`` is the share of cut prefixes in what was found and what was cut.
        """
        bound = self.log_bound if self.log_bound > -math.inf else None
        unfound: dict[str, object] = {"log_unfound_upper": bound}
        if not self.is_constrained:
            return unfound
        log_found, log_beyond = (
            log_mass[request : request + 1]
            for log_mass in (batch.tree.log_found, batch.tree.log_beyond)
        )
        return {
            **unfound,
            **batch.tree.bracket(request, int(batch.roots[request])),
            "length_mass_upper": length_mass_upper(log_found, log_beyond),
        }


@dataclass(frozen=True, slots=True)
class Member:
    """One draw: a member found, or that there is none.

    Attributes:
        entry: None where no member was found.
        rank: From 1.
        rank_upper: Upper bound of its true rank; None where none is known.
        proved: Whether no single token sequence that was not found has more than ``log_text``.
        is_certain: Whether nothing that was not found can change the member's rank.
        log_q_lower, log_q_upper: Bounds of log Q(member); None without one.
        noise: Nats by which those of P(S) were widened.
    """

    entry: Entry | None
    rank: int
    rank_upper: int | None
    proved: bool
    is_certain: bool
    log_q_lower: float | None = None
    log_q_upper: float | None = None
    noise: float = 0.0

    @property
    def is_unknown(self) -> bool:
        """Whether the budget ended the search before a member was found, and there may be one."""
        return self.entry is None and not self.proved

    @property
    def probability_lower(self) -> float | None:
        """Certified lower bound of Q of the member, or of its text where texts are ranked."""
        return None if self.log_q_lower is None else math.exp(self.log_q_lower)

    @property
    def probability_upper(self) -> float | None:
        """Certified upper bound of the same."""
        return None if self.log_q_upper is None else math.exp(self.log_q_upper)

    @property
    def probability(self) -> float | None:
        """The same where the bounds have met, else None."""
        if self.log_q_lower is None or self.log_q_upper is None:
            return None
        is_known = self.log_q_upper - self.log_q_lower <= ROUNDING + 2 * self.noise
        return self.probability_lower if is_known else None

    @property
    def log_text(self) -> float | None:
        """Log of the summed P of the tokenisations found."""
        return None if self.entry is None else self.entry.log_text

    @property
    def tokenisations(self) -> int:
        """How many tokenisations were found."""
        return 0 if self.entry is None else self.entry.tokenisations


def ranked(found: Found, known: Known, *, by_text: bool) -> list[Member]:
    """Return the draws of a record, ``found.wanted`` of them, best first."""
    entries = found.best(found.wanted + 1)
    n = min(len(entries), found.wanted)
    is_complete = known.log_bound == -np.inf
    members = []
    # A text keeps its rank if all the mass that is left cannot make up for the gap to the next one.
    was_clear = True
    for i, entry in enumerate(entries[:n]):
        log_next = entries[i + 1].log_text if i + 1 < len(entries) else -math.inf
        gap = _log_difference(entry.log_text, log_next)
        is_clear = is_complete or gap >= known.log_open
        proved = entry.log_text >= known.log_bound
        lower, upper = _bounds(entry, known, by_text)
        is_certain = was_clear and is_clear if by_text else proved
        last = i + 1 if is_certain else None if by_text else _last_rank(i + 1, entry, known)
        bounds = lower, upper, known.noise
        members.append(Member(entry, i + 1, last, proved, is_certain, *bounds))
        was_clear = is_clear
    missing = range(n, found.wanted)
    return members + [Member(None, i + 1, None, is_complete, is_complete) for i in missing]


def _last_rank(rank: int, entry: Entry, known: Known) -> int | None:
    """Return the worst rank that a member can have: all that may be better comes before it."""
    last = rank + known.most_above(entry.log_text)
    return int(last) if last < _LARGEST_RANK else None


def _bounds(entry: Entry, known: Known, by_text: bool) -> tuple[float, float]:
    """Return bounds of log Q of a member.

    P(S) lies between what was found and that plus what is left. Of a text, all that is left could
    be further tokenisations, which then count in P(S) as well.
    """
    lower = min(0.0, entry.log_text - known.log_upper)
    if by_text:
        upper = float(np.logaddexp(entry.log_text, known.log_open)) - known.log_upper
    else:
        upper = entry.log_text - known.log_lower
    return lower, max(lower, min(0.0, upper))


def _log_difference(log_a: float, log_b: float) -> float:
    """Return log(a - b) of a >= b, -inf where they are equal."""
    if log_b >= log_a:
        return -math.inf
    return log_a + math.log(-math.expm1(log_b - log_a))
