"""Clock: tells a caller which phase a compilation is in, and notes how long each took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from cdec.core.progress import Progress, Stage


class _Report(Protocol):
    seconds: dict[str, float]


R = TypeVar("R", bound=_Report)


class Clock(Generic[R]):
    """Measures the phases of a compilation.

    Args:
        report: Its ``seconds`` by phase are written.
        phases: Every phase in its order, and what progress calls it.
        progress: Told when a phase begins.
    """

    def __init__(self, report: R, phases: Mapping[str, str], progress: Progress) -> None:
        self.report = report
        self._phases = phases
        self._progress = progress

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block as one phase; one that raises is not noted."""
        number = list(self._phases).index(name)
        self._progress(Stage(self._phases[name], number, len(self._phases), "stages"))
        started = time.perf_counter()
        yield
        taken = time.perf_counter() - started
        seconds = self.report.seconds
        seconds[name] = seconds.get(name, 0.0) + taken
