"""Drafts that need no model: counts of a grammar's states, and repetitions of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.categorical_kernels import NONE
from cdec.samplers.count_guesses import CountGuesses
from cdec.samplers.drafts.proposals import Drafting, Guess

if TYPE_CHECKING:
    from cdec.samplers.batch import Batch
    from cdec.samplers.counts import Counts
    from cdec.samplers.events import SampledEvents
    from cdec.samplers.frontier import Frontier
    from cdec.samplers.step import Step

LONGEST_MATCH = 4
"""Most tokens of a repetition that are compared; of equally long ones the latest counts."""


class CountsDrafting(Drafting):
    """Guesses what a grammar's states were followed by before (``CountGuesses``)."""

    def __init__(self, batch: Batch, counts: Counts, threshold: float) -> None:
        self._guesses = CountGuesses(batch, counts, threshold)

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the likeliest token of each walk's state, if it is likely enough."""
        tokens = self._guesses.guess(walks)
        return Guess.of(np.where(tokens < 0, NONE, tokens))

    def learn(self, step: Step, chosen: SampledEvents) -> None:
        """Count the events of a verified step."""
        self._guesses.learn(step, chosen)


class LookupDrafting(Drafting):
    """Guesses that what followed the last tokens before will follow them again.

    Prompt lookup: the longest run of up to ``LONGEST_MATCH`` last tokens that stands earlier in the
    prompt or the text, and the token after it. An end token is never guessed.
    """

    def __init__(self, batch: Batch) -> None:
        self._model = batch.model
        self._prompts = [
            np.array(batch.model.prompt_tokens(root) if root >= 0 else [], np.int64)
            for root in batch.roots.tolist()
        ]
        self._is_end = batch.is_end

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the token after the latest longest repetition; cost: one search a walk."""
        events = np.full(len(walks.request), NONE, np.int64)
        pairs = zip(walks.request.tolist(), walks.context.tolist(), strict=True)
        for row, (request, context) in enumerate(pairs):
            text = np.array(self._model.tokens(context), np.int64)
            token = following(np.concatenate([self._prompts[request], text]))
            if token >= 0 and not self._is_end[token]:
                events[row] = token
        return Guess.of(events)


def following(tokens: NDArray[np.int64], longest: int = LONGEST_MATCH) -> int:
    """Return what followed the longest earlier run equal to the last tokens; -1 for nothing.

    Args:
        tokens: int64[n].
        longest: Most tokens compared.
    """
    if len(tokens) < 2:
        return -1
    places = np.flatnonzero(tokens[:-1] == tokens[-1])
    for back in range(1, longest):
        # ``places`` are the ends of runs of ``back`` tokens equal to the last ``back`` ones.
        reaching = places[places >= back]
        longer = reaching[tokens[reaching - back] == tokens[max(-1 - back, -len(tokens))]]
        if not longer.size:
            break
        places = longer
    return int(tokens[places[-1] + 1]) if len(places) else -1
