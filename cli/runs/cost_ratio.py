"""``--cost-ratio``: what a call of the draft costs in calls of the model, typed or measured."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdec.core.models.base import LanguageModel

MEASURE = "measure"
_PROMPT = "The quick brown fox jumps over the lazy dog. Then"
_TOKENS = 16
_ROUNDS = 4
"""The first of them is a warm-up."""


def parse_cost_ratio(text: str | None) -> float | None:
    """Return the number that was typed; None for none, and for ``measure``.

    Raises:
        UsageError: It is neither a number above 0 nor ``measure``.
    """
    if text is None or text == MEASURE:
        return None
    try:
        ratio = float(text)
    except ValueError:
        ratio = math.nan
    if not 0.0 < ratio < math.inf:
        raise UsageError(
            f"--cost-ratio is {text!r}, expected a number above 0, or measure",
            hint="give for example --cost-ratio 0.2",
        )
    return ratio


def measure_cost_ratio(model: LanguageModel, draft: LanguageModel) -> float:
    """Return greedy tokens a second of ``model`` over those of ``draft``, one text at a time.

    The fastest of a few rounds counts, as what else runs on the machine can only slow them down.
    Cost: 64 tokens of each.

    Raises:
        UsageError: A context has no room for a few tokens more than the fixed prompt.
    """
    prompt = model.encode_prompt(_PROMPT)
    return _seconds_a_token(draft, prompt) / _seconds_a_token(model, prompt)


def _seconds_a_token(model: LanguageModel, prompt: Sequence[int]) -> float:
    spent = []
    for _ in range(_ROUNDS):
        root = model.prefill([list(prompt)])
        try:
            room = model.max_new_tokens(int(root[0]))
            tokens = _TOKENS if room is None else min(_TOKENS, room - 1)
            if tokens < 1:
                raise UsageError(
                    "a model's context is too short to time it",
                    hint="give a number instead of --cost-ratio measure",
                )
            context = root
            # The prompt's own pass is not a token's.
            best = int(model.next_logprobs(context)[0].argmax())
            started = time.perf_counter()
            for _ in range(tokens):
                context = model.advance(context, [best])
                best = int(model.next_logprobs(context)[0].argmax())
            spent.append((time.perf_counter() - started) / tokens)
        finally:
            model.release(root)
    return min(spent[1:])
