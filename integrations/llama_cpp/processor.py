"""ConstraintProcessor: hold what llama-cpp-python writes to a constraint."""

from __future__ import annotations

import warnings

import numpy as np
from llama_cpp import Llama
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.errors import UsageError
from cdec.core.mask import apply_mask
from cdec.integrations.llama_cpp.vocabulary import gguf_vocabulary
from cdec.integrations.prefixes import Beginnings, Texts
from cdec.integrations.tokens import require_same_tokens

KEPT = 1 << 12
"""Prefixes whose states are remembered: a model writes one text at a time."""


class ConstraintProcessor:
    """A logits processor that forbids what no text of a constraint goes on with.

    Where a text is, is read from the tokens in every call, whatever was asked before, so that an
    instance may be used again. With temperature 0, ``repeat_penalty`` 1 and no other processors the
    texts are those of cdec's ``greedy``. Of several ids that end a text the first gets the
    probability of all.

    Args:
        constraint: What every text must satisfy.
        llama: The model that it is given to.
        prompt_length: Tokens before the text, the beginning of the sequence included. None finds
            out: tokens are a prompt unless they are those of an earlier call and one more that the
            constraint allows. Give it if a prompt may be just that.
        kept: Prefixes that are remembered.

    Raises:
        TokenizerMismatchError: The constraint was made for another tokenizer.
        UsageError: The model proposes tokens by a draft model, whose proposals come to processors
            beside the text; or no id ends both its texts and the constraint's.

    Example:
        >>> constraint = regex_constraint("yes|no", gguf_vocabulary(llama))
        >>> processor = ConstraintProcessor(constraint, llama)
        >>> llama.create_completion("Well? ", logits_processor=LogitsProcessorList([processor]))
    """

    def __init__(
        self,
        constraint: Constraint,
        llama: Llama,
        *,
        prompt_length: int | None = None,
        kept: int = KEPT,
    ) -> None:
        known = gguf_vocabulary(llama)
        require_same_tokens(
            constraint, known, hint="Make the constraint with gguf_vocabulary(llama)."
        )
        if llama.draft_model is not None:
            raise UsageError(
                "the model has a draft model, and a processor sees what it proposes as text",
                hint="Load the model without draft_model.",
                option="draft_model",
            )
        self._ends = [
            end for end in constraint.vocabulary.eos_token_ids if end in known.eos_token_ids
        ]
        if not self._ends:
            raise UsageError(
                f"the constraint's texts end with {list(constraint.vocabulary.eos_token_ids)}, and "
                f"the model's with {list(known.eos_token_ids)}",
                hint="Make the constraint with gguf_vocabulary(llama).",
            )
        self._width = llama.n_vocab()
        self._texts = Texts(constraint, kept)
        self._beginnings = Beginnings(kept) if prompt_length is None else None
        self._prompt_length = prompt_length

    def __call__(
        self, input_ids: NDArray[np.intc], scores: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the scores with -inf for all that the constraint forbids.

        Args:
            input_ids: int32[tokens], the prompt and the text so far.
            scores: float32[width] logits; left as they are.
        """
        states = self._state(np.asarray(input_ids, np.int64)[None])
        mask = self._texts.masks(states, self._width)
        masked = np.array(scores, np.float32)
        apply_mask(masked[None], mask)
        if len(self._ends) > 1:
            together = np.logaddexp.reduce(masked[self._ends].astype(np.float64))
            masked[self._ends] = -np.inf
            masked[self._ends[0]] = together
        if not np.isfinite(masked).any():
            masked[self._ends[0]] = 0.0
            if states[0] != DONE:
                warnings.warn(
                    "a text was ended where the constraint allows no token, so it is no member",
                    stacklevel=2,
                )
        return masked

    def _state(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the state of the text in one row of tokens, int64[1]."""
        if self._beginnings is None:
            return self._texts.states([row[0, self._prompt_length :]])
        begins = self._beginnings.of(row)
        states = self._texts.states([row[0, begins[0] :]])
        if states[0] in (DEAD, DONE):
            begins = np.array([row.shape[1]], np.int64)
            states = self._texts.states([row[0, begins[0] :]])
        self._beginnings.remember(row, begins)
        return states
