"""Texts of which tokens stand already: what a model says after them is what it says after all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.models.wrapping import wrap_module
from tests.core.models.tiny_models import VOCABULARY, tiny_module

PROMPTS = [[5, 6, 7], [9], [5, 6, 8, 4]]
BEGUN = [[11, 12, 13, 14], [], [20, 3]]
NEXT = [[30, 31], [32, 33], [30, 40]]
TOLERANCE = 2e-5


def after(model: Any, prompts: list[list[int]], begun: list[list[int]], texts: Any) -> Any:
    """Return log probabilities after the tokens of each text, one more token at a time."""
    contexts = model.prefill(prompts, None, begun)
    found = [model.next_logprobs(contexts)]
    for column in np.array(texts).T:
        contexts = model.advance(contexts, column)
        found.append(model.next_logprobs(contexts))
    return torch.stack(found)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "bloom", "mamba", "t5", "bart"])
def test_a_begun_text_is_read_as_if_it_had_been_drawn(name: str) -> None:
    model = wrap_module(tiny_module(name), VOCABULARY)
    roots = model.prefill(PROMPTS)
    drawn = []
    for root, tokens, more in zip(roots.tolist(), BEGUN, NEXT, strict=True):
        rows, _ = model.extend(root, [*tokens, *more])
        first = model.next_logprobs([root])
        drawn.append(torch.cat([first, rows])[len(tokens) :])
    found = after(wrap_module(tiny_module(name), VOCABULARY), PROMPTS, BEGUN, NEXT)
    for i, rows in enumerate(drawn):
        torch.testing.assert_close(found[:, i], rows, atol=TOLERANCE, rtol=0)


def test_all_tokens_of_a_context_are_those_of_prompt_begun_text_and_what_followed() -> None:
    model = wrap_module(tiny_module("gpt2"), VOCABULARY)
    (root,) = model.prefill([[5, 6]], None, [[7]]).tolist()
    (context,) = model.advance([root], [8]).tolist()
    assert model.whole_tokens(root) == [5, 6, 7]
    assert model.whole_tokens(context) == [5, 6, 7, 8] and model.tokens(context) == [8]
    assert model.begun_tokens(root) == (7,) and model.prompt_tokens(root) == [5, 6]
