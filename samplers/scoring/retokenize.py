"""Retokenisation: a given text in the tokens that the model prefers.

Repeatedly the most probable token that is a prefix of the remaining text: greedy decoding under the
constraint that the text comes out (DOMINO, arXiv 2403.06988, appendix B, algorithm 3). Deviation: a
token after which nothing could spell the rest is not taken, so that the text's end is always
reached. One text is a constraint (``WaysConstraint``): the ways to spell it, or one way alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession, mask_of
from cdec.core.constraint import DEAD, DONE, Constraint, Facts, Session
from cdec.core.device_session import on_device
from cdec.core.errors import CdecError, ContextLengthError, UntokenizableError
from cdec.core.sample import FINISH_COMPLETE, FINISH_LENGTH
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.request import Request
from cdec.samplers.scoring.texts import utf8_of

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary

Ways = Sequence[Mapping[int, int]]
"""By position: the tokens that lead on, and where to. The last position is ``len(ways)``."""


def ways_to_spell(text: bytes, tokens: SortedTokens) -> list[dict[int, int]]:
    """Return all ways to spell ``text``, by byte; tokens that lead into a dead end are left out.

    Args:
        text: n bytes.
        tokens: Of the vocabulary.

    Returns:
        n positions; the first is empty where no tokens spell the text. Cost: some 20 microseconds
        a byte.
    """
    end = len(text)
    ways: list[dict[int, int]] = [{} for _ in range(end)]
    for start in range(end - 1, -1, -1):
        for length, ids in tokens.beginnings(text[start : start + tokens.longest]):
            if start + length == end or ways[start + length]:
                ways[start].update(dict.fromkeys(ids, start + length))
    return ways


def one_way(token_ids: Sequence[int]) -> list[dict[int, int]]:
    """Return the one way that these tokens are."""
    return [{int(token): place + 1} for place, token in enumerate(token_ids)]


class WaysConstraint(Constraint):
    """The token sequences along ``ways``, from the first position to the last.

    Args:
        ways: At least one position, unless an end event is to be drawn.
        vocabulary: Of the model.
        ends_itself: The last token gives DONE; otherwise an end event follows it.
    """

    max_tokens: int

    def __init__(self, ways: Ways, vocabulary: Vocabulary, *, ends_itself: bool) -> None:
        self.ways = ways
        self.vocabulary = vocabulary
        self._ends_itself = ends_itself
        self.max_tokens = len(ways)

    @cached_property
    def facts(self) -> Facts:
        """Every token leads on."""
        return Facts(kind="text", is_sound=True, ends_itself=self._ends_itself)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""
        return on_device(WaysSession(self), device)

    def accepts(self, text: bytes) -> bool | None:
        """Say nothing: whoever gave the text compares."""
        return None


class WaysSession(ForwardingSession):
    """A decoding run along the ways; the states are positions, so it holds none itself."""

    def __init__(self, constraint: WaysConstraint) -> None:
        super().__init__(None, constraint.vocabulary)
        self._ways = constraint.ways
        self._ends_itself = constraint.facts.ends_itself

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states before the first token, int64[n]."""
        return np.zeros(n, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are positions, bool[n]."""
        return (states >= 0) & (states <= len(self._ways))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a position, int32[words]."""
        return mask_of(self._at(state), self.words)

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token."""
        after = self._at(state).get(token, DEAD)
        return DONE if after == len(self._ways) and self._ends_itself else after

    def own_end(self, state: int) -> bool:
        """Say whether the text is whole."""
        return state == len(self._ways)

    def _at(self, state: int) -> Mapping[int, int]:
        if state < len(self._ways):
            return self._ways[state]
        return {} if self._ends_itself else dict.fromkeys(self._end_ids.tolist(), DONE)


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
            requests += [self._request(prompt, ways, i), self._request(prompt, one_way(rows[i]), i)]
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
        return ways_to_spell(data, self._tokens), canonical

    def _request(self, prompt: Prompt, ways: Ways, number: int) -> Request:
        constraint = WaysConstraint(ways, self._model.vocabulary, ends_itself=not self._end)
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
