"""LlamaCppModel: a GGUF model in llama.cpp as a model for cdec's own methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from llama_cpp import Llama

from cdec.core.errors import (
    ChatTemplateMissingError,
    ContextLengthError,
    EmptyPromptError,
    UsageError,
)
from cdec.core.models.base import DEFAULT_CACHE_BYTES, Contexts, LanguageModel, Prompt
from cdec.core.models.rounding import event_rounding
from cdec.core.models.tabular import checked_token_ids
from cdec.integrations.llama_cpp.vocabulary import gguf_vocabulary


class LlamaCppModel(LanguageModel):
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
