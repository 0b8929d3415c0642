"""Progress of long runs: a line that renews itself on a terminal, plain lines elsewhere.

What works tells its ``Stage`` (``cdec.core.progress``), at no more than the price of a call; a
thread of its own looks at the clock and shows it, so that time passes also where nothing is told.
"""

from __future__ import annotations

import os
import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TextIO

from cdec.core.progress import Progress, Stage, silent

MEASURED_S = 1.0
"""Seconds that a rate must have been measured for before it is shown."""
DIVIDER = " · "
"""Between the pieces of a frame."""
WIDEST_BAR = 30
_NARROWEST_BAR = 8
_WANTED_BAR = 16
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_PERIODS = ((1.0, "s"), (60.0, "min"), (3600.0, "h"))


@dataclass(frozen=True, slots=True)
class View:
    """A stage at one moment.

    Attributes:
        stage: Name and counts.
        elapsed: Seconds since it began.
        rate: Units a second, smoothed; None while it is not known.
        left: Seconds that it will still take; None while that is not known.
        note: What else there is to say, its parts divided as pieces of a frame; empty for nothing.
    """

    stage: Stage
    elapsed: float
    rate: float | None = None
    left: float | None = None
    note: str = ""


def frame(view: View, width: int, turn: int = 0) -> str:
    """Return a stage as one line for a terminal.

    Args:
        view: The stage.
        width: Columns; the line has fewer, so that the cursor stays in it.
        turn: Number of the frame: what has no total has something that moves.
    """
    stage, total = view.stage, view.stage.total
    pieces = [_counts(stage), *_times(view), *view.note.split(DIVIDER)]
    if view.left is None:
        pieces.insert(1, duration(view.elapsed))
    pieces = [piece for piece in pieces if piece]
    # What comes last is the first to go where the terminal is narrow; a bar that says how long it
    # takes is worth more than a note.
    bar = _WANTED_BAR if total and view.left is not None and view.note else 0
    spinner = 0 if total else 2
    while len(pieces) > 1 and _columns(_plain(stage, pieces)) + spinner + bar >= width:
        pieces.pop()
        bar = 0
    line = _plain(stage, pieces)
    if total:
        room = min(WIDEST_BAR, width - 2 - _columns(line))
        return _cut(f"{stage.name} {_bar(stage.done / total, room)}{DIVIDER.join(pieces)}", width)
    return _cut(f"{_SPINNER[turn % len(_SPINNER)]} {line}", width)


def plain_line(view: View) -> str:
    """Return a stage as a line of a log."""
    note, so_far = view.note.split(DIVIDER), f"{duration(view.elapsed)} so far"
    pieces = [_counts(view.stage), *_times(view), *note, so_far]
    return f"{view.stage.name}: {', '.join(piece for piece in pieces if piece)}"


def duration(seconds: float) -> str:
    """Return a time for people: ``42 s``, ``5 min 07 s``, ``2 h 05 min``, ``3 d 04 h``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24:02} h"


def per_time(rate: float) -> str:
    """Return a rate for people: ``12/s``, ``3.4k/s``, ``15/min``; ``rate`` is a second's."""
    for size, unit in _UNITS:
        if rate >= size:
            return f"{_short(rate / size)}{unit}/s"
    for seconds, unit in _PERIODS:
        if rate * seconds >= 1:
            return f"{_short(rate * seconds)}/{unit}"
    return f"{_short(rate * 3600)}/h"


def plural(count: int, things: str) -> str:
    """Return ``1 record``, ``2 records``, ``1 entity``."""
    if count != 1:
        return f"{count:,} {things}"
    return f"1 {things[:-3]}y" if things.endswith("ies") else f"1 {things.removesuffix('s')}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _counts(stage: Stage) -> str:
    if not stage.unit:
        return ""
    if stage.total is None:
        return plural(stage.done, stage.unit) if stage.done else ""
    return f"{stage.done:,} of {plural(stage.total, stage.unit)}"


def _times(view: View) -> list[str]:
    rate = "" if view.rate is None else per_time(view.rate)
    return [rate, "" if view.left is None else f"{duration(view.left)} left"]


def _plain(stage: Stage, pieces: list[str]) -> str:
    between = " " if stage.unit else DIVIDER
    return f"{stage.name}{between}{DIVIDER.join(pieces)}" if pieces else stage.name


def _bar(share: float, room: int) -> str:
    """Return a bar of at most ``room`` columns with a space after it; nothing where it is short."""
    if room < _NARROWEST_BAR:
        return ""
    filled = int(min(1.0, share) * (room - 1))
    return "━" * filled + "─" * (room - 1 - filled) + " "


def _cut(line: str, width: int) -> str:
    """Return as much of ``line`` as fits into fewer than ``width`` columns."""
    if _columns(line) < width:
        return line
    while line and _columns(line) + 1 >= width:
        line = line[:-1]
    return f"{line}…"


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


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
