"""Cases of the shared file of hostile inputs, and what several kinds of them must keep to."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdec.compilers import ChildCompiler
from tests.cli.conftest import Runner
from tests.shared import shared_folder

TOLERANCE = 1.2
"""Of the limits of a case."""


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


def verdicts(cdec: Runner, texts: list[str]) -> list[bool]:
    """Return what ``cdec check`` says of texts, by the artifact that a case compiled."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    result = cdec("check", "x.arrow", "--field", "text", "--format", "jsonl", stdin=lines.encode())
    assert result.status == 0, result.stderr
    return [record["valid"] for record in result.records]


def assert_within(expect: Mapping[str, Any], child: ChildCompiler, started: float) -> None:
    """Check what a compilation took, in seconds of processors: other work changes no verdict.

    Args:
        expect: Of the case. child: That compiled. started: ``time.process_time()`` before.
    """
    seconds = time.process_time() - started
    if child.usage is not None:
        seconds += child.usage.cpu_seconds
        if "max_rss_mb" in expect:
            assert child.usage.peak_bytes <= expect["max_rss_mb"] * TOLERANCE * 2**20
    assert seconds <= expect.get("max_s", 60) * TOLERANCE
