"""Texts that a best-first search found: one entry a token sequence, or one a text."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np


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
    """

    wanted: int
    key: Callable[[int], Hashable]
    tokens: Callable[[int], list[int]]
    _entries: dict[Hashable, Entry] = field(default_factory=dict)
    _sums: list[float] = field(default_factory=list)

    @property
    def floor(self) -> float:
        """The ``wanted``-th largest log_text, which never falls; -inf while there are fewer."""
        return self._sums[-self.wanted] if len(self._sums) >= self.wanted else -np.inf

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
