"""Ways of decoding side by side: cdec, and ``generate`` of transformers, alone or with a peer."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cdec.core import CdecError, LanguageModel
from cdec.core.models.language_model import Prompt
from cdec.samplers import SAMPLERS, Request
from tools.benchmarks.decoding.workloads import Workload


class Engine(ABC):
    """A way of decoding one workload for one batch of prompts."""

    name: str

    @abstractmethod
    def draw(self, seed: int, most: int) -> int:
        """Draw a text a prompt, of at most ``most`` tokens; return the tokens of all texts."""


class Cdec(Engine):
    """cdec.

    Args:
        model: As ``load_model`` returns it.
        workload: What is drawn. prompts: One a text.

    Attributes:
        outside: Seconds of the last draw that were not spent in the module.
        passes: Of the last draw.
    """

    name = "cdec"

    def __init__(self, model: LanguageModel, workload: Workload, prompts: Sequence[Prompt]) -> None:
        self._model = model
        self._workload = workload
        self._prompts = prompts
        self._sampler = SAMPLERS[workload.method]()
        self._stopwatch = _Stopwatch(model)

    def draw(self, seed: int, most: int) -> int:
        work = self._workload
        requests = [
            Request.numbered(
                prompt, held, id=i, n=1, seed=seed, max_new_tokens=most, free=work.free
            )
            for i, (prompt, held) in enumerate(zip(self._prompts, work.constraints, strict=True))
        ]
        self._stopwatch.begin()
        with _WithoutEnds(self._model, work.method == "unconstrained"):
            found = self._sampler.draw_batch(self._model, requests)
        self.outside, self.passes = self._stopwatch.end()
        return sum(len(_text(samples).token_ids) for samples in found)


class Generate(Engine):
    """``generate`` of transformers over the same module and prompts.

    Args:
        module: Of transformers. model: cdec's, which encodes the prompts.
        prompts: One a text. processor: Makes a logits processor for one draw; None for none.
        name: Of the row.
    """

    def __init__(
        self, module: Any, model: LanguageModel, prompts: Sequence[Prompt], processor: Any = None
    ) -> None:
        self.name = "generate" if processor is None else f"generate + {processor.name}"
        self._module = module
        self._processor = processor
        self._ends = list(model.vocabulary.eos_token_ids)
        rows = [model.encode_prompt(prompt) for prompt in prompts]
        batch, width = len(rows), max(map(len, rows))
        device = next(module.parameters()).device
        self._ids = torch.full((batch, width), self._ends[0])
        self._mask = torch.zeros((batch, width), dtype=torch.int64)
        for i, row in enumerate(rows):
            self._ids[i, width - len(row) :] = torch.tensor(row)
            self._mask[i, width - len(row) :] = 1
        self._ids, self._mask = self._ids.to(device), self._mask.to(device)

    def draw(self, seed: int, most: int) -> int:
        torch.manual_seed(seed)
        ends = self._ends if self._processor is not None else None
        processors = [] if self._processor is None else [self._processor(len(self._ids))]
        with torch.no_grad():
            found = self._module.generate(
                input_ids=self._ids,
                attention_mask=self._mask,
                do_sample=True,
                top_k=0,
                max_new_tokens=most,
                eos_token_id=ends,
                pad_token_id=self._ends[0],
                logits_processor=processors,
            )
        drawn = found[:, self._ids.shape[1] :].cpu().numpy()
        return int((~np.isin(drawn, self._ends)).sum()) if ends else int(drawn.size)


class XGrammar:
    """Makes xgrammar's logits processors of schemas."""

    name = "xgrammar"

    def __init__(self, tokenizer: Any, width: int, schemas: Sequence[str]) -> None:
        import xgrammar
        from xgrammar.contrib.hf import LogitsProcessor

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
        compiler = xgrammar.GrammarCompiler(info)
        options: dict[str, Any] = {"any_whitespace": False, "separators": (",", ":")}
        distinct = {each: compiler.compile_json_schema(each, **options) for each in set(schemas)}
        self._grammars = [distinct[each] for each in schemas]
        self._make = LogitsProcessor

    def __call__(self, batch: int) -> Any:
        return self._make(self._grammars)


class LLGuidance:
    """Makes logits processors over llguidance's matchers of schemas."""

    name = "llguidance"

    def __init__(self, tokenizer: Any, width: int, schemas: Sequence[str]) -> None:
        import llguidance
        import llguidance.hf

        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=width)
        self._matcher = llguidance.LLMatcher
        compact = {"whitespace_flexible": False}
        make = llguidance.LLMatcher.grammar_from_json_schema
        self._grammars = [make(each, defaults=compact) for each in schemas]

    def __call__(self, batch: int) -> Any:
        from llguidance.torch import (
            allocate_token_bitmask,
            apply_token_bitmask_inplace,
            fill_next_token_bitmask,
        )

        matchers = [self._matcher(self._tokenizer, grammar) for grammar in self._grammars]
        mask = allocate_token_bitmask(batch, self._tokenizer.vocab_size)
        begun = False

        def process(ids: Any, scores: Any) -> Any:
            nonlocal begun
            for i, matcher in enumerate(matchers):
                if begun and not matcher.is_stopped():
                    matcher.consume_token(int(ids[i, -1]))
                if not matcher.is_stopped():
                    fill_next_token_bitmask(matcher, mask, i)
                else:
                    mask[i] = -1
            begun = True
            apply_token_bitmask_inplace(scores, mask.to(scores.device))
            return scores

        return process


class _Stopwatch:
    """Wall seconds of a draw inside and outside the module, which must compute on the host."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._inside, self._passes, self._begun = 0.0, 0, 0.0

    def begin(self) -> None:
        """Begin a draw."""
        module = self._model._module
        call = type(module).forward.__get__(module)

        def timed(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            found = call(*args, **options)
            self._inside += time.perf_counter() - began
            self._passes += 1
            return found

        module.forward = timed
        self._inside, self._passes, self._begun = 0.0, 0, time.perf_counter()

    def end(self) -> tuple[float, int]:
        """Return the seconds outside the module and the passes since ``begin``."""
        seconds = time.perf_counter() - self._begun
        del self._model._module.forward
        return seconds - self._inside, self._passes


class _WithoutEnds:
    """Keeps a model from ending texts, as ``generate`` does without an end id."""

    def __init__(self, model: Any, held: bool) -> None:
        self._model, self._held = model, held

    def __enter__(self) -> None:
        if self._held:
            forward = type(self._model)._forward.__get__(self._model)
            ends = list(self._model.vocabulary.eos_token_ids)

            def endless(nodes: Any) -> Any:
                scores = forward(nodes)
                scores[:, ends] = -1e9
                return scores

            self._model._forward = endless

    def __exit__(self, *_: object) -> None:
        if self._held:
            del self._model._forward


def _text(samples: Any) -> Any:
    if isinstance(samples, CdecError):
        raise samples
    return samples[0]
