"""Retokenisation: a given text in the tokens that the model prefers.

Repeatedly the most probable token that is a prefix of the remaining text: greedy decoding under the
constraint that the text comes out (DOMINO, arXiv 2403.06988, appendix B, algorithm 3). Deviation: a
token after which nothing could spell the rest is not taken, so that the text's end is always
reached. One text is a constraint (``ways``): the ways to spell it, or one way alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.errors import CdecError, ContextLengthError, UntokenizableError
from cdec.core.sample import FINISH_COMPLETE, FINISH_LENGTH
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.request import Request
from cdec.samplers.scoring.texts import utf8_of
from cdec.samplers.scoring.ways import Ways, WaysConstraint, one_way, ways_to_spell

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.sample import Sample


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to spell a text.

    Attributes:
        token_ids: Its tokens, the end token not among them.
        logprob: Log probability (natural) of the tokens, and of the end event if it was asked for;
            None where the model gives them none at all.
        events: How many events that is.
    """

    token_ids: Sequence[int]
    logprob: float | None
    events: int

    @property
    def perplexity(self) -> float | None:
        """exp(-logprob / events); None where either is missing, or for no event."""
        if self.logprob is None or not self.events:
            return None
        exponent = -self.logprob / self.events
        return math.exp(exponent) if exponent < 700 else None


@dataclass(frozen=True, slots=True)
class Retokenized:
    """A text in the tokens the model prefers, and in those of its tokenizer.

    Attributes:
        text: As given.
        preferred: Greedily chosen; not always the more probable one as a whole.
        canonical: What the tokenizer gives.
        tokens: The preferred tokens' texts; bytes that are no UTF-8 as ``\\xNN``.
    """

    text: str
    preferred: Spelling
    canonical: Spelling
    tokens: Sequence[str]

    def to_json(self) -> dict[str, object]:
        """Return the record as one JSON-ready object, keys in the documented order."""
        return {
            "text": self.text,
            "token_ids": list(self.preferred.token_ids),
            "tokens": list(self.tokens),
            "logprob": self.preferred.logprob,
            "perplexity": self.preferred.perplexity,
            "canonical_token_ids": list(self.canonical.token_ids),
            "canonical_logprob": self.canonical.logprob,
            "canonical_perplexity": self.canonical.perplexity,
        }


class Retokenizer:
    """Rewrites texts in the tokens that a model prefers.

    Args:
        model: Its vocabulary must be able to encode.
        end: Count the end event after each text.
    """

    def __init__(self, model: LanguageModel, *, end: bool = False) -> None:
        self._model = model
        self._end = end
        self._tokens = SortedTokens(model.vocabulary)

    def run(self, texts: Sequence[str], prompts: Sequence[Prompt]) -> list[Retokenized | CdecError]:
        """Rewrite texts, each after its prompt; all decode together.

        Args:
            texts, prompts: n of each.

        Returns:
            For each text the result, or the error it met. Cost: one forward pass a preferred token
            over all texts together, and one more for the tokenizer's tokens.
        """
        results: dict[int, Retokenized | CdecError] = {}
        rows: dict[int, list[int]] = {}
        requests: list[Request] = []
        for i, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
            try:
                ways, rows[i] = self._ways(text)
            except CdecError as error:
                results[i] = error
                continue
            given = one_way(rows[i], ends_itself=not self._end)
            requests += [self._request(prompt, ways, i), self._request(prompt, given, i)]
        drawn = GreedySampler().draw_batch(self._model, [r for r in requests if self._is_drawn(r)])
        found = iter(drawn)
        for preferred, canonical in zip(requests[::2], requests[1::2], strict=True):
            number: Any = preferred.id
            pair = [next(found) if self._is_drawn(r) else None for r in (preferred, canonical)]
            results[number] = self._result(texts[number], rows[number], *pair)
        return [results[i] for i in range(len(texts))]

    def _ways(self, text: str) -> tuple[Ways, list[int]]:
        """Return all ways to spell a text, and the tokenizer's.

        Raises:
            EncodingError: A lone surrogate.
            UntokenizableError: Its tokens are another text, or there are none.
        """
        vocabulary = self._model.vocabulary
        data = utf8_of(text)
        canonical = vocabulary.encode([text])[0]
        if vocabulary.decode(canonical) != data:
            raise UntokenizableError(
                "the tokenizer changes the text: its tokens spell another one",
                hint="Normalise the text as the tokenizer does.",
            )
        return ways_to_spell(data, self._tokens, ends_itself=not self._end), canonical

    def _request(self, prompt: Prompt, ways: Ways, number: int) -> Request:
        constraint = WaysConstraint(ways, self._model.vocabulary)
        return Request(prompt, constraint, [0], id=number)

    def _is_drawn(self, request: Request) -> bool:
        """Whether there is an event to draw: not for the empty text without its end."""
        constraint: Any = request.constraint
        return bool(constraint.ways) or self._end

    def _result(
        self,
        text: str,
        row: list[int],
        preferred: list[Sample] | CdecError | None,
        canonical: list[Sample] | CdecError | None,
    ) -> Retokenized | CdecError:
        for drawn in (preferred, canonical):
            if isinstance(drawn, CdecError):
                return drawn
        if preferred is None or canonical is None:
            nothing = Spelling([], 0.0, 0)
            return Retokenized(text, nothing, nothing, [])
        for sample in (preferred[0], canonical[0]):  # type: ignore[index]
            if sample.finish_reason == FINISH_LENGTH:
                return ContextLengthError(
                    "the text does not fit the model's context behind its prompt",
                    hint="Shorten the text or the prompt.",
                )
        best, given = preferred[0], canonical[0]  # type: ignore[index]
        if best.finish_reason != FINISH_COMPLETE:
            return UntokenizableError(
                f"the model gives the text no probability after {best.text!r}",
                hint="Leave `top_k` and `top_p` out.",
            )
        table = self._model.vocabulary.token_bytes
        tokens = [table[token].decode("utf-8", "backslashreplace") for token in best.token_ids]
        return Retokenized(
            text,
            Spelling(best.token_ids, best.logprob, len(best.token_ids) + self._end),
            Spelling(row, given.logprob, len(row) + self._end),
            tokens,
        )
