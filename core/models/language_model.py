"""LanguageModel: what samplers need of a model, whatever computes it.

A *context* is the int64 id of a node in the model's prefix tree: a prompt plus generated tokens.
Equal integers are equal prefixes, so a fork is a repetition, rollback is the parent, and a batch
that holds a prefix a thousand times evaluates it once. Nothing is computed before ``evaluate``.
``cdec.core.models.base`` is the one implementation, of which every kind of model is made.
"""

from __future__ import annotations

import copy
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.models.warping import IDENTITY, Warping

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.session import Session
    from cdec.core.tokens.vocabulary import Vocabulary

Contexts: TypeAlias = NDArray[np.int64]
"""int64[n] ids of nodes in a model's prefix tree."""


@dataclass(frozen=True)
class Chat(Sequence[Mapping[str, Any]]):
    """Chat messages, and what their template is told beside them.

    Attributes:
        messages: With ``role`` and ``content``.
        arguments: Values by the names that the template reads them by, ``enable_thinking`` say;
            they replace those of the model. ``tools`` are definitions of functions.
    """

    messages: Sequence[Mapping[str, Any]]
    arguments: Mapping[str, Any]

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Any:
        """Return a message, or some of them."""
        return self.messages[at]

    def __len__(self) -> int:
        """Return how many messages there are."""
        return len(self.messages)


Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text, token ids, or chat messages (``role`` and ``content``), a ``Chat`` among them."""
PromptForm: TypeAlias = Literal["text", "questions", "chat"]
"""A text stays a text; goes into the chat template if it is a bare question; or in any case."""
Watch: TypeAlias = Callable[[Contexts], AbstractContextManager[None]]
"""Stands around each pass, given the contexts that it evaluates, int64[n]."""

EVENT_ROUNDING: Mapping[str, float] = {
    "float64": 1e-5,
    "float32": 5e-5,
    "float16": 0.06,
    "bfloat16": 0.4,
}
"""Rounding of one event's log probability in nats, by dtype of the weights; scores are float32 at
best, whatever the weights.

A model adds up the same numbers in another order in another batch, on another device, on another
processor and with a draft: what it says of a prefix differs in the last digits. Certified bounds
are widened by that, for every event of the longest text that they are about.

Twice the most that was met in 84 prefixes of each of four models (the embedded ones, random llamas
of 4 and 12 layers; log P from -38 to 0), alone and in batches of 2, 5 and 12, with all instructions
of a processor and with the oldest: 2.5e-5, 0.031 and 0.22. It grows with the span of the scores:
where log P goes down to -63 it was five times as much."""


def event_rounding(dtype: str) -> float:
    """Return the rounding of a dtype, ``float32`` say, in nats; of another one the largest."""
    return EVENT_ROUNDING.get(dtype, max(EVENT_ROUNDING.values()))


def warped_rounding(rounding: float, temperature: float) -> float:
    """Return the rounding of an event, in nats, of a model at a temperature.

    A token at the edge of ``top_k`` or ``top_p`` may fall out of the law altogether: no bound of
    rounding holds across that.
    """
    return rounding / min(1.0, temperature)


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a model for one prompt: what was computed.

    Attributes:
        calls: Sequences in forward passes.
        tokens: Tokens processed by forward passes, padding left out; of a prompt all tokens, though
            what prompts begin with alike is processed once (and once in ``total_usage``).
        evaluations: Distinct prefixes whose distribution was computed.
    """

    calls: int
    tokens: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class Distributions:
    """Next-token distributions of n contexts, equal contexts sharing a row.

    ``log P(t | context i) = scores[rows[i], t] - log_normalizer[rows[i]]``, natural logs.

    Attributes:
        scores: float[M, V], warped, not normalised; numpy float64 of a tabular model, a float32
            torch tensor on the model's device otherwise. Shared with the model: never write to it.
        log_normalizer: float64[M], of the same kind and device as ``scores``.
        rows: int64[n], numpy.
    """

    scores: Any
    log_normalizer: Any
    rows: NDArray[np.int64]

    def logprobs(self) -> Any:
        """Return log P(t | context i), a new float[n, V] of the scores' dtype."""
        rows = like(self.rows, self.scores)
        taken = self.scores[rows]
        taken -= self.log_normalizer[rows][:, None]
        return taken


class BlockRows(NamedTuple):
    """The next-token distributions of some contexts, as rows of the block that holds them.

    ``log P(t | context positions[i]) = scores[rows[i], t] - log_normalizer[rows[i]]``.

    Attributes:
        positions: int64[k] ascending, which of the contexts asked for these are.
        scores, log_normalizer: float[M, V] and float64[M], as in ``Distributions``.
        rows: int64[k], numpy.
    """

    positions: NDArray[np.int64]
    scores: Any
    log_normalizer: Any
    rows: NDArray[np.int64]


def like(rows: NDArray[np.int64], scores: Any) -> Any:
    """Return row numbers as an index of the scores' kind and device."""
    if isinstance(scores, np.ndarray):
        return rows
    import torch

    return torch.from_numpy(np.ascontiguousarray(rows)).to(scores.device)


class ContextColumns(Protocol):
    """A model's contexts by id; read-only by agreement.

    Attributes:
        columns: Arrays of one value a context by name, those below among them.
        parent, token, depth: int32, the parent's id (-1 for prompts), the last token, and the
            number of tokens after the prompt.
    """

    columns: dict[str, NDArray[Any]]

    @property
    def parent(self) -> NDArray[np.int32]: ...
    @property
    def token(self) -> NDArray[np.int32]: ...
    @property
    def depth(self) -> NDArray[np.int32]: ...


class LanguageModel(ABC):
    """Next-token distributions over a tree of contexts.

    Attributes:
        vocabulary: Its width is the width V of all scores.
        device: Where scores lie, ``cpu`` or ``cuda:0``: pass it to ``Constraint.session``.
        context_length: Tokens of prompt and text together; None where unbounded.
        warping: What ``prefill`` applies to new prompts by default.
        rounding: Bound of the relative error of a sum of probabilities, such as the whole of them.
        event_rounding: Nats by which log P of one event may differ between batches, devices and
            processors, at temperature 1 (``EVENT_ROUNDING``): what is certified is widened by it.
        continues_prompt: Whether a text goes on where its prompt ends, rather than beginning anew.
        prompt_form: What becomes of prompts that are texts.
        chat_template: Source of the templates of chats; empty where there is none.
        watch: Stands around each pass.
        asking, beside: Stands around what constraints are asked; returns a session as it is asked.
    """

    vocabulary: Vocabulary
    device: str
    context_length: int | None
    warping: Warping = IDENTITY
    rounding: float = 1e-6
    event_rounding: float = EVENT_ROUNDING["float32"]
    prompt_form: PromptForm = "text"
    chat_template: str = ""
    continues_prompt: bool = True
    watch: Watch
    asking: AbstractContextManager[None] = nullcontext()
    beside: Callable[[Session], Session] = staticmethod(lambda session: session)

    @property
    @abstractmethod
    def tree(self) -> ContextColumns:
        """The contexts."""

    @abstractmethod
    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids, checked against the vocabulary and the context length.

        Raises:
            EmptyPromptError: Nothing to start from.
            ContextLengthError: No room for one more token.
            ChatTemplateMissingError: Messages, and no template.
        """

    def with_warping(
        self, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> Self:
        """Return a view of this model, sharing weights, contexts and caches, that warps.

        The warping belongs to the prompts that the view prefills; contexts of all views of one
        model can be mixed in one batch, each keeping the warping of its prompt.

        Raises:
            UsageError: A value out of range; temperature 0 is refused.
        """
        view = copy.copy(self)
        view.warping = Warping(temperature, top_k, top_p)
        return view

    def watched(self, tell: Callable[[Contexts, float], None]) -> Self:
        """Return a view that tells, too, of each pass its contexts and its wall seconds."""
        around = self.watch

        @contextmanager
        def watch(contexts: Contexts) -> Iterator[None]:
            with around(contexts):
                started = time.monotonic()
                yield
                tell(contexts, time.monotonic() - started)

        view = copy.copy(self)
        view.watch = watch
        return view

    @abstractmethod
    def prefill(
        self,
        prompts: Sequence[Prompt],
        warping: Warping | Sequence[Warping | None] | None = None,
        begun: Sequence[Sequence[int]] | None = None,
    ) -> Contexts:
        """Return the context of each prompt, int64[n]; each must be released in the end.

        Args:
            prompts: Texts, token ids or chat messages.
            warping: For all prompts, or one a prompt; None takes the model's own.
            begun: Tokens of a text that stand already after each prompt; None for none. What
                follows counts as generated, they do not.

        Returns:
            int64[n] roots. The prompt is run through the model by the first ``evaluate``.

        Raises:
            EmptyPromptError, ContextLengthError, ChatTemplateMissingError, UsageError: As
                ``encode_prompt``; no context is created then.
        """

    @abstractmethod
    def advance(self, contexts: ArrayLike, token_ids: ArrayLike) -> Contexts:
        """Return the contexts one token longer, int64[n]; nothing is evaluated yet.

        Raises:
            UsageError: A context was released, or a token id lies outside the vocabulary.
        """

    @abstractmethod
    def evaluate(self, contexts: ArrayLike) -> Distributions:
        """Return the next-token distributions of ``contexts``, each distinct prefix once.

        Args:
            contexts: int64[n], in any order, repetitions welcome.

        Returns:
            Distributions with ``rows`` int64[n]; read-only by agreement.

        Raises:
            ContextLengthError: A context fills the model's context length.
            UsageError: A context was released.
        """

    @abstractmethod
    def scores_of(self, contexts: ArrayLike) -> list[BlockRows]:
        """Return what ``evaluate`` does block by block: no score is copied.

        Returns:
            One entry a block; their ``positions`` together are 0..n-1, each once.
        """

    def next_logprobs(self, contexts: ArrayLike) -> Any:
        """Return log P(t | context) after warping, a new float[n, V] on the model's device."""
        return self.evaluate(contexts).logprobs()

    @abstractmethod
    def tokens(self, context: int) -> list[int]:
        """Return the tokens generated after the prompt."""

    @abstractmethod
    def release(self, roots: ArrayLike) -> None:
        """Free everything below ``roots`` (from ``prefill``): contexts, caches and counts."""

    @abstractmethod
    def usage(self, root: int) -> Usage:
        """Return what was computed for the prompt at ``root`` so far."""

    @property
    @abstractmethod
    def total_usage(self) -> Usage:
        """Usage so far for all prompts, in this model and in all its views."""

    @abstractmethod
    def prompt_length(self, root: int) -> int:
        """Return the tokens to read of a prompt and a begun text: all that no context gave it."""

    @abstractmethod
    def prompt_tokens(self, root: int) -> list[int]:
        """Return the prompt's token ids, as a second model of the same vocabulary reads them."""

    @abstractmethod
    def begun_tokens(self, root: int) -> tuple[int, ...]:
        """Return the tokens of the text that stood after the prompt at ``root`` already."""

    @abstractmethod
    def prompt_warping(self, root: int) -> Warping:
        """Return what is applied to the scores of the prompt at ``root``."""

    @abstractmethod
    def max_new_tokens(self, root: int) -> int | None:
        """Return how many tokens can follow the prompt at ``root``; None where unbounded.

        The distribution after the last of them can still be evaluated, so an end event fits.
        """

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits that tell a model's weights and settings from another's.

        Two models of one fingerprint give the same distributions, up to the floating-point noise of
        batching; where a model was loaded from, and on which device it lies, does not matter. A
        model without weights has nothing to look at: all of a kind have one fingerprint.
        """
        return hashlib.sha256(type(self).__name__.encode()).hexdigest()
