"""Progress of long runs: a line that renews itself on a terminal, plain lines elsewhere.

What works tells its ``Stage`` (``cdec.core.progress``), at no more than the price of a call; a
thread of its own looks at the clock and shows it, so that time passes also where nothing is told.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TextIO

from cdec.cli.frame.frames import MEASURED_S, View, frame, plain_line
from cdec.core.progress import Progress, Stage, silent

FRAME_S = 0.2
"""Seconds between two frames on a terminal."""
LINE_S = 30.0
"""Seconds between two lines where there is no terminal."""
FINE_LINE_S = 2.0
"""The same where lines were asked for."""
_WINDOW_S = 30.0
"""Seconds back to which a rate is measured; further where less was told."""
_APART_S = 0.1
"""Seconds between two counts that a rate is taken from."""
_CLEAR = "\x1b[K"
_ERASE = f"\r{_CLEAR}"

Note = Callable[[], str]
"""Asked for at each frame."""


class Display:
    """Shows stages, the innermost one that is open; this one shows nothing."""

    def stage(self, stage: Stage, note: Note | None = None) -> AbstractContextManager[Progress]:
        """Show a stage for the time of the context, which gives the ``Progress`` to tell.

        Args:
            stage: As it begins.
            note: What to say of it besides.
        """
        return nullcontext(silent)

    def aside(self) -> AbstractContextManager[None]:
        """Make room for what is printed in the context."""
        return nullcontext()

    def leave(self) -> None:
        """Take away what is shown, from a handler of a signal: waits for nothing."""


class _Tracker:
    """One open stage: what was told of it, and how fast it goes."""

    def __init__(
        self,
        stage: Stage,
        note: Note | None,
        clock: Callable[[], float],
        ended: Callable[[View], None],
    ) -> None:
        self._clock = clock
        self._note = note
        self._ended = ended
        self._begin(stage)

    def _begin(self, stage: Stage) -> None:
        self._started = self._clock()
        self._told = deque([(self._started, stage.done)])
        self.stage = stage

    def __call__(self, stage: Stage) -> None:
        """Take what is told; a stage of another name is another one."""
        if stage.name != self.stage.name:
            self._ended(self.view())
            self._begin(stage)
            return
        if stage.done != self.stage.done:
            now = self._clock()
            if len(self._told) > 1 and now - self._told[-2][0] < _APART_S:
                self._told.pop()
            self._told.append((now, stage.done))
            # Two at least: what comes once a minute has a rate, too.
            while len(self._told) > 2 and now - self._told[1][0] >= _WINDOW_S:
                self._told.popleft()
        self.stage = stage

    def view(self) -> View:
        """Return how things stand."""
        stage, now = self.stage, self._clock()
        # subtle: told by another thread meanwhile; a copy does not change.
        told = tuple(self._told)
        (first, begun), (last, done) = told[0], told[-1]
        rate = left = None
        if last - first >= MEASURED_S and done > begun:
            rate = (done - begun) / (last - first)
            if stage.total is not None:
                left = max(0.0, (stage.total - done) / rate - (now - last))
        note = "" if self._note is None else self._note()
        return View(stage, now - self._started, rate, left, note)


class _Watched(Display, ABC):
    """What every display has: the open stages and the thread that looks.

    Args:
        stream: Where it is shown.
        period: Seconds between two looks.
        clock: Tells the time, seconds.
    """

    def __init__(self, stream: TextIO, period: float, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._period = period
        self._clock = clock
        self._open: list[_Tracker] = []
        # subtle: one that the owner may take again: an interrupt can come while it is held.
        self._lock = threading.RLock()

    @contextmanager
    def stage(self, stage: Stage, note: Note | None = None) -> Iterator[Progress]:
        """Show a stage for the time of the context."""
        tracker = _Tracker(stage, note, self._clock, self._replaced)
        is_first = not self._open
        self._open.append(tracker)
        with self._watching() if is_first else nullcontext():
            try:
                with self._lock:
                    self._begin()
                yield tracker
            finally:
                with self._lock:
                    self._open.remove(tracker)
                    self._end(tracker)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Look at the clock for the time of the context."""
        ended = threading.Event()

        def look_on() -> None:
            while not ended.wait(self._period):
                with self._lock:
                    if self._open:
                        self.look()

        threading.Thread(target=look_on, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    @abstractmethod
    def look(self) -> None:
        """Show how things stand, if it is time."""

    def _begin(self) -> None:
        """Show the stage that has just begun."""

    def _end(self, tracker: _Tracker) -> None:
        """Show that a stage has ended."""

    def _replaced(self, view: View) -> None:
        """Show that a stage has ended, and another one begins in its place."""

    def _write(self, text: str) -> None:
        # subtle: stderr may be a closed pipe or a full device; data must go on all the same.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class LiveLine(_Watched):
    """One line of a terminal, which leaves nothing behind.

    Args:
        stream: The terminal.
        clock: Tells the time, seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, FRAME_S, clock)
        self._turn = 0
        self._is_drawn = False

    def look(self) -> None:
        """Draw the next frame over the one before it."""
        self._turn += 1
        self._is_drawn = True
        self._write(f"\r{frame(self._open[-1].view(), self._width(), self._turn)}{_CLEAR}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is printed; the next frame brings it back."""
        with self._lock:
            self.erase()
            yield

    def erase(self) -> None:
        """Take the line away."""
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def leave(self) -> None:
        """Take the line away for good, from a handler of a signal: waits for nothing."""
        if self._is_drawn:
            with suppress(OSError, ValueError):
                os.write(self._stream.fileno(), _ERASE.encode())

    def _begin(self) -> None:
        self.look()

    def _end(self, tracker: _Tracker) -> None:
        if self._open:
            self.look()
        else:
            self.erase()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


class PlainLines(_Watched):
    """A line now and then, without control codes.

    Args:
        stream: Where the lines go.
        every: Seconds between two lines.
        ends: Whether each stage that counts has a last line, too.
        clock: Tells the time, seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        every: float = LINE_S,
        ends: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, min(1.0, every / 2), clock)
        self._every = every
        self._ends = ends
        self._last = clock()

    def look(self) -> None:
        """Print a line if the last one is old enough."""
        if self._clock() - self._last >= self._every:
            self._print(self._open[-1].view())

    def _end(self, tracker: _Tracker) -> None:
        self._replaced(tracker.view())

    def _replaced(self, view: View) -> None:
        if self._ends and view.stage.done:
            self._print(view)

    def _print(self, view: View) -> None:
        self._last = self._clock()
        self._write(plain_line(view) + "\n")
