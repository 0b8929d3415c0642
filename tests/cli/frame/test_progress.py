"""Progress: frames that fit, rates that were measured, lines at their times."""

from __future__ import annotations

import io
import time

import pytest

from cdec.cli.frame.progress import (
    Display,
    LiveLine,
    PlainLines,
    View,
    duration,
    frame,
    per_time,
    plain_line,
)
from cdec.core.progress import Stage
from tests.cli.screen import frames, screen


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (307, "5 min 07 s"),
        (3600, "1 h 00 min"),
        (7505, "2 h 05 min"),
        (273_600, "3 d 04 h"),
    ],
)
def test_times_are_for_people(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (19_488_430, "19M/s"),
        (3_400, "3.4k/s"),
        (812.3, "812/s"),
        (1.26, "1.3/s"),
        (0.26, "16/min"),
        (0.01, "36/h"),
        (0.0001, "0.4/h"),
    ],
)
def test_rates_are_for_people(rate: float, shown: str) -> None:
    assert per_time(rate) == shown


def _counted(done: int, total: int | None) -> Stage:
    return Stage("sampling", done, total, "records")


def test_a_frame_has_total_rate_and_what_is_left() -> None:
    view = View(_counted(1203, 5000), 100.0, 12.0, 316.4, "41,233 model calls")
    assert frame(view, 120) == (
        "sampling ━━━━━━─────────────────────── "
        "1,203 of 5,000 records · 12/s · 5 min 16 s left · 41,233 model calls"
    )
    assert frame(view, 80) == (
        "sampling ━━━━━──────────────── 1,203 of 5,000 records · 12/s · 5 min 16 s left"
    )
    assert frame(view, 60) == "sampling 1,203 of 5,000 records · 12/s · 5 min 16 s left"


def test_parts_of_a_note_go_one_by_one_where_the_terminal_is_narrow() -> None:
    view = View(
        _counted(0, 3), 71.0, note="20% of 1,000 draws · bracket 61.5 nats · 512 model calls"
    )
    whole = "sampling 0 of 3 records · 1 min 11 s · 20% of 1,000 draws · bracket 61.5 nats"
    assert frame(view, 80) == whole
    assert frame(view, 60) == "sampling 0 of 3 records · 1 min 11 s · 20% of 1,000 draws"
    assert frame(view, 110).endswith(" · bracket 61.5 nats · 512 model calls")
    assert plain_line(view) == (
        "sampling: 0 of 3 records, 20% of 1,000 draws, bracket 61.5 nats, 512 model calls, "
        "1 min 11 s so far"
    )


def test_a_frame_without_a_total_has_the_time_so_far() -> None:
    assert frame(View(Stage("loading gpt2"), 3.2), 80) == "⠋ loading gpt2 · 3 s"
    assert frame(View(_counted(0, 4), 71.0, note="41 model calls"), 80).endswith(
        "0 of 4 records · 1 min 11 s · 41 model calls"
    )
    assert (
        frame(View(_counted(31, None), 10.0, 3.1), 80)[2:] == "sampling 31 records · 10 s · 3.1/s"
    )


@pytest.mark.parametrize("width", [1, 2, 8, 20, 33, 40, 79, 80, 200])
@pytest.mark.parametrize("name", ["sampling", "loading " + "x" * 300, "loading 東京" * 9])
def test_a_frame_is_narrower_than_its_terminal(width: int, name: str) -> None:
    for total in (None, 0, 5_000):
        for rate in (None, 12.0):
            stage = Stage(name, 1203, total, "records")
            line = frame(View(stage, 3601.0, rate, rate, "41,233 model calls"), width)
            wide = sum(2 if letter in "東京" else 1 for letter in line)
            assert wide < max(width, 2)


def test_more_than_the_total_fills_the_bar_and_no_more() -> None:
    line = frame(View(_counted(7, 5), 1.0), 80)
    assert "━" in line and "─" not in line and len(line) < 80


def test_lines_of_a_log_say_the_same() -> None:
    view = View(_counted(1203, 5000), 100.0, 12.0, 316.4)
    assert plain_line(view) == (
        "sampling: 1,203 of 5,000 records, 12/s, 5 min 16 s left, 1 min 40 s so far"
    )
    assert plain_line(View(Stage("loading gpt2"), 31.0)) == "loading gpt2: 31 s so far"


def _after(lines: PlainLines, stream: io.StringIO, clock: Clock, seconds: float) -> str:
    """Return what is printed when so much time has passed."""
    stream.seek(0)
    stream.truncate()
    clock.now += seconds
    lines.look()
    return stream.getvalue()


def test_a_rate_is_shown_once_it_was_measured_for_a_second() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = PlainLines(stream, every=1, clock=clock)
    with lines.stage(_counted(0, 100_000)) as tell:
        clock.now += 0.5
        tell(_counted(50_000, 100_000))
        assert "/s" not in _after(lines, stream, clock, 5)
        tell(_counted(50_006, 100_000))
        assert ", 9.1k/s, " in _after(lines, stream, clock, 5)


def test_a_rate_forgets_what_is_long_ago_and_what_is_left_counts_down() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = PlainLines(stream, every=1, clock=clock)
    with lines.stage(_counted(0, 1000)) as tell:
        # A slow beginning, such as kernels that were compiled.
        clock.now += 300
        tell(_counted(1, 1000))
        for done in range(2, 102):
            clock.now += 1
            tell(_counted(done, 1000))
        assert ", 1.0/s, 14 min 58 s left" in _after(lines, stream, clock, 1)
        assert ", 1.0/s, 14 min 48 s left" in _after(lines, stream, clock, 10)


def test_where_there_is_no_terminal_a_line_comes_every_half_minute() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = PlainLines(stream, clock=clock)
    with lines.stage(Stage("loading gpt2")):
        assert _after(lines, stream, clock, 20) == ""
    with lines.stage(_counted(0, 9), lambda: "7 model calls") as tell:
        assert _after(lines, stream, clock, 9) == ""
        tell(_counted(3, 9))
        assert _after(lines, stream, clock, 2) == (
            "sampling: 3 of 9 records, 20/min, 16 s left, 7 model calls, 11 s so far\n"
        )
        assert _after(lines, stream, clock, 29) == ""
        assert _after(lines, stream, clock, 1) != ""


def test_lines_come_also_while_nothing_is_told() -> None:
    stream = io.StringIO()
    with PlainLines(stream, every=0.02).stage(Stage("loading gpt2")):
        time.sleep(0.3)
    assert "loading gpt2: 0 s so far\n" in stream.getvalue()


def test_stages_that_were_asked_for_have_a_last_line_where_they_count() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream, ends=True)
    with lines.stage(Stage("loading gpt2")):
        pass
    with lines.stage(_counted(0, 9)) as tell:
        tell(_counted(9, 9))
        tell(Stage("sorting"))
    assert stream.getvalue() == "sampling: 9 of 9 records, 0 s so far\n"


def test_a_terminal_is_left_as_it_was() -> None:
    stream, clock = io.StringIO(), Clock()
    line = LiveLine(stream, clock=clock)
    stream.write("before\n")
    with line.stage(Stage("loading gpt2")):
        pass
    with line.stage(_counted(0, 9)) as tell:
        tell(_counted(3, 9))
        line.look()
        with line.aside():
            stream.write("said\n")
        line.look()
        with line.stage(Stage("compiling a grammar")):
            clock.now += 3
            line.look()
        line.look()
    shown = frames(stream.getvalue())
    assert "⠙ loading gpt2 · 0 s" in shown
    assert any("3 of 9 records" in one for one in shown)
    assert any("compiling a grammar · 3 s" in one for one in shown)
    assert screen(stream.getvalue()) == ["before", "said", ""]


def test_a_stage_of_another_name_takes_the_place_of_the_one_before() -> None:
    stream, clock = io.StringIO(), Clock()
    line = LiveLine(stream, clock=clock)
    with line.stage(Stage("tokenizing", 0, 9, "entities")) as tell:
        clock.now += 5
        tell(Stage("sorting"))
        clock.now += 2
        line.look()
    assert frames(stream.getvalue())[-1].endswith("sorting · 2 s")


def test_what_shows_nothing_takes_what_it_is_told() -> None:
    display = Display()
    with display.stage(Stage("loading")) as tell, display.aside():
        tell(Stage("loading", 1))
    display.leave()
