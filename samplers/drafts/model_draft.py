"""ModelDraft: proposals drawn from a smaller language model of the same vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.models.warping import normalizers
from cdec.samplers.drafts.proposals import DRAWN, GUESSED, Drafting, Guess, in_view
from cdec.samplers.drafts.view import DraftView
from cdec.samplers.walks import events
from cdec.samplers.walks.categorical_kernels import NONE
from cdec.samplers.walks.context_columns import with_room
from cdec.samplers.walks.step import Step

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.frontier import Frontier


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
        self._contexts = ContextMap(batch, self.view)
        self._width = batch.model.vocabulary.width
        # By draft context: request and draw that pay for its call.
        self._owner = np.full((1024, 2), -1, np.int64)

    def __exit__(self, *_: object) -> None:
        self.view.__exit__()

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the next event of each walk; NONE where the draft's context is full."""
        able = np.flatnonzero(self.view.can_follow(walks.request, walks.depth))
        asked = walks if len(able) == len(walks.request) else walks.take(able)
        if not able.size:
            return Guess.of(np.full(len(walks.request), NONE, np.int64))
        step = self.evaluate(in_view(asked, self.view.batch, self._contexts.of(asked.context)))
        chosen = self._chosen(step, None if uniforms is None else uniforms[able])
        n = len(walks.request)
        found, law = np.full(n, NONE, np.int64), np.full(n, -1, np.int64)
        found[able] = chosen.tokens
        law[able] = step.rows[step.walk_node]
        log_share = np.full(n, np.nan)
        with np.errstate(invalid="ignore"):
            log_share[able] = chosen.log_p - chosen.log_z[step.walk_node]
        kind = GUESSED if uniforms is None or self._is_greedy else DRAWN
        return Guess(found, kind, law, step.scores, step.log_normalizer, log_share)

    def _chosen(self, step: Step, uniforms: NDArray[np.float64] | None) -> events.SampledEvents:
        try:
            if uniforms is None or self._is_greedy:
                return events.most_probable(step)
            return events.sample(step, uniforms)
        except ModelError as error:
            hint = "Load the draft with another dtype, such as float32 or bfloat16."
            raise ModelError(f"the draft: {error.message}", hint=hint) from None

    def evaluate(self, frontier: Frontier) -> Step:
        """Evaluate prefixes of the view in one pass of the draft, and count the calls."""
        step = Step.of(frontier)
        self._count(step.nodes)
        if step.scores.shape[1] > self._width:
            step = narrowed(step, self._width)
        elif step.scores.shape[1] < self._width and not step.nodes.batch.on_host:
            step = widened(step, self._width)
        return step

    def count(self, walks: Frontier) -> None:
        """Count calls that ``guess`` made for other draws: a prefix belongs to the lowest one.

        Args:
            walks: Prefixes of the target that ``guess`` was asked about before.
        """
        able = np.flatnonzero(self.view.can_follow(walks.request, walks.depth))
        if able.size:
            nodes = walks.take(able).nodes()
            self._count(replace(nodes, context=self._contexts.of(nodes.context)))

    def calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request and draw of every draft call so far, int64[n] each."""
        owners = self._owner[self._owner[:, 0] >= 0]
        return owners[:, 0], owners[:, 1]

    def _count(self, nodes: Frontier) -> None:
        """Count a call for every prefix, of the lowest draw that ever needs it."""
        self._owner = with_room(self._owner, nodes.context, -1)
        known = self._owner[nodes.context]
        rows = np.flatnonzero((known[:, 0] < 0) | (nodes.draw < known[:, 1]))
        self._owner[nodes.context[rows]] = np.stack([nodes.request[rows], nodes.draw[rows]], 1)


def narrowed(step: Step, width: int) -> Step:
    """Return a step without the outputs from ``width`` on, which the target does not have.

    What is left is normalised anew; a row of which nothing is left finds all of it equally likely.
    """
    scores = step.scores[:, :width]
    scores = scores.copy() if isinstance(scores, np.ndarray) else scores.clone()
    scores[(scores == -np.inf).all(axis=1)] = 0.0
    return replace(step, scores=scores, log_normalizer=normalizers(scores))


def widened(step: Step, width: int) -> Step:
    """Return a step on a device with outputs up to ``width``, which the draft finds impossible.

    On the host the kernels check every id; masks on a device are as wide as the target's scores.
    """
    from torch.nn import functional

    missing = width - step.scores.shape[1]
    return replace(step, scores=functional.pad(step.scores, (0, missing), value=-np.inf))


class ContextMap:
    """The draft's contexts of the target's: equal prefixes of the two trees.

    Args:
        batch: The open requests. view: The same, opened against the draft.
    """

    def __init__(self, batch: Batch, view: DraftView) -> None:
        self._target: Any = batch.model.tree
        self._draft = view.batch.model
        self._last = view.batch.model.vocabulary.width - 1
        self._mapped = np.full(len(self._target.parent), -1, np.int64)
        open_ones = np.flatnonzero(view.batch.roots >= 0)
        self._mapped[batch.roots[open_ones]] = view.batch.roots[open_ones]

    def of(self, contexts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the draft's contexts of the prefixes ``contexts`` (int64[n]) of open requests."""
        self._mapped = with_room(self._mapped, contexts, -1)
        missing = np.unique(contexts[self._mapped[contexts] < 0])
        levels = []
        while missing.size:
            levels.append(missing)
            above = self._target.parent[missing].astype(np.int64)
            # subtle: ids are used again once freed, so a parent's may be the larger one.
            self._mapped = with_room(self._mapped, above, -1)
            missing = np.unique(above[self._mapped[above] < 0])
        for nodes in reversed(levels):
            above = self._target.parent[nodes].astype(np.int64)
            # An output that only the target has reads as another token: a worse guess, same law.
            tokens = np.minimum(self._target.token[nodes].astype(np.int64), self._last)
            self._mapped[nodes] = self._draft.advance(self._mapped[above], tokens)
        return self._mapped[contexts]
