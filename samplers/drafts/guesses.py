"""Drafts that need no model: counts of a grammar's states, and repetitions of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
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
        columns = tree.parent, tree.token, tree.depth
        _follow(walks.context, walks.request, columns, self._starts, self._prompts, events)
        events[(events >= 0) & self._is_end[events]] = NONE
        return Guess.of(events)


@kernel
def _follow(contexts, request, columns, starts, prompts, events) -> Any:  # type: ignore[no-untyped-def]
    """Write what followed the longest earlier run equal to the last tokens; NONE for nothing.

    Args:
        contexts, request: int64[n]. columns: The parents, tokens and depths of contexts.
        starts: int64[R + 1] where each request's prompt begins in ``prompts``, int32[...].
        events: int64[n], written.
    """
    parent, token, depth = columns
    longest = 0
    for w in range(len(contexts)):
        begin = starts[request[w] + 1] - starts[request[w]]
        longest = max(longest, begin + depth[contexts[w]])
    tokens = np.empty(longest, np.int32)
    held, begin = -1, 0
    for w in range(len(contexts)):
        if request[w] != held:
            held = request[w]
            begin = starts[held + 1] - starts[held]
            tokens[:begin] = prompts[starts[held] : starts[held + 1]]
        node = contexts[w]
        n = begin + depth[node]
        for at in range(n - 1, begin - 1, -1):
            tokens[at] = token[node]
            node = parent[node]
        place = _repetition(tokens, n)
        events[w] = NONE if place < 0 else tokens[place + 1]


@inner
def _repetition(tokens, n) -> Any:  # type: ignore[no-untyped-def]
    """Return where the run ends that equals the longest run of last tokens, of ``tokens[:n]``.

    Of equally long ones the latest; -1 where even the last token stands nowhere before.
    """
    most, place = 0, -1
    for at in range(n - 2, -1, -1):
        same = 0
        while same < LONGEST_MATCH and same <= at and tokens[at - same] == tokens[n - 1 - same]:
            same += 1
        if same > most:
            most, place = same, at
            if most == LONGEST_MATCH:
                break
    return place
