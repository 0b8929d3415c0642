"""What a set within a schema costs, whatever its size, beside its members as an enum in the peers.

python -m tools.benchmarks.fields.members ENGINE SIZE   # one peer: compile and first mask
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers import compile_token_set, schema_constraint
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import Constraint
from cdec.core.mask import allocate_mask
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.spelled import BYTES, SpelledSet
from tools.benchmarks.grammars.engines import vocabulary_of
from tools.benchmarks.grammars.workloads import shared_module
from tools.benchmarks.schemas.engines import ENGINES, engine_of
from tools.benchmarks.sets.titles import synthetic_titles

TOKENIZER = "tekken131k"
SIZES = (10**3, 10**5, 10**6)
ENUMS = (10**3, 10**4, 10**5)
"""Members of an enum that peers are given."""
_PEER_S = 120
"""Elapsed seconds that a peer may take for one of them."""
_DOCUMENTS = 1000
_BEFORE = '{"name": "'


@dataclass(frozen=True)
class Cost:
    """Processor time of a set within a schema.

    Attributes:
        compile: Beyond a schema without it, seconds.
        first: The first mask within the field, milliseconds.
        mean, p99: A mask and the step behind it, microseconds.
    """

    compile: float
    first: float
    mean: float
    p99: float


def schema_of(name: Any) -> dict[str, Any]:
    """Return a schema of an object with a name and a number."""
    return {
        "type": "object",
        "properties": {"name": name, "number": {"type": "integer"}},
        "required": ["name", "number"],
        "additionalProperties": False,
    }


def members(size: int) -> list[str]:
    """Return as many made-up titles, distinct."""
    found: dict[str, None] = {}
    for batch in synthetic_titles(3 * size):
        found |= dict.fromkeys(batch)
        if len(found) >= size:
            break
    return list(found)[:size]


def cost_of(texts: Sequence[str], folder: Path) -> Cost:
    """Measure a set of texts within a schema: documents, each with a member drawn at random."""
    vocabulary, path = vocabulary_of(TOKENIZER), folder / f"{len(texts)}.arrow"
    compile_token_set([list(text.encode()) for text in texts], BYTES, path)
    without = _seconds(lambda: schema_constraint(schema_of({"type": "string"}), vocabulary))
    name = {"type": "string", "x-cdec-set": "names"}
    compiled = _seconds(lambda: schema_constraint(schema_of(name), vocabulary))
    members_of = open_artifact(path)
    assert isinstance(members_of, SetConstraint)
    SpelledSet.of(members_of)  # makes the trie, once for an artifact
    constraint = schema_constraint(schema_of(name), vocabulary).with_sets({"names": members_of})
    return Cost(compiled - without, *_masks(constraint, texts))


def _seconds(make: Any) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        make()
        best = min(best, time.process_time() - started)
    return best


def _masks(constraint: Constraint, texts: Sequence[str]) -> tuple[float, float, float]:
    session, mask = constraint.session(), allocate_mask(1, constraint.vocabulary.width)
    within = session.advance_bytes(session.start(1), [_BEFORE.encode()])
    started = time.process_time()
    session.fill_mask(within, mask)
    first = time.process_time() - started
    encode = shared_module("toks").Tok(TOKENIZER).encode
    rng, spent = np.random.default_rng(1), []
    for number in rng.integers(len(texts), size=_DOCUMENTS).tolist():
        document = json.dumps({"name": texts[number], "number": number}, ensure_ascii=False)
        state = session.start(1)
        for token in encode(document):
            begun = time.process_time_ns()
            session.fill_mask(state, mask)
            state = session.advance(state, np.array([token]))
            spent.append(time.process_time_ns() - begun)
    costs = np.array(spent) / 1000
    return first * 1000, float(costs.mean()), float(np.quantile(costs, 0.99))


def print_table() -> dict[str, Any]:
    """Print what sets of all sizes cost, then what peers make of enums, and return the figures."""
    print("| a set within a schema | compile, beyond none | first mask | mean | p99 |")
    print("|---|---|---|---|---|")
    print("| target | ≤ 0.2 s | ≤ 20 ms | ≤ 15 µs | ≤ 300 µs |")
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            cost = cost_of(members(size), Path(folder))
            cells = f"{cost.compile:.3f} s | {cost.first:.2f} ms | {cost.mean:.1f} µs"
            print(f"| {size:,} members | {cells} | {cost.p99:.1f} µs |", flush=True)
            figures[str(size)] = vars(cost)
    print("\n| as an enum | " + " | ".join(f"{size:,}" for size in ENUMS) + " |")
    print("|---|" + "---|" * len(ENUMS))
    for engine in (*ENGINES, "outlines-core"):
        said = [_of_peer(engine, size) for size in ENUMS]
        print(f"| {engine} | {' | '.join(said)} |", flush=True)
        figures[engine] = dict(zip(map(str, ENUMS), said, strict=True))
    return figures


def _of_peer(engine: str, size: int) -> str:
    """Return what an engine makes of an enum, in a process of its own that may break down."""
    words = [sys.executable, "-m", "tools.benchmarks.fields.members", engine, str(size)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PEER_S, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {_PEER_S} s"
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines and not done.returncode else "fails"


def main(engine: str, size: int) -> None:
    """Print what one engine takes to compile an enum, and for the first mask within it."""
    try:
        made = engine_of(engine, TOKENIZER)
    except ImportError:
        print("not installed")
        return
    source = json.dumps(schema_of({"enum": members(size)}))
    started = time.process_time()
    made.compile(source)
    compiled = time.process_time() - started
    made.start()
    for token in made.tok.encode(_BEFORE):
        made.fill()
        made.advance(token)
    started = time.process_time()
    made.fill()
    print(f"{compiled:.2f} s, {(time.process_time() - started) * 1000:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
