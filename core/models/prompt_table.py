"""What a model keeps for each prompt: its length, its warping, and what was computed for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cdec.core.errors import ContextLengthError
from cdec.core.models.context_tree import ContextTree
from cdec.core.models.distribution_cache import like
from cdec.core.models.warping import IDENTITY, Warping


@dataclass(frozen=True, slots=True)
class Usage:
    """What was computed for one prompt.

    Attributes:
        calls: Sequences in forward passes.
        tokens: Tokens processed by forward passes, padding left out.
        evaluations: Distinct prefixes whose distribution was computed.
    """

    calls: int
    tokens: int
    evaluations: int


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
        """What was computed so far for all prompts, those included that are gone."""
        return Usage(**self._totals)

    def add(self, name: str, nodes: NDArray[np.int64], amounts: ArrayLike) -> None:
        """Add ``amounts``, int[n] or one for all, to what was computed for the prompts of nodes."""
        self._totals[name] += int(np.broadcast_to(amounts, nodes.shape).sum())
        np.add.at(self._tree.root_columns[name], self._tree.number[nodes], amounts)

    def warp(self, nodes: NDArray[np.int64], scores: Any) -> Any:
        """Apply to each row of ``scores`` float[n, V] the warping of its prompt."""
        chosen = self._tree.of_root("warping", nodes)
        for number in np.unique(chosen).tolist():
            warping = self._warpings[number]
            rows = np.flatnonzero(chosen == number)
            if warping.is_identity:
                continue
            if len(rows) == len(nodes):
                return warping.apply(scores)
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
        longest = int((self._tree.of_root("start", nodes) + self._tree.depth[nodes]).max())
        if longest > limit:
            raise ContextLengthError(
                f"a prompt and its text have {longest} tokens, the model's context has {limit}",
                hint="Lower `max_new_tokens` or shorten the prompt.",
                length=longest,
                limit=limit,
            )
