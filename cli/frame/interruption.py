"""Interruption report: what a run that a signal ends leaves behind, and how to go on with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.progress import plural
from cdec.core.files.remote import Place

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run

NOTHING = "nothing was written"


def records(done: int, total: int | None) -> str:
    """Return how many records are done, with the verb: ``1,203 of 5,000 records are``."""
    verb = "is" if done == 1 else "are"
    if total is None:
        return f"{plural(done, 'records')} {verb}"
    return f"{done:,} of {plural(max(done, total), 'records')} {verb}"


def printed(count: str) -> str:
    """Return what is kept of a run whose records go to stdout; ``count`` as of ``records``."""
    return NOTHING if count.startswith("0 ") else f"{count} printed, and nothing else is kept"


def in_file(count: str, output: Place, words: Sequence[str], *, from_pipe: bool) -> str:
    """Return what is kept in an output, and the command that goes on with it.

    Args:
        count: As of ``records``.
        output: The file, or the folder of part files.
        words: What was typed after ``cdec``.
        from_pipe: Whether the same input must be piped in again.
    """
    again = " and the same input" if from_pipe else ""
    return f"{count} in {output}; go on with --resume{again}:\n  {resumed(words)}"


def resumed(words: Sequence[str]) -> str:
    """Return the command that goes on with what ``words`` began."""
    kept = [word for word in words if word not in ("--force", "--resume")]
    return shlex.join(["cdec", *kept, "--resume"])


@contextmanager
def keeping(run: Run, output: Path) -> Iterator[None]:
    """Say, where a signal ends the context or what follows, what became of an artifact."""
    before = f"{NOTHING}; the old {output} stands" if output.exists() else NOTHING
    run.kept = lambda: before
    yield
    run.kept = lambda: f"{output} was written"
