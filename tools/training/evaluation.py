"""Writes the evaluation prompts, checks that training never sees them, scores a model on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.training import corpora
from tools.training.fact_tables import read_table
from tools.training.facts import (
    all_facts,
    fact_documents,
    held_out_questions,
    json_is_held_out,
    json_request,
    record,
    stable_hash,
)
from tools.training.relations import RECORD_KINDS

FACT_PROMPTS = 1200
JSON_PROMPTS = 120
GLOSS_PROMPTS = 200

Prompt = dict[str, str]


def fact_prompts() -> list[Prompt]:
    """List held-out questions with their answers, every relation present, in a fixed order."""
    groups: dict[str, list[Prompt]] = {}
    for question, fact in held_out_questions().items():
        prompt = {
            "id": f"fact-{stable_hash(question) % 16**10:010x}",
            "prompt": f"Question: {question}\nAnswer:",
            "answer": fact.answer,
            "relation": fact.relation.name,
        }
        groups.setdefault(fact.relation.name, []).append(prompt)
    total = sum(len(group) for group in groups.values())
    chosen = []
    for group in groups.values():
        count = max(3, round(FACT_PROMPTS * len(group) / total))
        chosen.extend(sorted(group, key=lambda p: p["id"])[:count])
    return sorted(chosen, key=lambda p: p["id"])


def json_prompts() -> list[Prompt]:
    """List held-out requests for records, with the record's JSON as the answer."""
    prompts = []
    for table in RECORD_KINDS:
        for row in read_table(table):
            columns = list(row)
            for last in range(2, len(columns) + 1):
                request = json_request(table, row, columns[:last])
                if json_is_held_out(request):
                    prompts.append(
                        {
                            "id": f"json-{stable_hash(request) % 16**10:010x}",
                            "prompt": request,
                            "answer": record(row, columns[:last]),
                            "relation": table,
                        }
                    )
    return sorted(prompts, key=lambda p: p["id"])[:JSON_PROMPTS]


def gloss_prompts(shared: Path) -> list[Prompt]:
    """List definitions of held-out synsets with the word that they define."""
    prompts = [
        {
            "id": synset["id"],
            "prompt": corpora.gloss_prompt(synset["definition"]),
            "answer": synset["members"][0],
            "relation": "gloss",
        }
        for synset in corpora.gloss_synsets(shared, held_out=True)
    ]
    return sorted(prompts, key=lambda p: stable_hash(p["id"]))[:GLOSS_PROMPTS]


def leaked(prompts: Sequence[Prompt], documents: Iterable[str]) -> list[str]:
    """List the ids of prompts whose text occurs in one of ``documents``."""
    text = "\n".join(documents)
    return [p["id"] for p in prompts if p["prompt"].strip() in text]


def trained_prompts() -> list[str]:
    """List every prompt that the training text may hold, all facts in all trained phrasings."""
    return [f"Question: {q}\nAnswer: {f.answer}" for f in all_facts() for q in f.trained()]


def training_text_of_facts(seed: int, epochs: int) -> list[str]:
    """Write ``epochs`` epochs of fact documents, as training draws them."""
    rng = np.random.default_rng(seed)
    return [document for _ in range(epochs) for document in fact_documents(rng)]


def greedy_answers(
    model: Any, tokenizer: Any, prompts: Sequence[str], max_new_tokens: int = 24, batch: int = 64
) -> list[str]:
    """Continue each prompt greedily until the end token.

    Args:
        model: A transformers causal model.
        tokenizer: Its tokenizer.
        prompts: Texts.
        max_new_tokens: Limit of the continuation.
        batch: Prompts at a time, of similar length.

    Returns:
        The continuations, stripped, in the order of ``prompts``.
    """
    import torch

    answers = [""] * len(prompts)
    encoded = [tokenizer(text)["input_ids"] for text in prompts]
    order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        width = len(encoded[rows[-1]])
        padding = [width - len(encoded[i]) for i in rows]
        ids = [
            [tokenizer.pad_token_id] * n + encoded[i] for n, i in zip(padding, rows, strict=True)
        ]
        mask = [[0] * n + [1] * (width - n) for n in padding]
        with torch.inference_mode():
            output = model.generate(
                torch.tensor(ids),
                attention_mask=torch.tensor(mask),
                max_new_tokens=max_new_tokens,
                do_sample=False,
            )
        texts = tokenizer.batch_decode(output[:, width:], skip_special_tokens=True)
        for i, text in zip(rows, texts, strict=True):
            answers[i] = text.strip()
    return answers


def exact_match(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], max_new_tokens: int = 24
) -> float:
    """Return the share of prompts whose greedy continuation is the answer."""
    texts = [p["prompt"] for p in prompts]
    found = greedy_answers(model, tokenizer, texts, max_new_tokens)
    return sum(a == p["answer"] for a, p in zip(found, prompts, strict=True)) / len(prompts)
