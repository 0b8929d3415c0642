"""Numbers of proposals before each pass of the target: given, by acceptance, or by what pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.drafts.speculate import Lengths

if TYPE_CHECKING:
    from cdec.samplers.drafts.ledger import Tested
    from cdec.samplers.drafts.pace import Pace
    from cdec.samplers.drafts.proposals import Foreseen
    from cdec.samplers.walks.frontier import Frontier

FIRST, LONGEST = 4, 16
"""Proposals that follow acceptance: of new texts, and the most."""


class GivenLengths(Lengths):
    """The same number always.

    Args:
        number: Of proposals. longest: Most tokens of a text.
    """

    def __init__(self, number: int, longest: int) -> None:
        self.rows = 1 + number
        # No text is longer, and larger numbers may not fit.
        self._number = min(number, longest)

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        return

    def before(self, alive: NDArray[np.int64], walks: Frontier) -> NDArray[np.int64] | None:
        """Return the number for each."""
        return np.full(len(alive), self._number)


class AcceptedLengths(Lengths):
    """One proposal more after all were accepted, one more than were accepted after a refusal.

    It follows each text alone, so it may decide what is drawn. Args as of ``GivenLengths``.
    """

    def __init__(self, longest: int) -> None:
        self.rows = 1 + LONGEST
        self._first = min(FIRST, longest)
        self._numbers = np.zeros(0, np.int64)

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        self._numbers = np.full(n, self._first, np.int64)

    def before(self, alive: NDArray[np.int64], walks: Frontier) -> NDArray[np.int64] | None:
        """Return the number of each."""
        return self._numbers[alive]

    def after(self, tokens: int, tested: Tested) -> None:
        """Follow what was accepted of each."""
        # subtle: only what was put to the test counts; to look at proposals behind a refusal
        # would tie the next draws, which use their random numbers again, to this decision.
        now = self._numbers[tested.candidates]
        then = np.where(tested.refused, tested.accepted + 1, now + 1)
        then = np.where(tested.verified > 0, np.minimum(then, LONGEST), now)
        self._numbers[tested.candidates] = then


class PayingLengths(Lengths):
    """What pays at the present number of walks, for all alike; none where nothing does.

    It follows the clock, so it must not decide what is drawn.

    Args:
        pace: Knows what pays.
        most_prefixes: That a pass of the target may evaluate.
    """

    rows = 1

    def __init__(self, pace: Pace, most_prefixes: int) -> None:
        self._pace, self._most = pace, most_prefixes

    def begin(self, n: int) -> None:
        """Start with ``n`` new candidates."""
        self._pace.begin(n)

    def before(self, alive: NDArray[np.int64], walks: Frontier) -> NDArray[np.int64] | None:
        """Return what pays; a run of forced tokens that was read ahead is followed to its end."""
        n = len(alive)
        if self._pace.goes_on(n):
            return None
        if walks.in_run.all():
            self._pace.note(n)
            return None
        number = self._pace.choose(n, max(0, self._most // n - 1))
        return np.full(n, number) if number else None

    def after(self, tokens: int, tested: Tested) -> None:
        """Tell what the round brought."""
        self._pace.note(tokens, tested.accepted)

    def foresee(self, foreseen: Foreseen) -> None:
        """Tell what would have been proposed."""
        self._pace.foresee(*foreseen)
