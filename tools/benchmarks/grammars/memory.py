"""Memory of a grammar's stacks, masks and memos over many documents, no two of them alike.

JSON is drawn as values; programs in the C subset are walks over allowed tokens, drawn by
their first byte, which no model would write and which ask for new masks all the time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cdec.core import allocate_mask
from tools.benchmarks.grammars.decoding import compiled
from tools.benchmarks.grammars.engines import vocabulary_of
from tools.benchmarks.grammars.workloads import shared_module, workloads
from tools.benchmarks.processes import resident_bytes

_STEPS = 64
"""Tokens of a walk at most."""
_SHOWN = (100, 1_000, 3_000, 10_000, 30_000)
Tokens = Callable[[Any, np.random.Generator], Iterable[int]]


def random_json(rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a random JSON value."""
    kind = int(rng.integers(0, 4 if depth > 4 else 6))
    word = "".join(chr(c) for c in rng.integers(97, 123, int(rng.integers(1, 12))))
    if kind == 4:
        return [random_json(rng, depth + 1) for _ in range(int(rng.integers(0, 5)))]
    if kind == 5:
        return {f"{word}{i}": random_json(rng, depth + 1) for i in range(int(rng.integers(0, 5)))}
    return [word, float(rng.normal()), bool(rng.integers(2)), None][kind]


def json_tokens(encode: Callable[[str], Iterable[int]]) -> Tokens:
    """Return what draws the tokens of a random JSON text."""

    def draw(session: Any, rng: np.random.Generator) -> Iterable[int]:
        return encode(json.dumps(random_json(rng), indent=int(rng.integers(0, 3)) or None))

    return draw


def walked_tokens(vocabulary: Any) -> Tokens:
    """Return what draws tokens by a walk: first the byte that a token begins with, then one."""
    begins = np.array([text[0] if text else 256 for text in vocabulary.token_bytes])

    def draw(session: Any, rng: np.random.Generator) -> Iterable[int]:
        states = session.start(1)
        for _ in range(int(rng.integers(1, _STEPS))):
            _, ids = session.allowed(states)
            ids = ids[begins[ids] < 256]
            if not len(ids):
                return
            token = int(rng.choice(ids[begins[ids] == rng.choice(np.unique(begins[ids]))]))
            states = session.advance(states, np.array([token]))
            yield token

    return draw


def print_memory(tokenizer: str, documents: int) -> dict[str, dict[int, int]]:
    """Replay documents, a session each; print and return bytes beside the artifact by documents."""
    vocabulary, encode = vocabulary_of(tokenizer), shared_module("toks").Tok(tokenizer).encode
    draws: dict[str, Tokens] = {
        "json_free": json_tokens(encode),
        "c_subset": walked_tokens(vocabulary),
    }
    print("\n| workload | documents | MiB beside the artifact | of these masks and stacks |")
    print("|---|---|---|---|")
    return {name: _held(name, draw, vocabulary, documents) for name, draw in draws.items()}


def _held(name: str, draw: Tokens, vocabulary: Any, documents: int) -> dict[int, int]:
    held: dict[int, int] = {}
    rng, load = np.random.default_rng(0), workloads()[name]
    with tempfile.TemporaryDirectory() as folder:
        constraint = compiled(load["lark"], vocabulary, folder, lexer=load["lexer"])
        mask, began = allocate_mask(1, vocabulary.width), 0
        for number in range(documents + 1):
            session = constraint.session("cpu")
            states = session.start(1)
            for token in draw(session, rng):
                session.fill_mask(states, mask)
                states = session.advance(states, np.array([token]))
            began = began or resident_bytes()  # after the first document, with all kernels loaded
            if number in (*_SHOWN, documents) and number:
                held[number] = resident_bytes() - began
                own = session.statistics()["bytes"] / 2**20
                row = f"| {name} | {number:,} | {held[number] / 2**20:.0f} | {own:.0f} |"
                print(row, flush=True)
    return held
