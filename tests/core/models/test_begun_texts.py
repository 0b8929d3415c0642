"""Texts of which tokens stand already: what a model says after them is what it says after all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cdec.core.models.wrapping import wrap_module
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.laws.rounding import tolerance

PROMPTS = [[5, 6, 7], [9], [5, 6, 8, 4]]
BEGUN = [[11, 12, 13, 14], [], [20, 3]]
NEXT = [[30, 31], [32, 33], [30, 40]]
TOLERANCE = tolerance(1)


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


def drawn_context(model: Any, prompt: list[int], tokens: list[int]) -> tuple[int, int]:
    """Draw tokens one by one, and return the root and the last context, which is not evaluated."""
    (root,) = model.prefill([prompt]).tolist()
    context = root
    for token in tokens:
        model.evaluate([context])
        (context,) = model.advance([context], [token]).tolist()
    return root, context


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "bloom", "t5", "bart"])
def test_what_a_live_context_holds_of_a_begun_text_is_not_computed_again(name: str) -> None:
    model = wrap_module(tiny_module(name), VOCABULARY)
    prompt, text = [5, 6, 7, 8], [11, 12, 13, 14, 15]
    root, _ = drawn_context(model, prompt, text)
    expected = after(wrap_module(tiny_module(name), VOCABULARY), [prompt], [text], [[30, 31]])
    (begun,) = model.prefill([prompt], None, [text]).tolist()
    # The one that was copied from may go at once.
    model.release([root])
    found = [model.next_logprobs([begun])]
    assert model.usage(begun).tokens == 1
    context = begun
    for token in (30, 31):
        (context,) = model.advance([context], [token]).tolist()
        found.append(model.next_logprobs([context]))
    torch.testing.assert_close(torch.stack(found), expected, atol=TOLERANCE, rtol=0)
    model.release([begun])
    assert model._pool.used == 0


@pytest.mark.parametrize("name", ["gpt2", "bloom", "t5"])
def test_contexts_below_a_begun_text_are_computed_with_what_is_missing(name: str) -> None:
    """A run is evaluated before the text it follows; others of the batch begin at other places."""
    model = wrap_module(tiny_module(name), VOCABULARY)
    prompts = [[5, 6, 7], [5, 6, 7], [9, 4]]
    texts = [[11, 12, 13], [11, 12, 20, 21], [22]]
    drawn_context(model, prompts[0], [11, 12, 13, 14])
    drawn_context(model, [5, 6], [7, 11, 12])  # equal tokens, another prompt
    expected = after(wrap_module(tiny_module(name), VOCABULARY), prompts, texts, [[30, 31]] * 3)
    begun = model.prefill(prompts, None, texts)
    once = model.advance(begun, [30] * 3)
    last = model.next_logprobs(model.advance(once, [31] * 3))
    torch.testing.assert_close(last, expected[2], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(model.next_logprobs(begun), expected[0], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(model.next_logprobs(once), expected[1], atol=TOLERANCE, rtol=0)


def test_a_small_pool_evicts_begun_texts_and_computes_them_again() -> None:
    module = tiny_module("gpt2")
    model = wrap_module(module, VOCABULARY, key_value_bytes=1 << 12)
    prompts = [[5 + i, 6, 7] for i in range(6)]
    texts = [[11, 12, 13, 14 + i] for i in range(6)]
    for prompt, text in zip(prompts, texts, strict=True):
        drawn_context(model, prompt, [*text, 3])
    begun = model.prefill(prompts, None, texts)
    expected = after(wrap_module(module, VOCABULARY), prompts, texts, [[30, 31]] * 6)
    once = model.advance(begun, [30] * 6)
    twice = model.advance(once, [31] * 6)
    for rows, contexts in zip(expected, (begun, once, twice), strict=True):
        for i, context in enumerate(contexts.tolist()):
            found = model.next_logprobs([context])[0]
            torch.testing.assert_close(found, rows[i], atol=TOLERANCE, rtol=0)


def test_a_pass_that_fails_leaves_a_begun_text_to_be_computed_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = wrap_module(tiny_module("gpt2"), VOCABULARY)
    drawn_context(model, [5, 6, 7], [11, 12, 13])
    (begun,) = model.prefill([[5, 6, 7]], None, [[11, 12, 13]]).tolist()
    with monkeypatch.context() as broken:
        broken.setattr(model, "_call", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.evaluate([begun])
    expected = after(
        wrap_module(tiny_module("gpt2"), VOCABULARY), [[5, 6, 7]], [[11, 12, 13]], [[1]]
    )
    found = model.next_logprobs([begun])
    torch.testing.assert_close(found, expected[0], atol=TOLERANCE, rtol=0)
