"""Reads the shared file of hostile inputs and turns a case's generator into bytes."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any

from tests.shared import shared_folder


@dataclass(frozen=True)
class Case:
    """One hostile input with the expected outcome."""

    id: str
    generator: str
    expect: dict[str, Any]
    is_heavy: bool

    def data(self) -> bytes:
        """Evaluate the generator: an expression of bytes, without names but the ones it uses."""
        value = eval(self.generator, {"__builtins__": {"__import__": __import__, "range": range}})
        return value if isinstance(value, bytes) else str(value).encode()

    def command(self) -> str:
        """Return the generator of a case that is a command line."""
        return str(ast.literal_eval(self.generator))


def cases(kind: str) -> list[Case]:
    """Return the cases of one kind; empty where the shared file is absent."""
    path = shared_folder() / "corpus" / "bad_inputs.jsonl"
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Case(
            row["id"],
            row["generator"] if "generator" in row else repr(row["input"]),
            row["expect"],
            bool(row.get("heavy")),
        )
        for row in rows
        if row["kind"] == kind
    ]
