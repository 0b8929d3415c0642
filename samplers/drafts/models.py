"""Drafts by a smaller language model of the same vocabulary.

A batch as a draft model sees it (``DraftView``) has the same requests and sessions, and contexts of
its own. The states of constraints are the batch's, so what the mask forbids the target it forbids
the draft, and a frontier of the view follows a frontier of the batch token by token.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ContextLengthError, ModelError, TokenizerMismatchError, UsageError
from cdec.core.models.warping import Warping, normalizers
from cdec.samplers.drafts.proposals import DRAWN, GUESSED, Drafting, Guess, in_view
from cdec.samplers.walks import events
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import NONE, Step, with_room

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.models.language_model import LanguageModel
    from cdec.samplers.walks.frontier import Frontier


class DraftView:
    """The requests of a batch opened against a draft model; a context manager that releases them.

    Args:
        batch: The open requests.
        draft: Of the same vocabulary and on the same device; it reads the token ids of the target's
            prompts and warps as the target does. The width of its scores may differ.
        temperature: Of the draft, instead of the target's warping; None keeps that.

    Attributes:
        batch: A batch of the draft model, to make frontiers of. ``limits`` are the target's.
        room: int64[R] most tokens of a text that the draft's context has room for; -1 where it has
            none for the prompt: such requests go on without a draft.

    Raises:
        TokenizerMismatchError: The vocabularies differ.
        UsageError: The models lie on different devices.
    """

    def __init__(
        self, batch: Batch, draft: LanguageModel, temperature: float | None = None
    ) -> None:
        require_draft(batch.model, draft)
        self.batch: Any = copy.copy(batch)
        self.batch.model = draft
        self.batch.roots = np.full(len(batch.requests), -1, np.int64)
        self.room = np.full(len(batch.requests), -1, np.int64)
        try:
            for number in np.flatnonzero(batch.roots >= 0).tolist():
                warping = batch.model.prompt_warping(batch.roots[number])
                if temperature is not None:
                    warping = Warping(temperature)
                self._open(batch, draft, number, warping)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        roots = self.batch.roots
        self.batch.model.release(roots[roots >= 0])

    def can_follow(self, request: NDArray[np.int64], depth: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which prefixes of ``depth`` tokens (int64[n]) the draft can go on from, bool[n]."""
        follows: NDArray[np.bool_] = depth <= self.room[request]
        return follows

    def _open(self, batch: Batch, draft: LanguageModel, number: int, warping: Warping) -> None:
        # An id that only the target has (a special one) reads as another: a worse guess, same law.
        last = draft.vocabulary.width - 1
        root = int(batch.roots[number])
        read = batch.model.prompt_tokens(root), batch.model.begun_tokens(root)
        prompt, begun = ([min(token, last) for token in tokens] for tokens in read)
        try:
            root = int(draft.prefill([prompt], warping, [begun])[0])
        except ContextLengthError:
            return
        self.batch.roots[number] = root
        room = draft.max_new_tokens(root)
        self.room[number] = batch.limits[number] if room is None else room


def require_draft(target: LanguageModel, draft: LanguageModel) -> None:
    """Refuse a draft that cannot propose tokens to ``target``.

    Raises:
        TokenizerMismatchError: The vocabularies differ.
        UsageError: The models lie on different devices.
    """
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours.vocabulary_hash != theirs.vocabulary_hash:
        raise TokenizerMismatchError(
            f"the draft's vocabulary ({theirs.size} tokens, {theirs.vocabulary_hash[:12]}) is not "
            f"the model's ({ours.size} tokens, {ours.vocabulary_hash[:12]})",
            hint="Name a draft with the model's tokenizer, usually a smaller one of its family.",
        )
    if max(ours.eos_token_ids, default=-1) >= theirs.width:
        raise TokenizerMismatchError(
            f"the model ends texts with ids {list(ours.eos_token_ids)}, the draft has only "
            f"{theirs.width} outputs",
            hint="Name a draft that knows the model's end-of-sequence tokens.",
        )
    if target.device != draft.device:
        raise UsageError(
            f"the model lies on {target.device}, the draft on {draft.device}",
            hint="Load both on one device.",
        )


class ModelDrafting(Drafting):
    """A draft model at work on a batch.

    Args:
        batch: The open requests.
        draft: The draft model.
        temperature: Of the draft, instead of the target's warping; 0 proposes the most probable
            events, whose law is a one-hot one; None keeps the target's.
        has_law: As in ``Drafting``: draws are put to the test of the two laws, or are guesses.
        takes_best: Propose the most probable events, and test them as if they were drawn.

    Raises:
        TokenizerMismatchError, UsageError: As ``DraftView``.
    """

    calls_model: ClassVar[bool] = True

    def __init__(
        self,
        batch: Batch,
        draft: LanguageModel,
        temperature: float | None = None,
        *,
        has_law: bool = True,
        takes_best: bool = False,
    ) -> None:
        self.has_law = has_law
        self._takes_best = takes_best
        require_draft(batch.model, draft)
        self._is_greedy = temperature == 0.0
        self._opened = batch, draft, None if self._is_greedy else temperature
        self._view: DraftView | None = None
        self._width = batch.model.vocabulary.width
        # By draft context: request and draw that pay for its call.
        self._owner = np.full((1024, 2), -1, np.int64)

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.__exit__()

    @property
    def view(self) -> DraftView:
        """The requests opened against the draft, as soon as something asks it."""
        if self._view is None:
            self._view = DraftView(*self._opened)
            self._contexts = ContextMap(self._opened[0], self._view)
        return self._view

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
        is_drawn = self.has_law and uniforms is not None and not self._is_greedy
        return Guess(
            found, DRAWN if is_drawn else GUESSED, law, step.scores, step.log_normalizer, log_share
        )

    def _chosen(self, step: Step, uniforms: NDArray[np.float64] | None) -> events.SampledEvents:
        try:
            if uniforms is None or self._is_greedy or self._takes_best:
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
