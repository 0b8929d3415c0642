"""What reaches the two streams: escapes, redaction, quiet, progress."""

from __future__ import annotations

import io

import pytest

from cdec.cli.frame.console import REPLACEMENT, Console, escape, redact
from cdec.cli.frame.progress import LiveLine, PlainLines
from cdec.core.errors import CdecError, Notice
from cdec.core.progress import Stage
from tests.cli.screen import screen


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
