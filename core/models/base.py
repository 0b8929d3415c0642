"""LanguageModel: contexts, batched evaluation, usage counts; the base of every kind of model.

A *context* is the int64 id of a node in the model's prefix tree: a prompt plus generated tokens.
Equal integers are equal prefixes, so a fork is a repetition, rollback is the parent, and a batch
that holds a prefix a thousand times evaluates it once. Nothing is computed before ``evaluate``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import UsageError
from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.distribution_cache import BlockRows, DistributionCache, Distributions
from cdec.core.models.prompt_table import PromptTable, Usage
from cdec.core.models.rounding import EVENT_ROUNDING
from cdec.core.models.warping import IDENTITY, Warping, normalizers
from cdec.core.models.watching import Watch, unwatched

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["BlockRows", "Contexts", "Distributions", "LanguageModel", "Prompt", "Usage", "Warping"]

Contexts: TypeAlias = NDArray[np.int64]
"""int64[n] ids of nodes in a model's prefix tree."""
Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text, token ids, or chat messages (``role`` and ``content``)."""
PromptForm: TypeAlias = Literal["text", "questions", "chat"]
"""A text stays a text; goes into the chat template if it is a bare question; or in any case."""

DEFAULT_CACHE_BYTES = 256 << 20
"""Bytes of next-token distributions kept for contexts that are asked for again."""


class LanguageModel(ABC):
    """Next-token distributions over a tree of contexts.

    Attributes:
        vocabulary: Its width is the width V of all scores.
        device: Where scores lie, ``cpu`` or ``cuda:0``: pass it to ``Constraint.session``.
        context_length: Tokens of prompt and text together; None where unbounded.
        warping: What ``prefill`` applies to new prompts by default.
        rounding: Bound of the relative error of a sum of probabilities, such as the whole of them.
        event_rounding: Nats by which log P of one event may differ between batches, devices and
            processors, at temperature 1 (see ``rounding``): what is certified is widened by it.
        continues_prompt: Whether a text goes on where its prompt ends, rather than beginning anew.
        prompt_form: What becomes of prompts that are texts.
    """

    rounding: float = 1e-6
    event_rounding: float = EVENT_ROUNDING["float32"]
    prompt_form: PromptForm = "text"
    continues_prompt: bool = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        device: str = "cpu",
        context_length: int | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self.vocabulary = vocabulary
        self.device = device
        self.context_length = context_length
        self.warping = IDENTITY
        self.watch: Watch = unwatched
        self._tree = ContextTree()
        self._table = PromptTable(self._tree)
        self._distributions = DistributionCache(self._tree, cache_bytes)
        self._prompt_ids: dict[int, list[int]] = {}
        self._begun: dict[int, tuple[int, ...]] = {}

    @property
    def tree(self) -> ContextTree:
        """The contexts: ``parent``, ``token`` and ``depth`` by id; read-only by agreement."""
        return self._tree

    @abstractmethod
    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids, checked against the vocabulary and the context length.

        Raises:
            EmptyPromptError: Nothing to start from.
            ContextLengthError: No room for one more token.
            ChatTemplateMissingError: Messages, and no template.
        """

    @abstractmethod
    def _forward(self, nodes: Contexts) -> Any:
        """Return the logits after ``nodes`` (distinct, sorted, maybe none), a new float[M, V]."""

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
        if isinstance(prompts, (str, Mapping)):
            raise UsageError("prefill takes a list of prompts, not one prompt")
        if warping is None or isinstance(warping, Warping):
            warping = [warping] * len(prompts)
        if len(warping) != len(prompts):
            raise UsageError(f"{len(warping)} warpings were given for {len(prompts)} prompts")
        encoded = [self.encode_prompt(prompt) for prompt in prompts]
        opened = zip(encoded, warping, begun or [()] * len(prompts), strict=True)
        roots = [self._add_prompt(ids, own or self.warping, tuple(t)) for ids, own, t in opened]
        return np.array(roots, np.int64)

    def advance(self, contexts: ArrayLike, token_ids: ArrayLike) -> Contexts:
        """Return the contexts one token longer, int64[n]; nothing is evaluated yet.

        Raises:
            UsageError: A context was released, or a token id lies outside the vocabulary.
        """
        tokens = np.asarray(token_ids, np.int64)
        if tokens.size and (tokens.min() < 0 or tokens.max() >= self.vocabulary.width):
            raise UsageError(f"a token id lies outside 0..{self.vocabulary.width - 1}")
        return self._tree.child(contexts, tokens)

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
        nodes = np.asarray(contexts, np.int64).reshape(-1)
        if not nodes.size:
            scores = self._forward(nodes)
            return Distributions(scores, normalizers(scores), nodes)
        self._fill(nodes)
        return self._distributions.collect(nodes)

    def scores_of(self, contexts: ArrayLike) -> list[BlockRows]:
        """Return what ``evaluate`` does block by block: no score is copied.

        Args:
            contexts: int64[n], in any order, repetitions welcome.

        Returns:
            One entry a block; their ``positions`` together are 0..n-1, each once.

        Raises:
            ContextLengthError, UsageError: As ``evaluate``.
        """
        nodes = np.asarray(contexts, np.int64).reshape(-1)
        self._fill(nodes)
        return self._distributions.parts(nodes)

    def next_logprobs(self, contexts: ArrayLike) -> Any:
        """Return log P(t | context) after warping, a new float[n, V] on the model's device."""
        return self.evaluate(contexts).logprobs()

    def extend(self, context: int, token_ids: Sequence[int]) -> tuple[Any, int]:
        """Append several tokens in one forward pass.

        Args:
            context: Where to append.
            token_ids: L tokens.

        Returns:
            float[L, V] log probabilities after each new token, and the last context.
        """
        nodes = []
        for token_id in token_ids:
            context = int(self.advance([context], [token_id])[0])
            nodes.append(context)
        return self.next_logprobs(np.array(nodes, np.int64)), context

    def fork(self, context: int, n: int) -> Contexts:
        """Return ``n`` times the same context: copies share everything until they differ."""
        return np.full(n, context, np.int64)

    def rollback(self, contexts: ArrayLike, n_tokens: ArrayLike) -> Contexts:
        """Return the contexts ``n_tokens`` (one number, or one a context) shorter, int64[n]."""
        nodes = np.asarray(contexts, np.int64).reshape(-1)
        self._tree.require_live(nodes)
        return self._tree.ancestors(nodes, np.broadcast_to(np.asarray(n_tokens), nodes.shape))

    def tokens(self, context: int) -> list[int]:
        """Return the tokens generated after the prompt."""
        return self._tree.tokens(int(context))

    def whole_tokens(self, context: int) -> list[int]:
        """Return all tokens of a context: its prompt's, a begun text's, and those generated."""
        root = int(self._tree.of_root("node", context))
        return [*self._prompt_ids[root], *self._begun[root], *self._tree.tokens(int(context))]

    def release(self, roots: ArrayLike) -> None:
        """Free everything below ``roots`` (from ``prefill``): contexts, caches and counts."""
        wanted = np.unique(np.asarray(roots, np.int64))
        if not wanted.size:
            return
        nodes = self._tree.below(wanted)
        self._forget(nodes)
        self._tree.free(nodes)

    def usage(self, root: int) -> Usage:
        """Return what was computed for the prompt at ``root`` so far."""
        return self._table.usage(root)

    @property
    def total_usage(self) -> Usage:
        """What was computed so far for all prompts, in this model and in all its views."""
        return self._table.total

    def prompt_length(self, root: int) -> int:
        """Return the tokens to read of a prompt and a begun text: all that no context gave it."""
        return self._table.get("prompt_length", root)

    def prompt_tokens(self, root: int) -> list[int]:
        """Return the prompt's token ids, as a second model of the same vocabulary reads them."""
        return list(self._prompt_ids[int(root)])

    def begun_tokens(self, root: int) -> tuple[int, ...]:
        """Return the tokens of the text that stood after the prompt at ``root`` already."""
        return self._begun[int(root)]

    def prompt_warping(self, root: int) -> Warping:
        """Return what is applied to the scores of the prompt at ``root``."""
        return self._table.warping(root)

    def max_new_tokens(self, root: int) -> int | None:
        """Return how many tokens can follow the prompt at ``root``; None where unbounded.

        The distribution after the last of them can still be evaluated, so an end event fits.
        """
        length = self.context_length
        return None if length is None else length - self._table.get("start", root)

    def _add_prompt(
        self, token_ids: Sequence[int], warping: Warping, begun: tuple[int, ...]
    ) -> int:
        root = self._tree.add_root()
        self._table.set_up(root, len(token_ids) + len(begun), warping)
        self._prompt_ids[root], self._begun[root] = list(token_ids), begun
        return root

    def _forget(self, nodes: Contexts) -> None:
        """Drop what is kept for ``nodes``, whole trees that are about to be freed."""
        self._distributions.forget(nodes)
        for root in nodes[self._tree.parent[nodes] == NONE].tolist():
            del self._prompt_ids[root], self._begun[root]

    def _count(self, nodes: Contexts, calls: ArrayLike, tokens: ArrayLike) -> None:
        """Add forward-pass sequences and tokens to the prompts of ``nodes``."""
        self._table.add("calls", nodes, calls)
        self._table.add("tokens", nodes, tokens)

    def _fill(self, nodes: Contexts) -> None:
        """Compute and keep the distributions of ``nodes`` that are not kept."""
        self._tree.require_live(nodes)
        missing = self._distributions.missing(nodes)
        if not missing.size:
            return
        self._table.require_room(missing, self.context_length)
        with self.watch(missing):
            scores = self._table.warp(missing, self._forward(missing))
            self._table.add("evaluations", missing, 1)
            self._distributions.store(missing, scores, normalizers(scores), keep=nodes)
