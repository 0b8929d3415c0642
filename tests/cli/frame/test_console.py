"""The console: notices, progress, streams."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdec.cli.frame.console import REPLACEMENT, Console, escape, redact
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
from cdec.core.errors import CdecError, Notice
from cdec.core.progress import Stage
from tests.cli import light
from tests.cli.screen import frames, screen

# --- What reaches the two streams: escapes, redaction, quiet, progress.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\u202eabc", "\\u202eabc"),
        ("[red]x[/foo]", "[red]x[/foo]"),
        ("naïve 東京 😀", "naïve 東京 😀"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_escape_shows_controls_and_keeps_text(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_secrets_are_redacted_by_name_and_by_shape() -> None:
    environment = {
        "HF_TOKEN": "hf_x",
        "PATH": "/usr/bin",
        "MY_API_KEY": "1234-secret",
        "N_TOKEN": "1",
    }
    text = redact("hf_x 1234-secret /usr/bin 1 hf_abcdefghijklm https://me:pw@host/x", environment)
    assert (
        text == f"{REPLACEMENT} {REPLACEMENT} /usr/bin 1 {REPLACEMENT} https://{REPLACEMENT}@host/x"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:p:w@h/t.txt", "http://{}@h/t.txt"),
        ("s3://ghp_alone@h/t", "s3://{}@h/t"),
        ("no such file: http:/user:p:w@h/t.txt", "no such file: http:/{}@h/t.txt"),
        ("h/t?sig=a%2Bb&v=1", "h/t?sig={}&v=1"),
        ("h/t?v=1&api_key=x&X-Amz-Signature=y", "h/t?v=1&api_key={}&X-Amz-Signature={}"),
        ("h/t?token=abc' of", "h/t?token={}' of"),
        ("h/t?monkey=bars", "h/t?monkey={}"),
        ("key=1 of a grammar, a?b=1", "key=1 of a grammar, a?b=1"),
    ],
)
def test_what_lets_the_bearer_of_a_url_in_is_redacted(text: str, shown: str) -> None:
    assert redact(text, {}) == shown.format(*[REPLACEMENT] * 2)


def test_errors_have_a_code_and_a_hint_on_two_lines() -> None:
    stream = io.StringIO()
    Console(stderr=stream).error(CdecError("it broke\n\x1b[1m", hint="mend it"))
    assert stream.getvalue() == "error E_INTERNAL: it broke\\x0a\\x1b[1m\nhint: mend it\n"


def test_equal_notices_appear_once() -> None:
    stream = io.StringIO()
    console = Console(stderr=stream)
    console.warn([Notice("W_X", "again"), Notice("W_X", "again"), Notice("W_Y", "other")])
    console.warn([Notice("W_X", "again")])
    assert stream.getvalue() == "warning W_X: again\nwarning W_Y: other\n"


def test_quiet_keeps_errors_only() -> None:
    stream = io.StringIO()
    console = Console(quiet=True, progress=True, stderr=stream)
    console.note("hello")
    console.warn([Notice("W_X", "x")])
    with console.stage("sampling", 9, "records") as tell:
        tell(Stage("sampling", 1, 9, "records"))
    console.error(CdecError("broken"))
    assert stream.getvalue() == "error E_INTERNAL: broken\n"


def test_a_short_run_says_nothing_where_stderr_is_no_terminal() -> None:
    stream = io.StringIO()
    with Console(stderr=stream).stage("reading", 10, "lines") as tell:
        tell(Stage("reading", 5, 10, "lines"))
    assert stream.getvalue() == ""


def test_progress_that_is_asked_for_is_plain_where_stderr_is_no_terminal() -> None:
    stream = io.StringIO()
    with Console(stderr=stream, progress=True).stage("reading", 10, "lines") as tell:
        tell(Stage("reading", 5, 10, "lines"))
    assert stream.getvalue() == "reading: 5 of 10 lines, 0 s so far\n"


@pytest.mark.parametrize(
    ("environment", "fancy"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_only_an_able_terminal_gets_control_codes(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], fancy: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    console = Console(stderr=stream)
    with console.stage("[red]reading\x1b[1m\n"):
        console.note("said meanwhile")
    assert console.is_fancy is fancy
    assert ("\x1b" in stream.getvalue()) is fancy
    assert "\x1b[1m" not in stream.getvalue()


def test_what_is_said_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    console = Console(stderr=terminal, stdout=terminal)
    with console.stage("reading"):
        console.note("said meanwhile")
        console.data("data")
    assert screen(terminal.getvalue()) == ["said meanwhile", "data", ""]


def test_a_stderr_that_fails_or_is_closed_does_not_stop_the_run() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    for stream in (Broken(), closed):
        console = Console(stderr=io.StringIO())
        console.stderr = stream
        console.note("lost")
        console.display = PlainLines(stream, ends=True)
        with console.stage("reading", 10, "lines"):
            pass
        console.display = LiveLine(stream)
        with console.stage("reading"):
            pass


def test_where_there_is_no_stderr_nothing_goes_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    Console().note("lost")
    assert capsys.readouterr().out == ""


def test_progress_can_be_switched_off_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Console(stderr=stream, progress=False).stage("reading"):
        pass
    assert stream.getvalue() == ""


# --- Progress: frames that fit, rates that were measured, lines at their times.


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


# --- Standard streams that were closed before the start: an error that says so, or nothing at
# all.

SCRIPT = [sys.executable, str(Path(light.__file__)), "0"]
CLOSED = {0: "<&-", 1: ">&-", 2: "2>&-"}
ALL = [closed for count in (1, 2, 3) for closed in itertools.combinations(CLOSED, count)]


def run(folder: Path, closed: tuple[int, ...], *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with some streams closed, the others captured; stdin is one record."""
    command = " ".join(['exec "$@"', *(CLOSED[number] for number in closed)])
    return subprocess.run(
        ["sh", "-c", command, "sh", *SCRIPT, *words],
        cwd=folder,
        input=b'{"id": 1, "prompt": "p"}\n{"id": 2, "prompt": 5}\n',
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams")
    light.compile_letters(path / "letters.arrow")
    return path


@pytest.mark.share(1)
@pytest.mark.parametrize("closed", ALL)
def test_data_that_nobody_takes_is_an_error(folder: Path, closed: tuple[int, ...]) -> None:
    done = run(folder, closed, "methods", "--json")
    if 1 in closed:
        assert (done.returncode, done.stdout) == (74, b"")
        if 2 not in closed:
            assert b"stdout is closed" in done.stderr
            assert b"Traceback" not in done.stderr
    else:
        assert done.returncode == 0
        assert done.stdout.startswith(b"{")
    assert done.stderr == b"" or 1 in closed


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        ((0,), 66, b"stdin is closed"),
        ((1,), 74, b"stdout is closed"),
        ((2,), 3, b""),
        ((0, 1, 2), 66, b""),
    ],
)
def test_a_run_says_which_stream_is_closed(
    folder: Path, closed: tuple[int, ...], status: int, said: bytes
) -> None:
    done = run(folder, closed, "sample", "-a", "letters.arrow")
    assert done.returncode == status
    assert said in done.stderr
    lines = [] if 1 in closed or 0 in closed else [b'"text"', b'"E_FIELD"']
    assert len(done.stdout.splitlines()) == len(lines)
    assert all(part in done.stdout for part in lines)


def test_no_stream_lands_in_an_output_that_took_its_number(folder: Path) -> None:
    words = ["sample", "-a", "letters.arrow", "--prompt", "p", "-o", "out.jsonl", "--force"]
    assert run(folder, (0, 1, 2), *words).returncode == 0
    assert (folder / "out.jsonl").read_bytes().count(b"\n") == 1
    assert (folder / "out.jsonl").read_bytes().startswith(b"{")


@pytest.mark.share(1)
@pytest.mark.parametrize("words", [("methods", "--nonsense"), (), ("inspect", "none.arrow")])
def test_errors_do_not_reach_stdout_where_stderr_is_closed(
    folder: Path, words: tuple[str, ...]
) -> None:
    done = run(folder, (2,), *words)
    assert done.returncode in (2, 66)
    assert done.stdout == b""
