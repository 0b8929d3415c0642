"""What reaches the two streams: escapes, redaction, quiet, progress."""

from __future__ import annotations

import io

import pytest

from cdec.cli.frame.console import Console, escape
from cdec.cli.frame.redaction import REPLACEMENT, redact
from cdec.core.errors import CdecError, Notice


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
    with console.progress("records") as progress:
        progress.update("sampling", 1, None)
    console.error(CdecError("broken"))
    assert stream.getvalue() == "error E_INTERNAL: broken\n"


def test_progress_is_silent_where_stderr_is_no_terminal() -> None:
    stream = io.StringIO()
    with Console(stderr=stream).progress("lines") as progress:
        progress.update("reading", 5, 10)
    assert stream.getvalue() == ""


def test_forced_progress_is_plain_where_stderr_is_no_terminal() -> None:
    stream = io.StringIO()
    with Console(stderr=stream, progress=True).progress("lines") as progress:
        progress.update("reading", 5, 10)
    assert stream.getvalue().startswith("reading: 5 of 10 lines, ")
    assert "\x1b" not in stream.getvalue()


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
    with console.progress("lines") as progress:
        progress.update("reading", 5, 10)
        progress.update("[red]sorting", 5, None)
    assert console.is_fancy is fancy
    assert ("\x1b" in stream.getvalue()) is fancy


def test_a_stderr_that_fails_does_not_stop_the_run() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    Console(stderr=Broken()).note("lost")


def test_progress_can_be_switched_off_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Console(stderr=stream, progress=False).progress("lines") as progress:
        progress.update("reading", 5, 10)
    assert stream.getvalue() == ""
