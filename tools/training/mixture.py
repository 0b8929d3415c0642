"""Mixes the document sources by token share and packs them into training sequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.training import corpora
from tools.training.arithmetic import problem_document
from tools.training.facts import fact_documents
from tools.training.tokenizer import END

Epoch = Callable[[np.random.Generator], list[str]]
PROMPT_WEIGHT = 0.1  # of a prompt's token in the loss; a completion's token has weight 1
# What follows a prompt: the rest of a line after one of these words, or an object on its own line.
_COMPLETION = re.compile(
    r"\n(?:Answer|JSON|Word|Sentence|Definition|Example|Title|Tree):([^\n]*)|\n(\{[^\n]*)"
)
SYNTHETIC_PROBLEMS = 4_000  # documents an epoch


@dataclass
class Source:
    """One kind of document.

    Attributes:
        name: For the log.
        share: Part of the training tokens, relative to the other sources.
        epoch: Writes all its documents once, in random order.
        tokens: Tokens drawn so far.
        epochs: Epochs begun so far.
    """

    name: str
    share: float
    epoch: Epoch
    tokens: int = 0
    epochs: int = 0
    queue: list[tuple[list[int], list[float]]] = field(default_factory=list)


def shuffled(documents: list[str], rng: np.random.Generator) -> list[str]:
    """Return ``documents`` in random order."""
    return [documents[i] for i in rng.permutation(len(documents))]


def synthetic_problems(rng: np.random.Generator) -> list[str]:
    """Write one epoch of arithmetic problems, all of them new."""
    return [problem_document(rng) for _ in range(SYNTHETIC_PROBLEMS)]


def build_sources(shared: Path | None) -> list[Source]:
    """List the sources of the mixture.

    Args:
        shared: Folder that holds ``data/``; None trains on the tables and synthetic problems.

    Returns:
        The sources with their shares.
    """
    sources = [
        Source("facts", 0.50, fact_documents),
        Source("synthetic problems", 0.10, synthetic_problems),
    ]
    if shared is None:
        return sources
    synsets = corpora.gloss_synsets(shared, held_out=False)
    concepts = corpora.concept_records(shared)
    problems = corpora.problem_documents(shared)
    plain = corpora.plain_documents(shared)
    return [
        *sources,
        Source("glosses", 0.10, partial(corpora.gloss_documents, synsets)),
        Source("concepts", 0.10, partial(corpora.concept_documents, concepts)),
        Source("problems", 0.06, partial(shuffled, problems)),
        Source("plain text", 0.14, partial(shuffled, plain)),
    ]


def token_weights(text: str, offsets: list[tuple[int, int]]) -> list[float]:
    """Weigh a document's tokens in the loss.

    Which country a question asks about cannot be predicted, what answers it can: so a prompt's
    tokens weigh less. A text without a prompt weighs 1 throughout.

    Args:
        text: The document.
        offsets: First and last character (exclusive) of each token.

    Returns:
        One weight a token.
    """
    spans = [m.span(m.lastindex or 0) for m in _COMPLETION.finditer(text)]
    if not spans:
        return [1.0] * len(offsets)
    return [
        1.0 if any(a <= start and end <= b for a, b in spans) and end > start else PROMPT_WEIGHT
        for start, end in offsets
    ]


def with_facts_share(sources: list[Source], share: float) -> list[Source]:
    """Give the facts ``share`` of the tokens, and the other sources the rest in proportion."""
    rest = sum(source.share for source in sources if source.name != "facts")
    return [
        replace(s, share=share if s.name == "facts" else s.share * (1.0 - share) / rest)
        for s in sources
    ]


class TokenStream:
    """An endless stream of packed training sequences.

    The next document always comes from the source that is furthest behind its share, so the
    mixture is exact at every length and depends on the seed alone.
    """

    def __init__(self, sources: list[Source], tokenizer: Any, seed: int) -> None:
        self.sources = sources
        self._tokenizer = tokenizer
        self._end = tokenizer.token_to_id(END)
        self._rng = np.random.default_rng(seed)
        self._ids: list[int] = []
        self._weights: list[float] = []

    def batch(self, rows: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Take the next packed sequences; a document may be cut at a border.

        Args:
            rows: Sequences.
            length: Tokens a sequence.

        Returns:
            int64[rows, length] token ids, and float32[rows, length] their weights in the loss.
        """
        needed = rows * length
        while len(self._ids) < needed:
            ids, weights = self._next_document()
            self._ids.extend(ids)
            self._weights.extend(weights)
        taken = np.array(self._ids[:needed], dtype=np.int64).reshape(rows, length)
        weight = np.array(self._weights[:needed], dtype=np.float32).reshape(rows, length)
        del self._ids[:needed], self._weights[:needed]
        return taken, weight

    def _next_document(self) -> tuple[list[int], list[float]]:
        source = min(self.sources, key=lambda s: s.tokens / s.share)
        if not source.queue:
            documents = source.epoch(self._rng)
            encoded = self._tokenizer.encode_batch(documents)
            source.queue = [
                ([*e.ids, self._end], [*token_weights(text, e.offsets), 1.0])
                for text, e in zip(reversed(documents), reversed(encoded), strict=True)
            ]
            source.epochs += 1
        document = source.queue.pop()
        source.tokens += len(document[0])
        return document


def sample_texts(sources: list[Source], seed: int, limit: int) -> Iterator[str]:
    """Yield up to ``limit`` characters of every source, for training the tokenizer."""
    rng = np.random.default_rng(seed)
    for source in sources:
        size = 0
        for document in source.epoch(rng):
            if size > limit * source.share:
                break
            size += len(document)
            yield document
