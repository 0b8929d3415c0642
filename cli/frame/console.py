"""The two streams: notices, errors and progress on stderr, data on stdout."""

from __future__ import annotations

import io
import os
import sys
import traceback
import unicodedata
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from cdec.cli.frame.progress import FINE_LINE_S, LINE_S, Display, LiveLine, Note, PlainLines
from cdec.cli.frame.redaction import redact
from cdec.cli.frame.typed import typed_error, typed_notice
from cdec.core.errors import CdecError, Notice
from cdec.core.progress import Progress, Stage
from cdec.data.output.terminal import HIDDEN_CATEGORIES


def escape(text: str) -> str:
    r"""Return ``text`` with every control and format character as ``\xNN`` or ``\uNNNN``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN_CATEGORIES:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class Console:
    """The two streams of one run; ``NO_COLOR`` and ``TERM`` are looked at.

    Args:
        quiet: Print errors only: no notices, no progress, no summary lines on stderr.
        progress: False shows none; True asks for frequent lines where stderr is no terminal, None
            for one every half minute.
        debug: Show tracebacks.
        stdout: Where data goes.
        stderr: Where all else goes.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        progress: bool | None = None,
        debug: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.quiet = quiet
        self.debug = debug
        self.stdout = sys.stdout if stdout is None else stdout
        # subtle: the interpreter has no stderr where its descriptor is closed, and would print on
        # stdout what goes to None.
        self.stderr = stderr or sys.stderr or io.StringIO()
        self.display = self._display(progress)
        self._shares_terminal = self.is_fancy and self.stdout.isatty()
        self._warned: set[str] = set()

    @property
    def is_fancy(self) -> bool:
        """Whether stderr may get colours and cursor movement."""
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        return self.stderr.isatty() and not os.environ.get("NO_COLOR") and not dumb

    def data(self, text: str) -> None:
        """Write data to stdout, as it is, with a newline."""
        with self.printing():
            self.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Print one line of information on stderr; nothing when quiet."""
        if not self.quiet:
            self.tell(text)

    def tell(self, text: str) -> None:
        """Print one line of information on stderr, also when quiet."""
        self._print(escape(redact(text)))

    def warn(self, notices: Iterable[Notice]) -> None:
        """Print notices as ``warning CODE: message``, equal ones once; nothing when quiet."""
        for notice in map(typed_notice, notices):
            line = f"warning {notice.code}: {escape(redact(notice.message))}"
            if line not in self._warned and not self.quiet:
                self._print(line)
            self._warned.add(line)

    def error(self, error: CdecError) -> None:
        """Print an error as ``error CODE: message`` and, on a second line, its hint."""
        error = typed_error(error)
        self._print(f"error {error.code}: {escape(redact(error.message))}")
        if error.hint:
            self._print(f"hint: {escape(redact(error.hint))}")

    def traceback(self, error: BaseException) -> None:
        """Print how an error came about, if tracebacks are wanted."""
        if self.debug:
            if isinstance(error, CdecError):
                typed_error(error)
            written = redact("".join(traceback.format_exception(error)))
            self._print("\n".join(map(escape, written.rstrip("\n").split("\n"))))

    def stage(
        self, name: str, total: int | None = None, unit: str = "", note: Note | None = None
    ) -> AbstractContextManager[Progress]:
        """Show a stage of long work for the time of the context.

        Args:
            name: What is being done, such as ``loading gpt2``.
            total: Units there are; None where that is not known.
            unit: What is counted, in the plural; empty where nothing is.
            note: Returns what to say of it besides.

        Returns:
            A context that gives the ``Progress`` to tell.
        """
        return self.display.stage(Stage(escape(redact(name)), 0, total, unit), note)

    def printing(self) -> AbstractContextManager[None]:
        """Let nothing stand in the way of data that goes to a terminal in the context."""
        return self.display.aside() if self._shares_terminal else nullcontext()

    def _display(self, progress: bool | None) -> Display:
        if self.quiet or progress is False:
            return Display()
        if self.is_fancy:
            return LiveLine(self.stderr)
        every = FINE_LINE_S if progress else LINE_S
        return PlainLines(self.stderr, every=every, ends=progress is True)

    def _print(self, line: str) -> None:
        try:
            with self.display.aside():
                print(line, file=self.stderr, flush=True)
        except (OSError, ValueError):
            # subtle: stderr may be a closed pipe or a full device; data must go on all the same.
            return
