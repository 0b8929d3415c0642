"""What a golden case is: command lines, or one call of the Python surface, under a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Words = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One command line.

    Attributes:
        argv: Words after ``cdec``; where the first begins with ``!``, an edit of a file of the
            case (see ``runner.edit``).
        stdin: Bytes on stdin, or what an edit writes.
        environment: Variables set for this step.
        stdout: A file that takes stdout, such as ``/dev/full``; None records it.
    """

    argv: Words
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    stdout: str | None = None


@dataclass(frozen=True)
class Case:
    """One recording.

    Attributes:
        name: Key by which recordings are compared; also the recording's file name.
        kind: Group of cases, such as ``sample`` or ``help``.
        steps: Command lines, run one after the other in one empty folder.
        files: Files that lie in the folder from the start.
        prepare: Writes further files into the folder.
        call: Python instead of command lines; its result is recorded as JSON.
        needs_compiler: Whether grammars are compiled on the way.
    """

    name: str
    kind: str
    steps: tuple[Step, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None
    call: Callable[[Path], Any] | None = None
    needs_compiler: bool = False


def words(*parts: object) -> Words:
    """Return a command line: strings are split at blanks, tuples are taken as they are."""
    out: list[str] = []
    for part in parts:
        if isinstance(part, tuple):
            out += map(str, part)
        else:
            out += str(part).split()
    return tuple(out)


def jsonl(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return records as JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)
