"""VllmModel: a vLLM engine of this process as a model for cdec's own methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm import SamplingParams

from cdec.core.errors import UsageError
from cdec.core.models.base import DEFAULT_CACHE_BYTES, TreeModel
from cdec.core.models.language_model import Contexts, Prompt, event_rounding
from cdec.core.models.prompts import PromptEncoder
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.vllm.engine import ROW, LogitsRecorder

if TYPE_CHECKING:
    from vllm import LLM


class VllmModel(TreeModel):
    """A model whose distributions a vLLM engine computes, for every method of cdec.

    Each evaluation is one request of one token for every prefix that is asked for, so the engine
    batches them, and finds what it has computed of a prefix in its prefix cache: whole blocks of
    it. Scores are all logits, recorded by a processor, so Z and the weights are exact; the engine's
    own sampling is not used. Served traffic belongs to the processors, which decode at the
    engine's speed.

    Args:
        llm: Made by ``vllm_engine``, or alike.
        cache_bytes: Bytes of next-token distributions kept.

    Raises:
        UsageError: The engine runs in another process, has no recorder, guesses tokens ahead, or
            recomputes every prefix.
    """

    def __init__(self, llm: LLM, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        config = llm.llm_engine.vllm_config
        self._recorder = _recorder_of(llm, config)
        model = config.model_config
        vocabulary = Vocabulary.from_tokenizer(model.tokenizer, width=model.get_vocab_size())
        device = config.device_config.device
        # The last token that the engine takes is one that it would write itself.
        length = int(model.max_model_len) - 1
        super().__init__(
            vocabulary, device=str(device), context_length=length, cache_bytes=cache_bytes
        )
        self._llm = llm
        self.event_rounding = event_rounding(str(model.dtype).removeprefix("torch."))
        self._prompts = PromptEncoder(llm.get_tokenizer(), vocabulary, context_length=length)
        self.prompt_form = self._prompts.form
        self.chat_template = self._prompts.template

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids, checked against the vocabulary and the context length."""
        return self._prompts.encode(prompt)

    def _forward(self, nodes: Contexts) -> Any:
        prompts = [{"prompt_token_ids": self.whole_tokens(node)} for node in nodes.tolist()]
        asked = [
            SamplingParams(temperature=0, max_tokens=1, detokenize=False, extra_args={ROW: row})
            for row in range(len(prompts))
        ]
        try:
            if prompts:
                self._llm.generate(prompts, asked, use_tqdm=False)
            found = [self._recorder.rows[row] for row in range(len(prompts))]
        finally:
            self._recorder.rows.clear()
        is_root = self._tree.depth[nodes] == 0
        lengths = self._tree.of_root("prompt_length", nodes)
        self._count(nodes, 1, np.where(is_root, lengths, 1))
        if not found:
            return torch.zeros((0, self.vocabulary.width), device=self.device)
        return torch.stack(found)


def _recorder_of(llm: LLM, config: Any) -> LogitsRecorder:
    """Return an engine's recorder.

    Raises:
        UsageError: As ``VllmModel``.
    """
    if config.speculative_config is not None:
        raise _refused("guesses tokens ahead", "make it without speculative_config")
    if not config.cache_config.enable_prefix_caching:
        raise _refused(
            "computes every prefix anew", "make it with enable_prefix_caching=True, its default"
        )
    core = getattr(llm.llm_engine.engine_core, "engine_core", None)
    if core is None:
        raise _refused(
            "runs in another process, where logits cannot be read",
            "set VLLM_ENABLE_V1_MULTIPROCESSING=0 before it is made",
        )
    found = llm.collective_rpc(_processors)
    for processor in found[0] if len(found) == 1 else ():
        if isinstance(processor, LogitsRecorder):
            return processor
    raise _refused("keeps no logits", "make it with vllm_engine, on one worker and the V1 runner")


def _processors(worker: Any) -> list[Any]:
    batch = getattr(worker.model_runner, "input_batch", None)
    return [] if batch is None else list(batch.logitsprocs.all)


def _refused(what: str, hint: str) -> UsageError:
    return UsageError(f"the vLLM engine {what}", hint=hint)
