"""Prompt lookup guesses what a plain search of prompt and text finds, and keeps nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.samplers.drafts.counts import LONGEST_MATCH, LookupDrafting
from cdec.samplers.request import Request
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import Frontier
from tests.samplers.drafts.draft_toys import ENDS, pairs

PAIR = pairs()["free"]
NONE = -2


def searched(tokens: list[int]) -> int:
    """Return what followed the latest of the longest earlier runs, by comparing all of them."""
    for length in range(min(LONGEST_MATCH, len(tokens) - 1), 0, -1):
        run = tokens[len(tokens) - length :]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == run:
                after = tokens[start + length]
                return NONE if after in ENDS else after
    return NONE


def places(batch: Batch, texts: list[tuple[int, list[int]]]) -> Frontier:
    """Return a walk a text (request and tokens), each at its own depth."""
    model, contexts = batch.model, []
    for request, text in texts:
        context = batch.roots[[request]]
        for token in text:
            context = model.advance(context, np.array([token]))
        contexts.append(int(context[0]))
    requests = np.array([request for request, _ in texts], np.int64)
    start: Any = Frontier.at_start(batch, requests, np.arange(len(texts)))
    start.context[:] = contexts
    return start


@pytest.mark.parametrize("letters", [1, 2, 4, 7])
def test_guesses_are_those_of_a_plain_search(letters: int) -> None:
    rng = np.random.default_rng(letters)
    prompts = [rng.integers(0, letters, size=n).tolist() for n in (0, 1, 2, 5, 40, 300)]
    requests = [Request(prompt, None, [1], max_new_tokens=400) for prompt in prompts]
    with Batch(PAIR.toy.model(), requests) as batch, LookupDrafting(batch) as drafting:
        for longest in (1, 3, 20, 300):
            texts = [
                (int(r), rng.integers(0, letters, size=int(rng.integers(0, longest))).tolist())
                for r in rng.integers(0, len(prompts), size=60)
            ]
            found = drafting.guess(places(batch, texts), None).events.tolist()
            assert found == [searched(prompts[r] + text) for r, text in texts]


def test_a_walk_that_comes_back_to_a_shorter_prefix_is_searched_again() -> None:
    """Verification sends walks back: to prefixes above, or to other children of them."""
    requests = [Request([0, 1, 2, 0, 1, 3], None, [1], max_new_tokens=9)]
    with Batch(PAIR.toy.model(), requests) as batch, LookupDrafting(batch) as drafting:
        for text, expected in [
            ([0, 1], 3),
            ([0, 1, 2], 0),
            ([0, 1], 3),
            ([0, 2], 0),
            ([0], 1),
            ([], NONE),
        ]:
            assert drafting.guess(places(batch, [(0, text)]), None).events.tolist() == [expected]
