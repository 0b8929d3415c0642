"""Kinds of source as people meet them: the rows that commands read, and phrases that they share."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cdec.core.kinds import SOURCE_KINDS, found

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile

Rows: TypeAlias = list[tuple[str, str]]
"""Names and values of a table."""
Described: TypeAlias = Mapping[str, Any]
"""Output of ``inspect --json`` for an artifact."""


@dataclass(frozen=True, kw_only=True)
class CompileCommand:
    """Declaration of a compile command's kind of source; the row of ``SOURCE_KINDS`` names it.

    Attributes:
        kind: Of the artifact.
        rows: Returns what people are shown of a compiler's report.
        recorded: Returns what ``to_json`` of a report says of an artifact that is there.
        overview: Returns what an artifact is, in one phrase, and rows of its own.
        again: Returns the command that compiles an artifact at a path again, but for the tokenizer
            and the output.
        prompt: An example, for the command that is typed next.
    """

    kind: str
    rows: Callable[[Any], Rows]
    recorded: Callable[[ArtifactFile], dict[str, Any]]
    overview: Callable[[Described], tuple[str, Rows]]
    again: Callable[[Path, Described], str]
    prompt: str = "For example: "


def command_of(described: Described) -> CompileCommand | None:
    """Return the row of the command that compiles such artifacts; None where there is none."""
    kind, dialect = described["kind"], part(described, "options").get("dialect")
    own = SOURCE_KINDS.get(dialect) if isinstance(dialect, str) else None
    places = own if own is not None and own.artifact == kind else SOURCE_KINDS.get(kind)
    if places is None or not places.command:
        return None
    command: CompileCommand = found(places.command)
    return command


def part(described: Described, name: str) -> Mapping[str, Any]:
    """Return an object within an object; an empty one where there is none."""
    value = described.get(name)
    return value if isinstance(value, Mapping) else {}


def count(counts: Mapping[str, Any], name: str) -> str:
    """Return a count for people; ``?`` where there is none."""
    value = counts.get(name)
    return f"{value:,}" if isinstance(value, int) else "?"


def shown_soundness(*, is_sound: bool, reason: str) -> str:
    """Return the finding about soundness as one phrase, never claiming more than was proved."""
    if is_sound:
        return "yes" + (f": {reason}" if reason else "")
    return reason if reason.startswith("soundness") else f"unproved: {reason}"


def shown_seconds(report: Any, digits: int = 2) -> str:
    """Return the seconds of a report's phases as one phrase."""
    return ", ".join(f"{phase} {value:.{digits}f}" for phase, value in report.seconds.items())


def source_name(described: Described) -> str | None:
    """Return the name of the source that an artifact records; None for one without."""
    source = str(described.get("source") or "")
    return source if source and source != "stdin" else None


def piped(path: Path, key: str, words: list[str]) -> str:
    """Return a command that reads the source which an artifact holds.

    Args:
        path: Of the artifact.
        key: Of the source in what ``inspect --json`` prints.
        words: Of the command that reads stdin.
    """
    kept = shlex.join(["cdec", "inspect", str(path), "--json"])
    return f"{kept} | jq -r .{key} | {shlex.join(words)}"
