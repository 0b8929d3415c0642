"""TreeModel: language models over one prefix tree, each distinct prefix evaluated once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import ContextLengthError, UsageError
from cdec.core.models.context_tree import NONE, ContextTree
from cdec.core.models.distribution_cache import DistributionCache
from cdec.core.models.language_model import (
    BlockRows,
    Contexts,
    Distributions,
    LanguageModel,
    Prompt,
    Usage,
    like,
)
from cdec.core.models.warping import IDENTITY, Warping, normalizers
from cdec.core.shown import line

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

DEFAULT_CACHE_BYTES = 256 << 20
"""Bytes of next-token distributions kept for contexts that are asked for again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of what a model that runs a module computes at once and keeps, as ``load_model`` says.

    Raises:
        UsageError: One is out of bounds.
    """

    max_batch_rows: int = 256
    max_batch_tokens: int = 16384
    cache_bytes: int = DEFAULT_CACHE_BYTES
    key_value_bytes: int = 1 << 30
    prefix_cache_bytes: int = 0

    def __post_init__(self) -> None:
        batches = min(self.max_batch_rows, self.max_batch_tokens)
        kept = min(self.cache_bytes, self.key_value_bytes, self.prefix_cache_bytes)
        if batches < 1 or kept < 0:
            raise UsageError("batch sizes must be at least 1 and cache sizes not negative")


class TreeModel(LanguageModel):
    """A language model whose contexts are nodes of a prefix tree; subclasses compute logits.

    Args:
        vocabulary: Its width is the width V of all scores.
        device: Where scores lie.
        context_length: Tokens of prompt and text together; None where unbounded.
        cache_bytes: Bytes of next-token distributions kept.
    """

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
        self.watch = lambda contexts: nullcontext()
        self._tree = ContextTree()
        self._table = PromptTable(self._tree)
        self._distributions = DistributionCache(self._tree, cache_bytes)
        self._prompt_ids: dict[int, list[int]] = {}
        self._begun: dict[int, tuple[int, ...]] = {}

    def __repr__(self) -> str:
        warping, length = self.warping, self.context_length
        return line(
            type(self).__name__,
            repr(self.vocabulary.name) if self.vocabulary.name else "",
            f"{self.vocabulary.width:,} tokens",
            f"on {self.device}",
            f"context {length:,}" if length is not None else "",
            f"temperature {warping.temperature:g}" if warping.temperature != 1 else "",
            f"top_k {warping.top_k}" if warping.top_k is not None else "",
            f"top_p {warping.top_p:g}" if warping.top_p is not None else "",
        )

    @property
    def tree(self) -> ContextTree:
        """The contexts."""
        return self._tree

    @abstractmethod
    def _forward(self, nodes: Contexts) -> Any:
        """Return the logits after ``nodes`` (distinct, arranged, maybe none), a new float[M, V]."""

    def _arranged(self, nodes: Contexts) -> Contexts:
        """Return distinct nodes (int64[M], ascending) in the order that costs a pass least."""
        return nodes

    def prefill(
        self,
        prompts: Sequence[Prompt],
        warping: Warping | Sequence[Warping | None] | None = None,
        begun: Sequence[Sequence[int]] | None = None,
    ) -> Contexts:
        """Return the context of each prompt, as ``LanguageModel.prefill``."""
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
        """Return the contexts one token longer; nothing is evaluated yet."""
        return self._tree.child(contexts, token_ids, self.vocabulary.width)

    def evaluate(self, contexts: ArrayLike) -> Distributions:
        """Return the next-token distributions of contexts, each distinct prefix once."""
        nodes = np.asarray(contexts, np.int64).reshape(-1)
        if not nodes.size:
            scores = self._forward(nodes)
            return Distributions(scores, normalizers(scores), nodes)
        missing = self._fill(nodes)
        return self._distributions.collect(nodes, missing)

    def scores_of(self, contexts: ArrayLike) -> list[BlockRows]:
        """Return what ``evaluate`` does block by block: no score is copied."""
        nodes = np.asarray(contexts, np.int64).reshape(-1)
        self._fill(nodes)
        return self._distributions.parts(nodes)

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
        """Usage so far for all prompts, in this model and in all its views."""
        return self._table.total

    def prompt_length(self, root: int) -> int:
        """Return the tokens to read of a prompt and a begun text."""
        return self._table.get("prompt_length", root)

    def prompt_tokens(self, root: int) -> list[int]:
        """Return the prompt's token ids."""
        return list(self._prompt_ids[int(root)])

    def begun_tokens(self, root: int) -> tuple[int, ...]:
        """Return the tokens of the text that stood after the prompt already."""
        return self._begun[int(root)]

    def prompt_warping(self, root: int) -> Warping:
        """Return what is applied to the scores of the prompt at ``root``."""
        return self._table.warping(root)

    def max_new_tokens(self, root: int) -> int | None:
        """Return how many tokens can follow the prompt at ``root``; None where unbounded."""
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

    def _fill(self, nodes: Contexts) -> Contexts:
        """Compute and keep the distributions of ``nodes`` that are not kept; return these."""
        missing = self._distributions.missing(nodes)
        if not missing.size:
            return missing
        missing = self._arranged(missing)
        self._table.require_room(missing, self.context_length)
        with self.watch(missing):
            scores = self._table.warp(missing, self._forward(missing))
            self._table.add("evaluations", missing, 1)
            # Where all are new, none has a block that must stay.
            kept = nodes if len(nodes) > len(missing) else missing[:0]
            self._distributions.store(missing, scores, normalizers(scores), keep=kept)
        return missing


class PromptTable:
    """Values by prompt, in root columns of the tree.

    ``prompt_length`` counts the tokens that are read of a prompt and a text that was begun behind
    it: all of them, but for those that were copied from another context. ``start`` counts the
    tokens before the first generated one in the context that is limited: the prompt's, or of an
    encoder-decoder model the decoder's fixed first tokens.

    Args:
        tree: The model's contexts.
    """

    def __init__(self, tree: ContextTree) -> None:
        self._tree = tree
        self._warpings = [IDENTITY]
        self._warping_numbers = {IDENTITY: 0}
        self._totals = dict.fromkeys(("calls", "tokens", "evaluations"), 0)
        for name in (*self._totals, "prompt_length", "start", "warping"):
            tree.add_root_column(name, np.int64, 0)

    def set_up(self, root: int, length: int, warping: Warping) -> None:
        """Note a new prompt of ``length`` tokens."""
        number = self._warping_numbers.setdefault(warping, len(self._warpings))
        if number == len(self._warpings):
            self._warpings.append(warping)
        for name, value in (("prompt_length", length), ("start", length), ("warping", number)):
            self.set(name, root, value)

    def set(self, name: str, root: int, value: int) -> None:
        """Write one value of a prompt."""
        self._tree.root_columns[name][self._tree.number[root]] = value

    def get(self, name: str, root: int) -> int:
        """Return one value of a prompt.

        Raises:
            UsageError: The prompt was released.
        """
        self._tree.require_live(np.array([root], np.int64))
        return int(self._tree.of_root(name, root))

    def warping(self, root: int) -> Warping:
        """Return the warping of a prompt."""
        return self._warpings[self.get("warping", root)]

    def usage(self, root: int) -> Usage:
        """Return what was computed for a prompt so far."""
        return Usage(*(self.get(name, root) for name in ("calls", "tokens", "evaluations")))

    @property
    def total(self) -> Usage:
        """Usage so far for all prompts, those included that are gone."""
        return Usage(**self._totals)

    def add(self, name: str, nodes: NDArray[np.int64], amounts: ArrayLike) -> None:
        """Add ``amounts``, int[n] or one for all, to what was computed for the prompts of nodes."""
        self._totals[name] += self._tree.count(name, nodes, amounts)

    def add_to_total(self, name: str, amount: int) -> None:
        """Add what was computed for several prompts at once, or is counted for one too often."""
        self._totals[name] += amount

    def warp(self, nodes: NDArray[np.int64], scores: Any) -> Any:
        """Apply to each row of ``scores`` float[n, V] the warping of its prompt."""
        if len(self._warpings) == 1:
            return scores
        chosen = self._tree.of_root("warping", nodes)
        if chosen.min() == chosen.max():
            warping = self._warpings[int(chosen[0])]
            return scores if warping.is_identity else warping.apply(scores)
        for number in np.unique(chosen).tolist():
            warping = self._warpings[number]
            rows = np.flatnonzero(chosen == number)
            if warping.is_identity:
                continue
            index = like(rows, scores)
            scores[index] = warping.apply(scores[index])
        return scores

    def require_room(self, nodes: NDArray[np.int64], limit: int | None) -> None:
        """Refuse contexts of more tokens than the model's context has; None bounds nothing.

        Raises:
            ContextLengthError: There is one.
        """
        if limit is None:
            return
        longest = self._tree.lengths("start", nodes)[1]
        if longest > limit:
            raise ContextLengthError(
                f"a prompt and its text have {longest} tokens, the model's context has {limit}",
                hint="Lower `max_new_tokens` or shorten the prompt.",
                length=longest,
                limit=limit,
            )
