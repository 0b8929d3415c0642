"""llama.cpp under cdec: GGUF vocabularies, a processor for llama-cpp-python, and cdec's methods.

``ConstraintProcessor`` masks what a model writes by itself; ``LlamaCppModel`` is a model for every
method.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from ctypes import create_string_buffer
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp import Llama
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.constraint_source import Held, made_for
from cdec.core.errors import (
    ChatTemplateMissingError,
    ContextLengthError,
    EmptyPromptError,
    ModelError,
    UsageError,
)
from cdec.core.mask import apply_mask
from cdec.core.models.base import DEFAULT_CACHE_BYTES, TreeModel
from cdec.core.models.language_model import Contexts, Prompt, event_rounding
from cdec.core.models.tabular import checked_token_ids
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.cursors import PrefixStateCache, PromptLengths, require_same_tokens

_SPELLING = (
    llama_cpp.LLAMA_VOCAB_TYPE_SPM,
    llama_cpp.LLAMA_VOCAB_TYPE_BPE,
    llama_cpp.LLAMA_VOCAB_TYPE_UGM,
)
"""Kinds of vocabularies whose tokens spell the text."""
_NO_TEXT = (
    llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
    | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
    | llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
)


def gguf_vocabulary(source: Llama | str | os.PathLike[str]) -> Vocabulary:
    """Read the vocabulary of a GGUF model: the bytes that llama.cpp itself writes for each token.

    BPE and SentencePiece models. Every id at which llama.cpp ends a text ends one here. The
    vocabulary has no tokenizer: grammars, regular expressions and schemas are compiled with it; a
    set, which is made of tokens, with the tokenizer that the model was converted from, and its
    artifact is opened for this vocabulary.

    Args:
        source: A model of llama-cpp-python, or a file, whose weights are not read.

    Raises:
        ModelError: No GGUF file, or its tokens do not spell texts.
    """
    if not isinstance(source, Llama):
        return gguf_vocabulary(_opened(source))
    vocab: Any = source._model.vocab
    name = Path(source.model_path).name
    if llama_cpp.llama_vocab_type(vocab) not in _SPELLING:
        raise ModelError(
            f"{name}: the tokens of its vocabulary do not spell texts; expected BPE or "
            "SentencePiece",
            hint="Use a model of another tokenizer.",
            path=name,
        )
    ids = range(source.n_vocab())
    special = [i for i in ids if llama_cpp.llama_vocab_get_attr(vocab, i) & _NO_TEXT]
    ends = [i for i in ids if llama_cpp.llama_vocab_is_eog(vocab, i)]
    begin = llama_cpp.llama_vocab_bos(vocab)
    return Vocabulary(
        [_piece(vocab, i) for i in ids],
        ends,
        special,
        bos_token_id=begin if begin in ids else None,
        name=name,
    )


def _opened(path: str | os.PathLike[str]) -> Llama:
    try:
        return Llama(str(path), vocab_only=True, verbose=False)
    except (ValueError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read as a GGUF model: {error}",
            hint="Check the path, and that the file is whole.",
            path=str(path),
        ) from error


def _piece(vocab: Any, token: int) -> bytes:
    """Return what llama.cpp writes for a token, ``b""`` for one that stands for no text."""
    size = 64
    while True:
        buffer = create_string_buffer(size)
        written = llama_cpp.llama_token_to_piece(vocab, token, buffer, size, 0, False)
        if written >= 0:
            return buffer.raw[:written]
        size = -written


KEPT = 1 << 12
"""Prefixes whose states are remembered: a model writes one text at a time."""


class ConstraintProcessor:
    """A logits processor that forbids what no text of a constraint goes on with.

    Where a text is, is read from the tokens in every call, whatever was asked before, so that an
    instance may be used again. With temperature 0, ``repeat_penalty`` 1 and no other processors the
    texts are those of cdec's ``greedy``. Of several ids that end a text the first gets the
    probability of all.

    Args:
        constraint: What every text must satisfy, or its source (``choices``, ``schema``, ...).
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
        constraint: Held,
        llama: Llama,
        *,
        prompt_length: int | None = None,
        kept: int = KEPT,
    ) -> None:
        known = gguf_vocabulary(llama)
        made: Constraint = made_for(constraint, known)
        require_same_tokens(made, known, hint="Make the constraint with gguf_vocabulary(llama).")
        if llama.draft_model is not None:
            raise UsageError(
                "the model has a draft model, and a processor sees what it proposes as text",
                hint="Load the model without draft_model.",
                option="draft_model",
            )
        self._ends = [end for end in made.vocabulary.eos_token_ids if end in known.eos_token_ids]
        if not self._ends:
            raise UsageError(
                f"the constraint's texts end with {list(made.vocabulary.eos_token_ids)}, and "
                f"the model's with {list(known.eos_token_ids)}",
                hint="Make the constraint with gguf_vocabulary(llama).",
            )
        self._width = llama.n_vocab()
        self._texts = PrefixStateCache(made, kept)
        self._lengths_of_prompts = PromptLengths(kept) if prompt_length is None else None
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
        if self._lengths_of_prompts is None:
            return self._texts.states([row[0, self._prompt_length :]])
        begins = self._lengths_of_prompts.of(row)
        states = self._texts.states([row[0, begins[0] :]])
        if states[0] in (DEAD, DONE):
            begins = np.array([row.shape[1]], np.int64)
            states = self._texts.states([row[0, begins[0] :]])
        self._lengths_of_prompts.remember(row, begins)
        return states


class LlamaCppModel(TreeModel):
    """A model whose distributions llama.cpp computes, for every method of cdec.

    Prefixes are evaluated one after another, each from where it leaves the one before: llama.cpp
    keeps one sequence. Served traffic and single texts belong to the processor.

    Args:
        llama: Loaded by llama-cpp-python; its own sequence is overwritten.
        cache_bytes: Bytes of next-token distributions kept.

    Raises:
        ModelError: Its tokens do not spell texts.
        UsageError: It has no weights.
    """

    def __init__(self, llama: Llama, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        if llama.model_params.vocab_only:
            raise UsageError(
                "the model was loaded without its weights",
                hint="Load it without vocab_only.",
                option="vocab_only",
            )
        vocabulary = gguf_vocabulary(llama)
        super().__init__(vocabulary, context_length=llama.n_ctx(), cache_bytes=cache_bytes)
        self._llama = llama
        # Whatever its weights are packed in, keys and values are float16.
        self.event_rounding = event_rounding("float16")

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids; what a text spells of special tokens stays text.

        Raises:
            EmptyPromptError: Empty, and the model has no token to begin with.
            ContextLengthError: No room for one more token.
            ChatTemplateMissingError: Chat messages, which are not put into a template here.
        """
        if isinstance(prompt, str):
            token_ids = self._llama.tokenize(prompt.encode(), add_bos=True, special=False)
        elif any(isinstance(part, Mapping) for part in prompt):
            raise ChatTemplateMissingError(
                "the prompt has chat messages, and models of llama.cpp take texts here",
                hint="Give the text of the chat, or its token ids.",
            )
        else:
            token_ids = checked_token_ids(prompt, self.vocabulary.width)
        if not token_ids:
            if self.vocabulary.bos_token_id is None:
                raise EmptyPromptError(
                    "the prompt is empty and the model has no begin-of-sequence token",
                    hint="Give at least one character to start from.",
                )
            token_ids = [self.vocabulary.bos_token_id]
        limit = self._llama.n_ctx()
        if len(token_ids) >= limit:
            raise ContextLengthError(
                f"the prompt has {len(token_ids)} tokens, the model's context {limit}",
                hint="Shorten the prompt, or load the model with a larger n_ctx.",
                length=len(token_ids),
                limit=limit,
            )
        return list(token_ids)

    def _forward(self, nodes: Contexts) -> Any:
        scores = np.empty((len(nodes), self.vocabulary.width), np.float32)
        read = np.zeros(len(nodes), np.int64)
        for row, node in enumerate(nodes.tolist()):
            read[row] = self._evaluate(self.whole_tokens(node))
            logits: Any = self._llama._ctx.get_logits_ith(-1)
            scores[row] = np.ctypeslib.as_array(logits, (self.vocabulary.width,))
        self._count(nodes, 1, read)
        return scores

    def _evaluate(self, tokens: list[int]) -> int:
        """Read a sequence, from where it leaves the last one; return how many tokens were read."""
        llama = self._llama
        # Someone else may have written with the model since.
        known = llama.input_ids[: llama.n_tokens].tolist()
        pairs = zip(known, tokens[:-1], strict=False)
        shared = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
        kept = min(len(known), len(tokens) - 1) if shared is None else shared
        # Models whose memory is no cache of tokens cannot go back.
        if kept and not llama._ctx.kv_cache_seq_rm(-1, kept, -1):
            kept = 0
        if kept == 0:
            llama.reset()
        llama.n_tokens = kept
        llama.eval(tokens[kept:])
        return len(tokens) - kept
