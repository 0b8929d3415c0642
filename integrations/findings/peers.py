"""DOMINO's Tables 2 and 4 beside other engines: which texts a mask changes, and for the worse.

Paper: arXiv 2403.06988. All engines mask the scores of one module in ``generate`` of transformers,
greedily, for JSON; the texts are scored by the model without any mask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cdec.core import CdecError, LanguageModel
from cdec.data.assets import grammar_path
from cdec.integrations.findings.decoding import Prompts, shipped
from cdec.integrations.findings.domino import compiled
from cdec.integrations.findings.finding import Check, Found, Table
from cdec.integrations.findings.laboratory import Laboratory
from cdec.samplers.scoring.score import Scorer, ScoreRequest

_LENGTH = 96
_ASKED = 40
Processor = Callable[[Any, Any], Any]


def invasiveness(laboratory: Laboratory) -> Found:
    """Compute accuracy and log P of greedy JSON under the masks of several engines."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from cdec.integrations.transformers import ConstraintProcessor

    prompts, model = shipped("json").subset(_ASKED), laboratory.target()
    module = AutoModelForCausalLM.from_pretrained(laboratory.model_path).float()
    tokenizer = AutoTokenizer.from_pretrained(laboratory.model_path)
    width = int(module.config.vocab_size)
    rows = {"unconstrained": _quality(model, prompts, _generated(module, model, prompts, None))}
    with compiled(grammar_path("json").read_text(encoding="utf-8"), laboratory) as grammar:
        masks: dict[str, Processor] = {
            "cdec": ConstraintProcessor(grammar),
            "llguidance": _llguidance(tokenizer, width, len(prompts)),
            "xgrammar": _xgrammar(tokenizer, width),
        }
        for name, mask in masks.items():
            rows[name] = _quality(model, prompts, _generated(module, model, prompts, mask))
    free, own = rows["unconstrained"], rows["cdec"]
    checks = [
        Check("accuracy under cdec's masks less that of unconstrained decoding", own[0] - free[0],
              at_least=0.0),
        Check("share of well-formed texts under cdec's masks", own[1], at_least=free[1]),
        *(
            Check(f"log P of texts under cdec's masks less that under {name}'s, nats a text",
                  own[2] - rows[name][2], at_least=-1e-3)
            for name in ("llguidance", "xgrammar")
        ),
    ]  # fmt: skip
    columns = ("masks of", "accuracy", "well-formed", "log P, nats a text", "perplexity a token")
    cells = [(name, *row) for name, row in rows.items()]
    return Found(checks, [Table(f"{len(prompts)} records as JSON, greedy", columns, cells)])


def _generated(
    module: Any, model: LanguageModel, prompts: Prompts, mask: Processor | None
) -> list[list[int]]:
    """Return the tokens of greedy texts, without what ends them."""
    import torch

    rows = [model.encode_prompt(prompt) for prompt in prompts.texts]
    ends, width = list(model.vocabulary.eos_token_ids), max(map(len, rows))
    ids = torch.full((len(rows), width), ends[0])
    attention = torch.zeros((len(rows), width), dtype=torch.int64)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        attention[i, width - len(row) :] = 1
    with torch.no_grad():
        found = module.generate(
            input_ids=ids,
            attention_mask=attention,
            do_sample=False,
            max_new_tokens=_LENGTH,
            eos_token_id=ends,
            pad_token_id=ends[0],
            logits_processor=[] if mask is None else [mask],
        )
    texts = found[:, width:].tolist()
    return [text[: next((i for i, t in enumerate(text) if t in ends), len(text))] for text in texts]


def _quality(
    model: LanguageModel, prompts: Prompts, texts: Sequence[Sequence[int]]
) -> tuple[float, float, float, float]:
    """Return shares of right and of well-formed texts, log P a text and perplexity a token."""
    values = [_value(model.vocabulary.decode(text)) for text in texts]
    answers = [json.loads(answer) for answer in prompts.answers]
    requests = [
        ScoreRequest(prompt, token_ids=text)
        for prompt, text in zip(prompts.texts, texts, strict=True)
    ]
    logs = []
    for score in Scorer(model).run(requests):
        if isinstance(score, CdecError):
            raise score
        logs.append(float(score.logprob or -np.inf))
    return (
        float(np.mean([a == b for a, b in zip(values, answers, strict=True)])),
        float(np.mean([value is not None for value in values])),
        float(np.mean(logs)),
        float(np.exp(-sum(logs) / sum(len(text) + 1 for text in texts))),
    )


def _value(text: bytes) -> Any:
    """Return the value that a text is; None where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _xgrammar(tokenizer: Any, width: int) -> Processor:
    import xgrammar
    from xgrammar.contrib.hf import LogitsProcessor

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
    processor: Processor = LogitsProcessor(
        xgrammar.GrammarCompiler(info).compile_builtin_json_grammar()
    )
    return processor


def _llguidance(tokenizer: Any, width: int, batch: int) -> Processor:
    import llguidance
    import llguidance.hf
    from llguidance.torch import (
        allocate_token_bitmask,
        apply_token_bitmask_inplace,
        fill_next_token_bitmask,
    )

    known = llguidance.hf.from_tokenizer(tokenizer, n_vocab=width)
    source = llguidance.LLMatcher.grammar_from_json_schema(
        "{}", defaults={"whitespace_flexible": True}
    )
    matchers = [llguidance.LLMatcher(known, source) for _ in range(batch)]
    mask = allocate_token_bitmask(batch, known.vocab_size)
    begun = False

    def process(ids: Any, scores: Any) -> Any:
        nonlocal begun
        for i, matcher in enumerate(matchers):
            if begun and not matcher.is_stopped():
                matcher.consume_token(int(ids[i, -1]))
            if matcher.is_stopped():
                mask[i] = -1
            else:
                fill_next_token_bitmask(matcher, mask, i)
        begun = True
        apply_token_bitmask_inplace(scores, mask)
        return scores

    return process
