"""Writes everything under ``--out`` that is not a model, and measures the models on it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cdec.core.errors import CdecError
from tools.training import evaluation
from tools.training.attribution import attribution
from tools.training.entities import fact_entities, unicode_names
from tools.training.evaluation import Prompt

LEAK_EPOCHS = 2  # epochs of drawn fact text searched, besides all trained phrasings


def write_data(out: Path, shared: Path | None) -> None:
    """Write entity lists, evaluation prompts and, with the corpora, ATTRIBUTION.md.

    Args:
        out: Folder to write.
        shared: Folder that holds ``data/``; None leaves out what needs the corpora.

    Raises:
        CdecError: A held-out prompt occurs in the training text.
    """
    _write(out / "entities/facts.txt", fact_entities())
    _write(out / "entities/unicode_names.txt", unicode_names())
    facts, requests = evaluation.fact_prompts(), evaluation.json_prompts()
    seen = [*evaluation.trained_prompts(), *evaluation.training_text_of_facts(0, LEAK_EPOCHS)]
    found = evaluation.leaked([*facts, *requests], seen)
    if found:
        raise CdecError(
            f"{len(found)} evaluation prompts occur in the training text, first {found[0]}",
            hint="a phrasing in relations.py is shared by two relations: make them differ",
        )
    _write(out / "eval/facts.jsonl", _lines(facts))
    _write(out / "eval/json.jsonl", _lines(requests))
    if shared is not None:
        _write(out / "eval/glosses.jsonl", _lines(evaluation.gloss_prompts(shared)))
        (out / "ATTRIBUTION.md").write_text(attribution(shared), encoding="utf-8")


def measure(out: Path, name: str) -> dict[str, Any]:
    """Score a written model greedily on the prompts beside it.

    Args:
        out: Folder written by the training.
        name: Model folder in it.

    Returns:
        Share of exact answers a prompt file.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(out / name, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(out / name)
    scores = {}
    for path in sorted((out / "eval").glob("*.jsonl")):
        prompts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        limit = 96 if path.stem == "json" else 24
        scores[path.stem] = evaluation.exact_match(model, tokenizer, prompts, limit)
    return {"greedy_exact_match": {key: round(value, 4) for key, value in scores.items()}}


def _lines(prompts: Iterable[Prompt]) -> Iterable[str]:
    return (json.dumps(prompt, ensure_ascii=False) for prompt in prompts)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
