"""Progress of long runs: a bar on a terminal, plain lines when asked for, nothing otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_LINE_INTERVAL_S = 2.0


class Progress(Protocol):
    """Something that counts."""

    def update(self, phase: str, done: int, total: int | None) -> None:
        """Say that ``done`` units of ``total`` (None: unknown) of ``phase`` are finished."""


class NoProgress:
    """Shows nothing."""

    def update(self, phase: str, done: int, total: int | None) -> None:
        """Do nothing."""


class PlainProgress:
    """One line every two seconds and one at the end, without control codes.

    Args:
        stream: Where the lines go.
        unit: What is counted, in the plural.
    """

    def __init__(self, stream: TextIO, unit: str) -> None:
        self._stream = stream
        self._unit = unit
        self._started = self._shown = time.monotonic()
        self._last: tuple[str, int, int | None] = ("", 0, None)

    def update(self, phase: str, done: int, total: int | None) -> None:
        """Remember the count and print a line if the last is two seconds old."""
        self._last = (phase, done, total)
        if time.monotonic() - self._shown >= _LINE_INTERVAL_S:
            self._show()

    def finish(self) -> None:
        """Print the last count."""
        self._show()

    def _show(self) -> None:
        phase, done, total = self._last
        self._shown = time.monotonic()
        rate = done / max(self._shown - self._started, 1e-9)
        of_total = "" if total is None else f" of {total:,}"
        text = f"{phase or 'done'}: {done:,}{of_total} {self._unit}, {rate:,.1f}/s"
        print(text, file=self._stream, flush=True)


@contextmanager
def bar_progress(stream: TextIO, unit: str) -> Iterator[Progress]:
    """Show a bar with a rate on a terminal for the time of the context."""
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    console = RichConsole(file=stream, markup=False, highlight=False)
    with Bars(*columns, console=console, transient=True) as bars:
        yield _BarProgress(bars, unit)


class _BarProgress:
    """One bar a phase, in the order in which phases begin."""

    def __init__(self, bars: RichProgress, unit: str) -> None:
        self._bars = bars
        self._unit = unit
        self._tasks: dict[str, tuple[TaskID, float]] = {}

    def update(self, phase: str, done: int, total: int | None) -> None:
        if phase not in self._tasks:
            task = self._bars.add_task(phase, total=total, counts="")
            self._tasks[phase] = (task, time.monotonic())
        task, started = self._tasks[phase]
        rate = done / max(time.monotonic() - started, 1e-9)
        of_total = "" if total is None else f"/{total:,}"
        counts = f"{done:,}{of_total} {self._unit} {rate:,.0f}/s"
        self._bars.update(task, completed=done, total=total, counts=counts)
