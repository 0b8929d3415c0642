"""Drafts that need no model: counts of a grammar's states, and repetitions of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cdec.core.native import library
from cdec.samplers.drafts.count_guesses import CountGuesses
from cdec.samplers.drafts.proposals import Drafting, Guess
from cdec.samplers.walks.categorical_kernels import NONE

if TYPE_CHECKING:
    from cdec.samplers.drafts.counts import Counts
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Frontier
    from cdec.samplers.walks.step import Step

LONGEST_MATCH = 4
"""Most tokens of a repetition that are compared; of equally long ones the latest counts."""


class CountsDrafting(Drafting):
    """Guesses what a grammar's states were followed by before (``CountGuesses``)."""

    def __init__(self, batch: Batch, counts: Counts) -> None:
        self._guesses = CountGuesses(batch, counts)

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
        model = batch.model
        prompts = [
            np.array([*model.prompt_tokens(root), *model.begun_tokens(root)], np.int32)
            if root >= 0
            else np.zeros(0, np.int32)
            for root in batch.roots.tolist()
        ]
        lengths = [len(prompt) for prompt in prompts]
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._prompts = np.concatenate([*prompts, np.zeros(0, np.int32)])
        self._is_end = batch.is_end

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the token after the latest longest repetition.

        Cost: one compiled search a walk, some nanoseconds for each token of its prompt and text:
        10 microseconds for 4,000. Nothing is kept between calls.
        """
        tree = self._model.tree
        events = np.empty(len(walks.request), np.int64)
        library.contexts_repeated(
            *(walks.context, walks.request, tree.parent, tree.token, tree.depth),
            *(self._starts, self._prompts, LONGEST_MATCH, events),
        )
        events[(events >= 0) & self._is_end[events]] = NONE
        return Guess.of(events)
