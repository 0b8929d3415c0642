"""ConstraintProcessor: the texts of transformers' own ``generate`` held to constraints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LogitsProcessor

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.constraint_source import ConstraintSource, Held, made_for
from cdec.core.errors import UsageError
from cdec.core.mask import apply_mask
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.cursors import PrefixStateCache, PromptLengths, require_same_tokens
from cdec.integrations.transformers.modules import MAKE

KEPT = 1 << 16
"""Prefixes whose states are remembered."""


class ConstraintProcessor(LogitsProcessor):
    """A logits processor that forbids what no text of a constraint goes on with.

    Where a text is, is read from ``input_ids`` in every call, whatever was asked before, so that
    beams may be reordered and an instance may be used again; what was found out of a prefix is
    remembered, so that a step costs one step of the constraint. With ``do_sample=False`` the texts
    are those of cdec's ``greedy``; with ``num_beams`` those of ``beam``, as long as ``generate``
    keeps them: it drops an ended text that is not among the ``num_beams`` best at its step. Of
    several ids that end a text the first gets the probability of all.

    Args:
        constraint: What every text must satisfy, or a list with one for each prompt of the batch,
            None for a prompt whose text is free. A source (``choices``, ``regex``, ``grammar``,
            ``schema``, ``tools``, ``spans``) is compiled for ``vocabulary``.
        prompt_length: Tokens of ``input_ids`` before the text: the width of the padded prompts, 1
            for most encoder-decoder models. None finds out: an input is the beginning of a text
            unless it is an earlier input and one token more that the constraint allows. Give it if
            a prompt may be just that, as when a text that was cut is given as a prompt.
        eos_token_id: Ids that end a text, as ``generate`` has them; None: the vocabulary's.
        vocabulary: Of the model, as ``model_vocabulary`` returns it: a constraint of another
            tokenizer is refused. A processor never sees the model, so None leaves it at the width
            of the scores.
        kept: Prefixes that are remembered; at least twice the rows of a batch.

    Raises:
        UsageError: No constraint at all, or ids that end no text of a constraint; a source, and no
            vocabulary.
        TokenizerMismatchError: A constraint was made for another tokenizer.

    Example:
        >>> processor = ConstraintProcessor(set_constraint(["yes", "no"], vocabulary))
        >>> module.generate(**inputs, logits_processor=[processor], do_sample=False)
    """

    def __init__(
        self,
        constraint: Held | Sequence[Held | None],
        *,
        prompt_length: int | None = None,
        eos_token_id: int | Sequence[int] | None = None,
        vocabulary: Vocabulary | None = None,
        kept: int = KEPT,
    ) -> None:
        given = _made(constraint, vocabulary)
        self._constraints = given
        self._lengths_of_prompts = PromptLengths(kept) if prompt_length is None else None
        self._prompt_length = prompt_length
        self._texts = {each: PrefixStateCache(each, kept) for each in given if each is not None}
        if not self._texts:
            raise UsageError("there is no constraint", hint="Leave the processor out.")
        if vocabulary is not None:
            for each in self._texts:
                require_same_tokens(each, vocabulary, hint=MAKE)
        ends = [eos_token_id] if isinstance(eos_token_id, int) else eos_token_id
        self._ends = {each: _ends_of(each, ends) for each in self._texts}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores with -inf for all that a constraint forbids.

        Args:
            input_ids: int64[rows, tokens], prompts (padded on the left) and texts so far. With
                several constraints the rows of one prompt are adjacent, as ``generate`` has them.
            scores: float[rows, width], logits or log probabilities; left as they are.

        Raises:
            UsageError: The rows are no multiple of the constraints, or the scores are narrower than
                the constraint's vocabulary.
        """
        rows = np.ascontiguousarray(input_ids.cpu().numpy(), np.int64)
        per_constraint, rest = divmod(len(rows), len(self._constraints))
        if rest:
            raise UsageError(
                f"there are {len(rows)} rows for {len(self._constraints)} constraints",
                hint="Give one constraint, or one for each prompt of the batch.",
            )
        owners = [self._constraints[row // per_constraint] for row in range(len(rows))]
        states = self._states(rows, owners)
        result = scores
        for constraint, texts in self._texts.items():
            mine = _rows_of(constraint, owners)
            if mine.size == len(rows):
                result, waits = self._masked(scores, constraint, texts, states)
            else:
                at = torch.from_numpy(mine).to(scores.device)
                masked, waits = self._masked(scores[at], constraint, texts, states[mine])
                result = result.index_copy(0, at, masked)
            if self._lengths_of_prompts is not None:
                self._lengths_of_prompts.forget(rows[mine[waits]])
        return result

    def _states(
        self, rows: NDArray[np.int64], owners: Sequence[Constraint | None]
    ) -> NDArray[np.int64]:
        """Return the state of each row in its constraint's session, int64[rows]."""
        lengths = self._lengths(rows)
        states = self._walked(rows, owners, lengths)
        if self._lengths_of_prompts is None:
            return states
        # Of a running call one text at least goes on, and goes on as allowed: what does not is a
        # prompt. (Proposals that assisted generation is about to drop come here, too.)
        held = np.array([owner is not None for owner in owners])
        is_prompt = states == DEAD
        if (states[held] == DONE).all():
            is_prompt |= held
        lengths = np.where(is_prompt, rows.shape[1], lengths)
        self._lengths_of_prompts.remember(rows, lengths)
        return self._walked(rows, owners, lengths) if is_prompt.any() else states

    def _lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._lengths_of_prompts is not None:
            return self._lengths_of_prompts.of(rows)
        return np.full(len(rows), self._prompt_length, np.int64)

    def _walked(
        self,
        rows: NDArray[np.int64],
        owners: Sequence[Constraint | None],
        lengths: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        states = np.zeros(len(rows), np.int64)
        for constraint, texts in self._texts.items():
            mine = _rows_of(constraint, owners)
            states[mine] = texts.states([rows[i, lengths[i] :] for i in mine.tolist()])
        return states

    def _masked(
        self,
        scores: Tensor,
        constraint: Constraint,
        texts: PrefixStateCache,
        states: NDArray[np.int64],
    ) -> tuple[Tensor, NDArray[np.bool_]]:
        """Mask the scores of one constraint's rows.

        Returns:
            The scores, and which rows wait for their text to begin, bool[n].
        """
        mask = texts.masks(states, scores.shape[-1])
        masked = apply_mask(scores.clone(), mask)
        ends = self._ends[constraint]
        if len(ends) > 1:
            together = torch.logsumexp(masked[:, ends].float(), -1).to(masked.dtype)
            masked[:, ends] = -torch.inf
            masked[:, ends[0]] = together
        is_stuck = ~torch.isfinite(masked).any(-1)
        if not is_stuck.any():
            return masked, np.zeros(len(states), np.bool_)
        # One token is left, by whoever came before: the first one of models that force it.
        waits = is_stuck & (torch.isfinite(scores).sum(-1) == 1)
        masked[is_stuck, ends[0]] = 0.0
        stuck = (is_stuck & ~waits).cpu().numpy()
        if (stuck & (states != DONE)).any():
            warnings.warn(
                "a text was ended where the constraint allows no token, so it is no member of it",
                stacklevel=3,
            )
        return torch.where(waits[:, None], scores, masked), waits.cpu().numpy()


def _made(
    constraint: Held | Sequence[Held | None], vocabulary: Vocabulary | None
) -> list[Constraint | None]:
    """Return the constraints of what was given, of which a source has none yet."""
    given = list(constraint) if isinstance(constraint, Sequence) else [constraint]
    if vocabulary is None and any(isinstance(each, ConstraintSource) for each in given):
        raise UsageError(
            "a source is compiled for the model's vocabulary, and none is given",
            hint="give `vocabulary`, as `model_vocabulary(model, tokenizer)` returns it",
        )
    made: Any = given if vocabulary is None else made_for(given, vocabulary)
    return list(made)


def _rows_of(constraint: Constraint, owners: Sequence[Constraint | None]) -> NDArray[np.int64]:
    return np.array([i for i, owner in enumerate(owners) if owner is constraint], np.int64)


def _ends_of(constraint: Constraint, given: Sequence[int] | None) -> list[int]:
    """Return the ids that end a text of a constraint.

    Raises:
        UsageError: There is none.
    """
    ends = constraint.vocabulary.eos_token_ids
    chosen = [token for token in (ends if given is None else given) if token in ends]
    if not chosen:
        raise UsageError(
            f"`eos_token_id` is {given}, and the constraint's texts end with {list(ends)}",
            hint="Make the constraint with the vocabulary of load_model, or give such an id.",
        )
    return chosen
