"""What it costs to hold texts to a number of tokens: masks of documents with and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core.combine.fitting import fit
from cdec.core.constraint import Constraint
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import Vocabulary
from tools.benchmarks.grammars.engines import vocabulary_of

_TEXT = {"type": "string", "maxLength": 200}
_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
_TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "title": _TEXT,
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["title", "children"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
_ADA = {"name": "Ada Lovelace, who wrote the first program", "age": 36, "tags": ["mathematics"]}


def _tree(depth: int) -> dict[str, object]:
    children = [_tree(depth - 1) for _ in range(2)] if depth else []
    return {"title": f"A chapter of level {depth} and what it is about", "children": children}


_JSON = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"[^"\\]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
%ignore /[ \n]+/
"""
DOCUMENTS = {
    "schema": (json.dumps(_PERSON), json.dumps(_ADA)),
    "recursive schema": (json.dumps(_TREE), json.dumps(_tree(3))),
    "grammar": (_JSON, json.dumps(_tree(1))),
    "regex": ("([A-Z]{2}-[0-9]+(, )?)+", "AB-12, CD-3456, EF-7, GH-89012, IJ-3"),
}
"""Kind → a source, and a text of it."""
FAR = 1 << 14
"""Tokens to which no document comes near."""


@dataclass(frozen=True)
class Cost:
    """Processor microseconds of a mask and the step behind it, of a batch of rows."""

    without: float
    far: float
    near: float

    @property
    def quotient(self) -> float:
        """Times of the cost without, far from the end."""
        return self.far / self.without


def constraint_of(kind: str, vocabulary: Vocabulary) -> Constraint:
    """Return the constraint of a kind of ``DOCUMENTS``, made anew."""
    make = {"regex": regex_constraint, "grammar": grammar_constraint}.get(kind, schema_constraint)
    return make(DOCUMENTS[kind][0], vocabulary)


def tokens_of(text: bytes, token_bytes: Sequence[bytes]) -> list[int]:
    """Return the longest tokens of a text, in turn."""
    ids = {piece: token for token, piece in enumerate(token_bytes) if piece}
    longest, found, at = max(map(len, ids)), [], 0
    while at < len(text):
        size = next(n for n in count(longest, -1) if text[at : at + n] in ids)
        found.append(ids[text[at : at + size]])
        at += min(size, len(text) - at)
    return found


def passes(constraint: Constraint, row: Sequence[int], rows: int) -> Iterator[float]:
    """Yield the microseconds a position of one pass after the other: sessions are their own."""
    mask = allocate_mask(rows, constraint.vocabulary.width)
    while True:
        session: Any = constraint.session("cpu")
        states: NDArray[np.int64] = session.start(rows)
        begin = time.process_time_ns()
        for token in row:
            session.fill_mask(states, mask)
            states = session.advance(states, np.full(rows, token))
        session.fill_mask(states, mask)
        yield (time.process_time_ns() - begin) / 1e3 / (len(row) + 1)


def costs(kind: str, rows: int, repeats: int) -> tuple[Cost, Cost, str]:
    """Return what a mask and a step cost in the first pass and in the best of later ones.

    Args:
        kind: Of ``DOCUMENTS``.
        rows: Of a batch.
        repeats: Passes over the document, with and without in turn.

    Returns:
        The two costs, and whether texts were fitted exactly.
    """
    vocabulary = vocabulary_of("tekken131k")
    row = tokens_of(DOCUMENTS[kind][1].encode(), vocabulary.token_bytes)
    plain, other, third = (constraint_of(kind, vocabulary) for _ in range(3))
    far, near = fit(other, FAR), fit(third, len(row))
    walks = [passes(constraint, row, rows) for constraint in (plain, far, near)]
    found = np.array([[next(walk) for walk in walks] for _ in range(repeats + 1)])
    return Cost(*found[0]), Cost(*found[1:].min(axis=0)), str(far.facts.fit)


def print_table(repeats: int) -> dict[str, Any]:
    """Print what fitting costs, and return the figures."""
    print("\n| `--fit`, µs a mask and step | rows | without | with | times | at the end | is |")
    print("|---|---|---|---|---|---|---|")
    figures: dict[str, Any] = {}
    for kind in DOCUMENTS:
        for rows in (1, 32):
            first, best, how = costs(kind, rows, repeats)
            for name, cost in (("first pass", first), ("later", best)):
                cells = f"{cost.without:.1f} | {cost.far:.1f} | {cost.quotient:.2f}"
                print(
                    f"| {kind}, {name} | {rows} | {cells} | {cost.near:.0f} | {how} |", flush=True
                )
                figures[f"{kind}, {name}, {rows}"] = vars(cost) | {"fit": how}
    return figures
