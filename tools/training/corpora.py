"""Reads the text corpora of the shared data folder and turns their records into documents."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cdec.core.errors import InputMissingError
from tools.training.arithmetic import answer_json
from tools.training.facts import stable_hash

GLOSS_HOLDOUT = 10  # one synset in this many is kept for evaluation
_CALCULATION = re.compile(r"<<([^<>=]+)=([^<>]+)>>")


def read_text(path: Path) -> str:
    """Read an xz-compressed UTF-8 file.

    Raises:
        InputMissingError: ``path`` does not exist.
    """
    if not path.exists():
        raise InputMissingError(
            f"no training corpus at {path}",
            hint="give the folder that holds data/ with --shared, or train with --tables-only",
        )
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of an xz-compressed JSONL file."""
    yield from (json.loads(line) for line in read_text(path).splitlines())


def synset_is_held_out(synset_id: str) -> bool:
    """Say whether a synset belongs to the evaluation tenth."""
    return stable_hash(synset_id) % GLOSS_HOLDOUT == 0


def gloss_synsets(shared: Path, *, held_out: bool) -> list[dict[str, Any]]:
    """List the synsets that are common words: no proper nouns, no scientific names."""
    records = read_records(shared / "data/wordnet/synsets.jsonl.xz")
    return [
        r
        for r in records
        if synset_is_held_out(r["id"]) == held_out
        and r["members"][0].islower()
        and len(r["definition"]) < 160
    ]


def gloss_prompt(definition: str) -> str:
    """Return the text that asks for the word of a definition."""
    return f"Definition: {definition}\nWord:"


def gloss_documents(synsets: list[dict[str, Any]], rng: np.random.Generator) -> list[str]:
    """Write each synset once, mostly as gloss → word, else word → gloss or as an example."""
    documents = []
    for synset in synsets:
        form, words = rng.random(), synset["members"]
        word = words[0] if rng.random() < 0.8 else words[int(rng.integers(len(words)))]
        if form < 0.75:
            documents.append(f"{gloss_prompt(synset['definition'])} {word}")
        elif form < 0.9 or not synset["examples"]:
            documents.append(f"Word: {word}\nDefinition: {synset['definition']}")
        else:
            documents.append(f"Word: {word}\nExample: {example_text(synset['examples'][0])}")
    rng.shuffle(documents)
    return documents


def example_text(example: str | dict[str, str]) -> str:
    """Return the text of an example, which may be an object with its source."""
    return example if isinstance(example, str) else example["text"]


def concept_records(shared: Path) -> list[dict[str, Any]]:
    """List the concept sets of the CommonGen training part."""
    return list(read_records(shared / "data/commongen/train.jsonl.xz"))


def concept_documents(records: list[dict[str, Any]], rng: np.random.Generator) -> list[str]:
    """Write each concept set once with one of its sentences, the concepts in any order."""
    documents = []
    for record in records:
        concepts = [record["concepts"][i] for i in rng.permutation(len(record["concepts"]))]
        sentence = as_sentence(record["references"][int(rng.integers(len(record["references"])))])
        documents.append(f"Concepts: {', '.join(concepts)}\nSentence: {sentence}")
    rng.shuffle(documents)
    return documents


def as_sentence(text: str) -> str:
    """Return a text with a capital first and a mark last."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def problem_documents(shared: Path, part: str = "train") -> list[str]:
    """Write each GSM8K problem of a part whose answer is a number with its steps as JSON."""
    documents = []
    for record in read_records(shared / f"data/gsm8k/{part}.jsonl.xz"):
        solution, _, final = record["answer"].partition("#### ")
        steps = [f"{a.replace(' ', '')}={b}" for a, b in _CALCULATION.findall(solution)]
        number = final.strip().replace(",", "")
        if steps and number.lstrip("-").isdigit():
            question = " ".join(record["question"].split())
            documents.append(f"Problem: {question}\nJSON: {answer_json(steps, int(number))}")
    return documents


def plain_documents(shared: Path) -> list[str]:
    """List the stories, the books in pieces of a few paragraphs, and the plays."""
    folder = shared / "data/text_lm"
    documents = [
        f"{story['title']}\n\n{story['text']}"
        for story in read_records(folder / "childrens_stories_ccby.jsonl.xz")
    ]
    books = sorted((folder / "standard_ebooks").glob("*.txt.xz"))
    for path in [*books, folder / "tinyshakespeare.txt.xz"]:
        documents.extend(_pieces(read_text(path), 7000))
    return documents


def _pieces(text: str, size: int) -> Iterator[str]:
    """Cut ``text`` between paragraphs into pieces of about ``size`` characters."""
    piece: list[str] = []
    length = 0
    for paragraph in re.split(r"\n\s*\n", text):
        piece.append(paragraph.strip())
        length += len(paragraph)
        if length >= size:
            yield "\n\n".join(piece)
            piece, length = [], 0
    if piece:
        yield "\n\n".join(piece)
