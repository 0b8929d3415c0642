"""DraftView: a batch as a draft model sees it: the same requests and sessions, contexts of its own.

The states of constraints are the batch's, so what the mask forbids the target it forbids the draft,
and a frontier of the view follows a frontier of the batch token by token.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ContextLengthError, TokenizerMismatchError, UsageError
from cdec.core.models.warping import Warping
from cdec.samplers.walks.batch import Batch

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.models.base import LanguageModel


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
