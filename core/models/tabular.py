"""TabularModel: a language model given by a function from prefixes to probabilities.

It is how every sampler is tested against exact enumeration, and how a distribution of one's own
meets the samplers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import FieldError, UsageError
from cdec.core.models.base import DEFAULT_CACHE_BYTES, TreeModel
from cdec.core.models.language_model import Contexts, Prompt

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

_SUM_TOLERANCE = 1e-5
"""How far probabilities may be from summing to 1: rounding of float32, not mistakes."""


class TabularModel(TreeModel):
    """A language model whose next-token probabilities come from a Python function.

    Scores are numpy float64 on the CPU. The prompt does not matter: the function sees the tokens of
    the text alone, those it was begun with included.

    Args:
        next_probabilities: From a prefix, a tuple of generated token ids, to probabilities
            float[V] that sum to 1; called once a distinct prefix while the cache holds it.
        vocabulary: Its width is V.
        cache_bytes: Bytes of distributions kept.
    """

    rounding = 1e-14
    event_rounding = 1e-14

    def __init__(
        self,
        next_probabilities: Callable[[tuple[int, ...]], ArrayLike],
        vocabulary: Vocabulary,
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        super().__init__(vocabulary, cache_bytes=cache_bytes)
        self._next_probabilities = next_probabilities

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return token ids as they are, checked; texts and messages, which are ignored, as []."""
        if isinstance(prompt, str) or any(isinstance(part, Mapping) for part in prompt):
            return []
        return checked_token_ids(prompt, self.vocabulary.width)

    def _forward(self, nodes: Contexts) -> Any:
        scores = np.empty((len(nodes), self.vocabulary.width))
        roots = self._tree.roots(nodes).tolist()
        for row, (node, root) in enumerate(zip(nodes.tolist(), roots, strict=True)):
            scores[row] = self._probabilities((*self._begun[root], *self._tree.tokens(node)))
        is_root = self._tree.depth[nodes] == 0
        prompts = self._tree.of_root("prompt_length", nodes)
        self._count(nodes, 1, np.where(is_root, prompts, 1))
        with np.errstate(divide="ignore"):
            return np.log(scores)

    def _probabilities(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        row = np.asarray(self._next_probabilities(prefix), np.float64)
        width = self.vocabulary.width
        if row.shape != (width,):
            raise UsageError(f"probabilities after {prefix} have shape {row.shape}, not ({width},)")
        if not (np.isfinite(row).all() and (row >= 0).all()):
            raise UsageError(f"probabilities after {prefix} are negative or not finite")
        if abs(row.sum() - 1) > _SUM_TOLERANCE:
            raise UsageError(
                f"probabilities after {prefix} sum to {row.sum():.6g}, not 1",
                hint="Give the rest of the mass to a token, such as the end of sequence.",
            )
        return row


def checked_token_ids(prompt: Sequence[Any], width: int) -> list[int]:
    """Return a prompt given as token ids as plain integers.

    Raises:
        FieldError: Something that is no integer, or outside 0..width-1.
    """
    token_ids = []
    for position, token_id in enumerate(prompt):
        if isinstance(token_id, bool) or not isinstance(token_id, (int, np.integer)):
            raise FieldError(
                f"prompt token {position} is {token_id!r}, not an integer", field="prompt"
            )
        if not 0 <= token_id < width:
            raise FieldError(
                f"prompt token {position} is {token_id}, outside 0..{width - 1}", field="prompt"
            )
        token_ids.append(int(token_id))
    return token_ids
