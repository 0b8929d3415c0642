"""Members that a best-first search found: an entry a token sequence or text, rank and proof."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.search.queue import Queue
from cdec.samplers.walks.batch import UNCONSTRAINED, Batch
from cdec.samplers.walks.mass import length_mass_upper


@dataclass(slots=True)
class Entry:
    """A found member.

    Attributes:
        context: The last context of its most probable tokenisation. log_p: log P of that one.
        log_text: log of the summed P of the tokenisations found.
        tokenisations: How many were found.
    """

    context: int
    log_p: float
    log_text: float
    tokenisations: int = 1


@dataclass(slots=True)
class Found:
    """The members found for one record.

    Args:
        wanted: Members asked for, at least 1.
        key: Gives a complete context what members are told apart by.
        tokens: Gives a context its tokens.

    Attributes:
        slack: Nats below the ``wanted``-th text at which a text is still worth a look.
    """

    wanted: int
    key: Callable[[int], Hashable]
    tokens: Callable[[int], list[int]]
    slack: float = 0.0
    _entries: dict[Hashable, Entry] = field(default_factory=dict)
    _sums: list[float] = field(default_factory=list)

    @property
    def floor(self) -> float:
        """What no text is looked at below: the ``wanted``-th largest log_text, less ``slack``.

        It never falls; -inf while there are fewer.
        """
        is_full = len(self._sums) >= self.wanted
        return self._sums[-self.wanted] - self.slack if is_full else -np.inf

    def add(self, context: int, log_p: float) -> None:
        """Add a token sequence that nobody added yet. Cost: O(log n) comparisons, one insertion."""
        key = self.key(context)
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = Entry(context, log_p, log_p)
            insort(self._sums, log_p)
            return
        del self._sums[bisect_left(self._sums, entry.log_text)]
        if log_p > entry.log_p:
            entry.context, entry.log_p = context, log_p
        entry.log_text = float(np.logaddexp(entry.log_text, log_p))
        entry.tokenisations += 1
        insort(self._sums, entry.log_text)

    def best(self, n: int) -> list[Entry]:
        """Return the ``n`` entries of the largest log_text, fewer where fewer were found.

        Ties are ordered by tokens.
        """
        least = self._sums[-n] if len(self._sums) >= n else -np.inf
        entries = [entry for entry in self._entries.values() if entry.log_text >= least]
        return sorted(entries, key=lambda e: (-e.log_text, self.tokens(e.context)))[:n]


_LARGEST_RANK = 2.0**53
"""Larger whole numbers are not exact in JSON, and say nothing."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a finished search for one record, natural logs, -inf for nothing.

    Attributes:
        bracket: Of P(S); of the model alone 1.
        log_open: Upper bound of the mass of all token sequences that were not found.
        log_bound: Upper bound of P of each single one of them, by the scores at hand.
        is_constrained: Whether S is less than all texts.
        is_cut: Whether the length limit cut texts off.
        most_above: Gives an upper bound of how many of them have more than a log P.
    """

    bracket: Bracket
    log_open: float
    log_bound: float
    is_constrained: bool
    is_cut: bool
    most_above: Callable[[float], float]

    @classmethod
    def of(cls, batch: Batch, request: int, queue: Queue) -> SearchResult:
        """Read the tree of a request and what is left in its queue."""
        bracket = batch.tree.bounds(request, int(batch.roots[request]))
        is_constrained = bool(batch.session_of[request] != UNCONSTRAINED)
        log_all = bracket.log_upper if is_constrained else 0.0
        return cls(
            bracket=bracket if is_constrained else Bracket(0.0, 0.0, noise=bracket.noise),
            log_open=_log_difference(log_all, bracket.log_lower),
            log_bound=queue.bound,
            is_constrained=is_constrained,
            is_cut=bool(batch.tree.log_truncated[request] > -math.inf),
            most_above=queue.most_above,
        )

    def fields(self, batch: Batch, request: int) -> dict[str, object]:
        """Return the fields that all records of a request share.

        ``length_mass_upper`` is the share of cut prefixes in what was found and what was cut.
        """
        bound = min(0.0, self.log_bound + self.bracket.noise)
        unfound: dict[str, object] = {"log_unfound_upper": bound if bound > -math.inf else None}
        if not self.is_constrained:
            return unfound
        log_found, log_truncated = (
            log_mass[request : request + 1]
            for log_mass in (batch.tree.log_found, batch.tree.log_truncated)
        )
        return {
            **unfound,
            **self.bracket.fields(),
            "length_mass_upper": length_mass_upper(log_found, log_truncated),
        }


@dataclass(frozen=True, slots=True)
class Member:
    """One draw: a member found, or that there is none.

    Attributes:
        entry: None where no member was found.
        rank: From 1; None where there is no member at all.
        rank_upper: Upper bound of its true rank; None where none is known.
        proved: Whether no single token sequence that was not found has more than ``log_text``;
            None where there is no member at all.
        is_certain: Whether nothing that was not found can change the member's rank.
        exhausted: Whether no member is left after this one.
        is_absent: Whether it is a draw for which no member is left.
        q: What is known of Q of the member, or of its text where texts are ranked.
    """

    entry: Entry | None
    rank: int | None
    rank_upper: int | None
    proved: bool | None
    is_certain: bool
    exhausted: bool = False
    is_absent: bool = False
    q: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def is_unknown(self) -> bool:
        """True where the budget ended before a member was found, and there may be one."""
        return self.entry is None and self.proved is False

    def fields(self, *, by_text: bool) -> dict[str, object]:
        """Return the fields of its record; Q is null where its bounds have not met."""
        text = {
            "log_text": None if self.entry is None else self.entry.log_text,
            "tokenisations": 0 if self.entry is None else self.entry.tokenisations,
        }
        return {
            "rank": self.rank,
            "rank_upper": self.rank_upper,
            "proved": self.proved,
            "exhausted": self.exhausted,
            "probability": self.q.get("probability"),
            "probability_lower": self.q.get("probability_lower"),
            "probability_upper": self.q.get("probability_upper"),
            **(text if by_text else {}),
        }


def ranked(found: Found, known: SearchResult, *, by_text: bool) -> list[Member]:
    """Return the draws of a record, ``found.wanted`` of them, best first."""
    entries = found.best(found.wanted + 1)
    n = min(len(entries), found.wanted)
    is_complete = known.log_bound == -np.inf
    is_exhausted = is_complete and not known.is_cut
    members = []
    # A text keeps its rank if all the mass that is left cannot make up for the gap to the next one.
    was_clear = True
    for i, entry in enumerate(entries[:n]):
        log_next = entries[i + 1].log_text if i + 1 < len(entries) else -math.inf
        gap = _log_difference(entry.log_text, log_next)
        is_clear = is_complete or gap >= known.log_open
        proved = entry.log_text >= known.log_bound
        log_unseen = known.log_open if by_text else -math.inf
        is_certain = was_clear and is_clear if by_text else proved
        last = i + 1 if is_certain else None if by_text else _last_rank(i + 1, entry, known)
        q = known.bracket.probability_of(entry.log_text, log_unseen)
        is_last = is_exhausted and i + 1 == len(entries)
        members.append(Member(entry, i + 1, last, proved, is_certain, is_last, q=q))
        was_clear = is_clear
    return members + [_missing(i, is_exhausted, is_complete) for i in range(n, found.wanted)]


def _missing(i: int, is_exhausted: bool, is_complete: bool) -> Member:
    """Return draw ``i``, for which no member was found.

    Where none is left it is absent; but of a record without any member the first draw says so.
    """
    if is_exhausted:
        return Member(None, None, None, None, True, exhausted=True, is_absent=i > 0)
    return Member(None, i + 1, None, is_complete, is_complete)


def _last_rank(rank: int, entry: Entry, known: SearchResult) -> int | None:
    """Return the worst rank that a member can have: all that may be better comes before it."""
    last = rank + known.most_above(entry.log_text)
    return int(last) if last < _LARGEST_RANK else None


def _log_difference(log_a: float, log_b: float) -> float:
    """Return log(a - b) of a >= b, -inf where they are equal."""
    if log_b >= log_a:
        return -math.inf
    return log_a + math.log(-math.expm1(log_b - log_a))
