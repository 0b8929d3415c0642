"""ModelDraft: proposals drawn from a smaller language model of the same vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.samplers import events
from cdec.samplers.categorical_kernels import NONE
from cdec.samplers.drafts.proposals import DRAWN, GUESSED, Drafting, Guess, in_view
from cdec.samplers.drafts.view import DraftView
from cdec.samplers.step import Step

if TYPE_CHECKING:
    from cdec.core.model import LanguageModel
    from cdec.samplers.batch import Batch
    from cdec.samplers.frontier import Frontier


class ModelDrafting(Drafting):
    """A draft model at work on a batch.

    Args:
        batch: The open requests.
        draft: The draft model.
        temperature: Of the draft, instead of the target's warping; 0 proposes the most probable
            events, whose law is a one-hot one; None keeps the target's.

    Raises:
        TokenizerMismatchError, UsageError: As ``DraftView``.
    """

    has_law: ClassVar[bool] = True
    calls_model: ClassVar[bool] = True

    def __init__(
        self, batch: Batch, draft: LanguageModel, temperature: float | None = None
    ) -> None:
        self._is_greedy = temperature == 0.0
        self.view = DraftView(batch, draft, None if self._is_greedy else temperature)
        self._twins = Twins(batch, self.view)
        self._width = batch.model.vocabulary.width
        self._evaluated = np.zeros(1024, np.bool_)
        self._calls: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def __exit__(self, *_: object) -> None:
        self.view.__exit__()

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the next event of each walk; NONE where the draft's context is full."""
        able = np.flatnonzero(self.view.can_follow(walks.request, walks.depth))
        asked = walks if len(able) == len(walks.request) else walks.take(able)
        if not able.size:
            return Guess.of(np.full(len(walks.request), NONE, np.int64))
        step = self.evaluate(in_view(asked, self.view.batch, self._twins.of(asked.context)))
        if uniforms is None or self._is_greedy:
            chosen = events.most_probable(step)
        else:
            chosen = events.sample(step, uniforms[able])
        n = len(walks.request)
        found, law, log_p = np.full(n, NONE, np.int64), np.full(n, -1, np.int64), np.zeros(n)
        found[able] = chosen.tokens
        law[able] = step.rows[step.walk_node]
        with np.errstate(invalid="ignore"):
            log_p[able] = chosen.log_p - chosen.log_z[step.walk_node]
        kind = GUESSED if uniforms is None or self._is_greedy else DRAWN
        return Guess(found, kind, law, step.scores, step.log_normalizer, log_p)

    def evaluate(self, frontier: Frontier) -> Step:
        """Evaluate prefixes of the view in one pass of the draft, and count the calls."""
        step = Step.of(frontier)
        self._count(step.nodes)
        if step.scores.shape[1] > self._width:
            # Outputs that the target does not have are never proposed.
            step = replace(step, scores=step.scores[:, : self._width])
        return step

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every draft call so far, int64[n] each."""
        none = np.zeros(0, np.int64)
        requests, draws = zip(*self._calls, strict=True) if self._calls else ((none,), (none,))
        return np.concatenate(requests), np.concatenate(draws)

    def _count(self, nodes: Frontier) -> None:
        """Count one call for every prefix that was not evaluated before; the lowest draw's."""
        highest = int(nodes.context.max(initial=0))
        if highest >= len(self._evaluated):
            grown = np.zeros(2 * highest + 2, np.bool_)
            grown[: len(self._evaluated)] = self._evaluated
            self._evaluated = grown
        new = np.flatnonzero(~self._evaluated[nodes.context])
        self._evaluated[nodes.context[new]] = True
        self._calls.append((nodes.request[new], nodes.draw[new]))


class Twins:
    """The draft's contexts of the target's: equal prefixes of the two trees.

    Args:
        batch: The open requests. view: The same, opened against the draft.
    """

    def __init__(self, batch: Batch, view: DraftView) -> None:
        self._target: Any = batch.model.tree
        self._draft = view.batch.model
        self._last = view.batch.model.vocabulary.width - 1
        self._twin = np.full(1024, -1, np.int64)
        open_ones = np.flatnonzero(view.batch.roots >= 0)
        self._reserve(int(batch.roots.max(initial=0)))
        self._twin[batch.roots[open_ones]] = view.batch.roots[open_ones]

    def of(self, contexts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the draft's contexts of the prefixes ``contexts`` (int64[n]) of open requests."""
        self._reserve(int(contexts.max(initial=0)))
        missing = np.unique(contexts[self._twin[contexts] < 0])
        levels = []
        while missing.size:
            levels.append(missing)
            above = self._target.parent[missing].astype(np.int64)
            missing = np.unique(above[self._twin[above] < 0])
        for nodes in reversed(levels):
            above = self._target.parent[nodes].astype(np.int64)
            # An output that only the target has reads as another token: a worse guess, same law.
            tokens = np.minimum(self._target.token[nodes].astype(np.int64), self._last)
            self._twin[nodes] = self._draft.advance(self._twin[above], tokens)
        return self._twin[contexts]

    def _reserve(self, highest: int) -> None:
        if highest >= len(self._twin):
            grown = np.full(2 * highest + 2, -1, np.int64)
            grown[: len(self._twin)] = self._twin
            self._twin = grown
