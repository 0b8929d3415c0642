"""Speculation: guessed continuations that are evaluated ahead, in the forward pass of their start.

DOMINO (arXiv 2403.06988) section 3.6: counts of (scanner state, parser substate) -> next token
propose up to s tokens while the likeliest has probability above a threshold. Deviation: nothing is
accepted or rejected here. A guess only puts prefixes into the model's cache; the events are drawn
as always, with the same random numbers, so the law cannot change. A wrong guess leaves prefixes
behind that nobody visits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.base import require
from cdec.samplers.count_guesses import CountGuesses
from cdec.samplers.counts import Counts

if TYPE_CHECKING:
    from cdec.samplers.batch import Batch
    from cdec.samplers.events import SampledEvents
    from cdec.samplers.frontier import Frontier
    from cdec.samplers.step import Step

DEFAULT_THRESHOLD = 0.4
"""Estimated probability above which a token is proposed. Below a half, so that what was seen once
is tried: on JSON of a fixed shape twice as many tokens a pass as with 0.5 at first, no more later;
lower still, and the guesses that fail cost what the others save (measured)."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """The options of speculation, and the counts that outlive a batch.

    Attributes:
        steps: Most tokens that are guessed in a row; 0 is off.
        threshold: A token is guessed while its estimated probability is above this.
        counts: Learnt so far.
    """

    steps: int
    threshold: float
    counts: Counts

    @classmethod
    def of(cls, steps: int, threshold: float, counts: Counts | None) -> Speculation:
        """Check the options of a sampler.

        Raises:
            UsageError: A value out of range.
        """
        require("speculate", steps, at_least=0)
        if not 0.0 <= threshold < 1.0:
            raise UsageError(
                f"speculate_threshold is {threshold}, expected 0 <= threshold < 1",
                hint="Give a probability below 1, such as 0.4.",
                option="speculate_threshold",
            )
        return cls(steps, threshold, Counts() if counts is None else counts)

    def on(self, batch: Batch) -> Speculator | None:
        """Start guessing for a batch; None where speculation is off.

        Raises:
            TokenizerMismatchError: The counts were learnt with another vocabulary.
        """
        return Speculator(batch, self) if self.steps else None


class Speculator:
    """The guesses of one batch: which prefixes were evaluated ahead, and which were then visited.

    Constraints whose sessions have no ``speculation_keys`` (sets, whose forced runs are evaluated
    ahead anyway) are left alone.

    Args:
        batch: The open requests.
        options: Their counts are used and added to.
    """

    def __init__(self, batch: Batch, options: Speculation) -> None:
        self.steps = options.steps
        self._batch = batch
        self._guesses = CountGuesses(batch, options.counts, options.threshold)
        # Context evaluated ahead and not visited yet -> its draw, and whether it was guessed.
        self._pending: dict[int, tuple[tuple[int, int], bool]] = {}
        self._proposed: Counter[tuple[int, int]] = Counter()
        self._accepted: Counter[tuple[int, int]] = Counter()

    def guess(self, walk: Frontier, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the token that is likely enough to be next, int64[n]; as ``CountGuesses``."""
        return self._guesses.guess(walk.take(rows))

    def learn(self, step: Step, chosen: SampledEvents) -> None:
        """Count the events of a step, one a walk, in the order of the walks."""
        self._guesses.learn(step, chosen)

    def note(self, walk: Frontier, rows: NDArray[np.int64], guessed: NDArray[np.bool_]) -> None:
        """Remember prefixes that are about to be evaluated ahead.

        Args:
            walk: Prefixes.
            rows: int64[n] of them. guessed: bool[n] whether their last token was a guess.
        """
        owners = zip(walk.request[rows].tolist(), walk.draw[rows].tolist(), strict=True)
        contexts = walk.context[rows].tolist()
        for context, owner, is_guess in zip(contexts, owners, guessed.tolist(), strict=True):
            if context not in self._pending:
                self._pending[context] = (owner, is_guess)
                self._proposed[owner] += is_guess

    def visit(self, context: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which prefixes were evaluated ahead, bool[n]; they were good guesses."""
        contexts = context.tolist()
        ahead = np.array([node in self._pending for node in contexts], np.bool_)
        for node in np.unique(context[ahead]).tolist():
            owner, is_guess = self._pending.pop(node)
            self._accepted[owner] += is_guess
        return ahead

    def rates(self) -> list[float | None]:
        """Return the share of its guesses that each draw followed; None where there were none.

        What several draws share belongs to the lowest, as all counters do.
        """
        return [
            self._accepted[owner] / self._proposed[owner] if self._proposed[owner] else None
            for owner in self._owners()
        ]

    def wasted(self) -> list[int]:
        """Return how many prefixes were evaluated for each draw and never visited."""
        left = Counter(owner for owner, _ in self._pending.values())
        return [left[owner] for owner in self._owners()]

    def _owners(self) -> list[tuple[int, int]]:
        batch = self._batch
        draws = zip(batch.draw_request.tolist(), batch.draw_index.tolist(), strict=True)
        return list(draws)
