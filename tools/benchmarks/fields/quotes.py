"""What quotes cost: documents of 1 MB sorted, and masks along their pieces."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from cdec.compilers import schema_constraint
from cdec.core.constraint import Constraint, Session
from cdec.core.mask import allocate_mask
from cdec.core.sets.quotes import DocumentPieces, SpanField
from cdec.core.sets.spans import SpanConstraint, SpanOptions
from cdec.core.tokens.vocabulary import Vocabulary
from tools.benchmarks.grammars.engines import vocabulary_of

SIZE = 10**6
"""Bytes of a document."""
MOST_SECONDS, MOST_MICROSECONDS = 0.3, 50
STEPS = 64
Make: TypeAlias = Callable[[str, Vocabulary, SpanOptions], Constraint]


def prose(rng: np.random.Generator) -> str:
    """Return a document of random words, common ones more often."""
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(rng.choice(letters, rng.integers(1, 10))) for _ in range(20_000)]
    picked = np.minimum(rng.pareto(1.0, SIZE // 3).astype(int), len(words) - 1)
    return " ".join(words[i] for i in picked)[:SIZE]


WORDS = SpanOptions("words", longest=20)
FIELD = "page"
SCHEMA = {
    "type": "object",
    "properties": {"quote": {"type": "string", "x-cdec-span-of": FIELD}},
    "required": ["quote"],
    "additionalProperties": False,
}


def _alone(document: str, vocabulary: Vocabulary, options: SpanOptions) -> Constraint:
    return SpanConstraint(document, vocabulary, options)


def _within(document: str, vocabulary: Vocabulary, options: SpanOptions) -> Constraint:
    pieces = DocumentPieces(document, SpanField(FIELD, options))
    return _schema(vocabulary).with_sets({FIELD: pieces})


@cache
def _schema(vocabulary: Vocabulary) -> Constraint:
    return schema_constraint(SCHEMA, vocabulary)


CASES = {
    "any characters": (_alone, prose, SpanOptions()),
    "whole words, 20 at most": (_alone, prose, WORDS),
    "one letter": (_alone, lambda rng: "a" * SIZE, SpanOptions()),
    "any characters, within a schema": (_within, prose, SpanOptions()),
    "whole words, within a schema": (_within, prose, WORDS),
}
"""Row of the table → what holds texts to it, the document, and which pieces of it."""


def _built(
    make: Make, document: str, vocabulary: Vocabulary, options: SpanOptions
) -> tuple[float, Session]:
    began = time.process_time()
    constraint = make(document, vocabulary, options)
    return time.process_time() - began, constraint.session()


def _masks(session: Session, width: int, ends: list[int], rng: np.random.Generator) -> list[float]:
    """Return the microseconds of masks along a piece that is drawn token by token."""
    state, mask, spent = session.start(1), allocate_mask(1, width), []
    for _ in range(STEPS):
        began = time.process_time_ns()
        session.fill_mask(state, mask)
        spent.append((time.process_time_ns() - began) / 1e3)
        ids = np.setdiff1d(session.allowed(state)[1], ends)
        if not len(ids):
            break
        state = session.advance(state, rng.choice(ids, 1))
    return spent


def print_quotes(repeats: int) -> dict[str, Any]:
    """Print what quotes cost, and return the figures."""
    vocabulary, rng = vocabulary_of("tekken131k"), np.random.default_rng(0)
    print(f"\n| quotes, {SIZE:,} bytes | built, processor time | mask, mean | mask, p99 | target |")
    print("|---|---|---|---|---|")
    figures = {}
    _schema(vocabulary)  # compiled before, as an artifact is
    for name, (make, document_of, options) in CASES.items():
        document, ends = document_of(rng), list(vocabulary.eos_token_ids)
        runs = [_built(make, document, vocabulary, options) for _ in range(repeats)]
        masks = [each for _, run in runs for each in _masks(run, vocabulary.width, ends, rng)]
        found = {
            "built": min(seconds for seconds, _ in runs),
            "mean": float(np.mean(masks)),
            "p99": float(np.quantile(masks, 0.99)),
        }
        words = f"{found['mean']:.0f} µs | {found['p99']:.0f} µs"
        target = f"≤ {MOST_SECONDS} s, ≤ {MOST_MICROSECONDS} µs"
        print(f"| {name} | {found['built']:.2f} s | {words} | {target} |", flush=True)
        figures[name] = found
    return figures
