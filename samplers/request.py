"""Requests: one prompt, its constraint and its draws, as samplers and scorers take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdec.core.options import Option
from cdec.core.seeds import derive_seed

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import Prompt


DRAWS = Option(name="n", type=int, default=1, unit="texts", at_least=1)
"""Number of texts that are drawn for a prompt."""
MAX_NEW_TOKENS = Option(name="max_new_tokens", type=int, unit="tokens", at_least=1)
"""Most tokens of a text, end event not counted."""
DEFAULT_MAX_NEW_TOKENS = 256


def text_limit(max_new_tokens: int | None, constraint: Constraint | None) -> int:
    """Return the most tokens of a text where ``max_new_tokens`` may say nothing, as ``Request``.

    Raises:
        UsageError: A number below 1.
    """
    limit: int | None = MAX_NEW_TOKENS.check(max_new_tokens)
    if limit is None and constraint is not None:
        limit = constraint.max_tokens
    return DEFAULT_MAX_NEW_TOKENS if limit is None else limit


@dataclass(frozen=True, slots=True)
class TextPart:
    """Place of what is drawn in a text with free parts.

    Attributes:
        free: What the parts of the text are.
        is_free: Whether this one is.
        onward: Bytes of it that the last token of the part before has.
    """

    free: FreeText
    is_free: bool
    onward: bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, its constraint and its draws.

    Attributes:
        prompt: Text, token ids or chat messages.
        constraint: What samples must belong to; None for the model alone.
        seeds: One seed a draw, so ``len(seeds)`` samples are asked for.
        id: Copied into the samples.
        indices: Number of each draw within its record; ``0..n-1`` if None.
        max_new_tokens: Most tokens of a text, end event not counted, at least 1; None takes the
            constraint's longest member, or 256.
        input: Fields passed through to the samples.
        asked: The prompt as it was given, which rewards see, where ``prompt`` is what was made of
            it: with a begun answer, or without its cut end; None is ``prompt`` itself.
        free: What the model writes freely before the constraint begins, or around it; None where
            the text begins with the constraint.
        begun: Tokens of the text that stand after the prompt already; ``constraint`` and
            ``max_new_tokens`` are about what follows them.
        part: Of the text that stands begun, where others draw its other parts; None for all of it.
    """

    prompt: Prompt
    constraint: Constraint | None
    seeds: Sequence[int]
    id: object = None
    indices: Sequence[int] | None = None
    max_new_tokens: int | None = None
    input: Mapping[str, object] | None = None
    asked: Prompt | None = None
    free: FreeText | None = None
    begun: Sequence[int] = ()
    part: TextPart | None = None

    @classmethod
    def numbered(
        cls,
        prompt: Prompt,
        constraint: Constraint | None,
        *,
        id: object,
        n: int = 1,
        seed: int = 0,
        first: int = 0,
        max_new_tokens: int | None = None,
        input: Mapping[str, object] | None = None,
        asked: Prompt | None = None,
        free: FreeText | None = None,
    ) -> Request:
        """Return a request for ``n`` draws, seeded by ``seed``, ``id`` and their numbers.

        The first of them is number ``first``.

        Raises:
            UsageError: ``n`` is less than 1.
        """
        DRAWS.check(n)
        indices = range(first, first + n)
        seeds = [derive_seed(seed, id, index) for index in indices]
        return cls(
            prompt,
            constraint,
            seeds,
            id=id,
            indices=list(indices) if first else None,
            max_new_tokens=max_new_tokens,
            input=input,
            asked=asked,
            free=free,
        )
