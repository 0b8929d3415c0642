"""The three standard streams: UTF-8 whatever the locale, and there even where they were closed.

A stream that was closed (``>&-``) leaves its number to the next file that is opened, into which
libraries would then print. So it is opened on the null device before anything else: what goes to
stderr is dropped; reading stdin, or writing data to stdout, is an error that says so.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


class _Closed(io.RawIOBase):
    """A stream that was closed before the start: every use of it fails.

    Args:
        number: Of the stream.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        """Return its number, which is open on the null device."""
        return self._number

    def readable(self) -> bool:
        """Whether it is stdin."""
        return self._number == 0

    def writable(self) -> bool:
        """Whether it is stdout."""
        return self._number == 1

    def readinto(self, buffer: object) -> int:
        """Fail."""
        raise self._error()

    def write(self, data: object) -> int:
        """Fail."""
        raise self._error()

    def _error(self) -> OSError:
        return OSError(errno.EBADF, f"{_NAMES[self._number]} is closed")


def open_closed_streams() -> None:
    """Open the streams that were closed before the start."""
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            _occupy(number)
            setattr(sys, name, _opened(number))


def use_utf8() -> None:
    """Make our own streams UTF-8, whatever the locale says."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def drop_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail aloud."""
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(_raw(sys.stdout), _Closed):
        sys.stdout = _opened(2)
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _raw(stream: io.TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", None)


def _occupy(number: int) -> None:
    """Open the null device under a number that is free: the lowest, as those below are taken."""
    try:
        os.fstat(number)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)
        os.set_inheritable(number, True)


def _opened(number: int) -> io.TextIOWrapper:
    if number == 0:
        return io.TextIOWrapper(io.BufferedReader(_Closed(0)), encoding="utf-8")
    if number == 1:
        return io.TextIOWrapper(io.BufferedWriter(_Closed(1)), encoding="utf-8")
    nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb", buffering=0)
    return io.TextIOWrapper(nowhere, encoding="utf-8", write_through=True)
