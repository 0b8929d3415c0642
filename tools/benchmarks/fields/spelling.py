"""What it costs to hold texts to the tokenizer's own tokens: masks with and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cdec.core.combine.canonical import CanonicalTexts, canonical
from cdec.core.tokens.vocabulary import Vocabulary
from tests.shared import shared_folder
from tools.benchmarks.fields.fitting import DOCUMENTS, constraint_of, passes

_TOKENIZER = shared_folder() / "data" / "tokenizers" / "tiktoken" / "cl100k_base.tiktoken.xz"
"""Of 100,256 tokens."""


@dataclass(frozen=True)
class Cost:
    """Processor microseconds of a mask and the step behind it, of a batch of rows."""

    without: float
    own: float

    @property
    def quotient(self) -> float:
        """Times of the cost without."""
        return self.own / self.without


def costs(kind: str, rows: int, repeats: int, texts: CanonicalTexts) -> tuple[Cost, Cost]:
    """Return what a mask and a step cost in the first pass and in the best of later ones.

    Args:
        kind: Of ``DOCUMENTS``.
        rows: Of a batch.
        repeats: Passes over the document as the tokenizer spells it, with and without in turn.
        texts: What the tokenizer writes.
    """
    (row,) = texts.vocabulary.encode([DOCUMENTS[kind][1]])
    plain, own = (constraint_of(kind, texts.vocabulary) for _ in range(2))
    walks = [passes(each, row, rows) for each in (plain, canonical(own, texts))]
    found = np.array([[next(walk) for walk in walks] for _ in range(repeats + 1)])
    return Cost(*found[0]), Cost(*found[1:].min(axis=0))


def print_spelling(repeats: int) -> dict[str, Any]:
    """Print what canonical spellings cost, and return the figures."""
    print("\n| `--canonical`, µs a mask and step | rows | without | with | times |")
    print("|---|---|---|---|---|")
    texts = CanonicalTexts(Vocabulary.from_tokenizer(_TOKENIZER))
    figures: dict[str, Any] = {}
    for kind in DOCUMENTS:
        for rows in (1, 32):
            both = costs(kind, rows, repeats, texts)
            for name, cost in zip(("first pass", "later"), both, strict=True):
                cells = f"{cost.without:.1f} | {cost.own:.1f} | {cost.quotient:.2f}"
                print(f"| {kind}, {name} | {rows} | {cells} |", flush=True)
                figures[f"{kind}, {name}, {rows}"] = vars(cost)
    return figures
