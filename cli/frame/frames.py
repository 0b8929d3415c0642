"""What progress looks like: one line of text from what is known, no wider than the terminal."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from cdec.core.progress import Stage

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
