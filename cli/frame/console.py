"""The two streams: notices, errors and progress on stderr, data on stdout.

Errors and notices of the library name a parameter in backquotes, as it is called in Python: "raise
`max_rules`, or split the grammar". Here, and nowhere else, it becomes "raise --max-rules, ...".
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TextIO

from cdec.cli.frame.declaration import SPELLINGS, flag_of
from cdec.cli.frame.progress import FINE_LINE_S, LINE_S, Display, LiveLine, Note, PlainLines
from cdec.core.errors import CdecError, Notice
from cdec.core.progress import Progress, Stage
from cdec.data.output.terminal import escape as escape
from cdec.integrations.records.faults import error_object

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY|AUTH(?!OR)", re.IGNORECASE
)
_SECRET_SHAPES = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    # User information of URLs, and of those that became a path, which has one slash.
    re.compile(r"(?<=:/)[^/\s?#]+(?=@)"),
    re.compile(r"(?<=://)[^/\s?#]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/-]{8,}=*"),
    re.compile(r"(?i)(?<=signature=)[^&\s]+"),
    re.compile(r"(?i)(?<=security-token=)[^&\s]+"),
)
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&\s]*(?:token|key|sig|secret|passw|credential|auth)[^=&\s]*=)[^&\s'\"]+",
    re.IGNORECASE,
)
_SHORTEST_SECRET = 4
REPLACEMENT = "[redacted]"


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return ``text`` without the values of secret-looking variables and secret-shaped words.

    Args:
        text: A message or a traceback.
        environment: Environment variables; None takes the process's. A variable is secret by its
            name (``HF_TOKEN``); values shorter than 4 characters are taken for switches.
    """
    for name, value in (os.environ if environment is None else environment).items():
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            text = text.replace(value, REPLACEMENT)
    for shape in _SECRET_SHAPES:
        text = shape.sub(REPLACEMENT, text)
    return _SECRET_PARAMETER.sub(rf"\1{REPLACEMENT}", text)


_PARAMETER = re.compile(r"""(?<!\w)(['"])(?:\\.|(?!\1).)*\1(?!\w)|`([A-Za-z_]+)`""", re.DOTALL)
"""What stands in quotes is somebody's text and stays, whatever is in it; else a word in
backquotes."""


def in_typed_words(text: str) -> str:
    """Return ``text`` with options for the parameters in backquotes; other words stay."""
    return _PARAMETER.sub(_typed, text)


def typed_error(error: CdecError) -> CdecError:
    """Let an error name options in its message and hint; the error itself is changed."""
    error.message = in_typed_words(error.message)
    error.args = (error.message,)
    error.hint = None if error.hint is None else in_typed_words(error.hint)
    return error


def typed_notice(notice: Notice) -> Notice:
    """Return a notice that names options."""
    return Notice(notice.code, in_typed_words(notice.message), notice.details)


def notice_objects(notices: Iterable[Notice]) -> list[dict[str, object]]:
    """Return notices as the JSON-ready objects of a summary."""
    typed = map(typed_notice, notices)
    return [{"code": note.code, "message": note.message, **note.details} for note in typed]


def record_error(error: CdecError, record_id: object) -> dict[str, object]:
    """Return the object that stands in a failed record's place in the output."""
    return error_object(typed_error(error), record_id)


def _typed(match: re.Match[str]) -> str:
    name = match[2]
    return flag_of(name) if name in _parameters() else match[0]


@cache
def _parameters() -> frozenset[str]:
    """Return the names of all parameters that some command has an option for."""
    from cdec.cli.frame.config import option_fields
    from cdec.cli.frame.registry import COMMANDS, options_class_of

    fields = (option_fields(options_class_of(command)).values() for command in COMMANDS)
    return frozenset(option.name for command in fields for option in command) | SPELLINGS.keys()


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
        """True where stderr may get colours and cursor movement."""
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
