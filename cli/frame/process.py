"""The process of a run: limits of memory and files, standard streams, signals."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from cdec.core.errors import LimitError

if TYPE_CHECKING:
    pass


_ONE_THREAD_BYTES = 4 << 30
_LEAST_FILES = 16
"""Files open at once: of the model, the artifact, the output and a process beside this one."""


def address_space() -> int | None:
    """Return the bytes of address space that this process may take; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_room(least_mib: int) -> None:
    """Refuse to begin under limits that leave the libraries of a command too little.

    subtle: OpenBLAS takes some 30 MiB a thread while it is loaded, and where it gets none it tries
    again without end, as other libraries do that compile or start threads: no signal is answered
    then, and nothing can be caught afterwards. Under a limit it gets one thread.

    Args:
        least_mib: Address space that the command's libraries need, MiB (``ulimit -v``).
    """
    _require_files()
    limit = address_space()
    if limit is None or limit >= _ONE_THREAD_BYTES:
        return
    if limit < least_mib << 20:
        raise LimitError(
            f"the address space is limited to {limit >> 20} MiB, expected at least {least_mib}",
            hint="raise the limit: ulimit -v",
        )
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _require_files() -> None:
    """Refuse to begin where too few files can be opened."""
    opened: list[int] = []
    try:
        while len(opened) < _LEAST_FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise LimitError(
            f"{len(opened)} files can be opened, expected at least {_LEAST_FILES}: "
            f"{error.strerror}",
            hint="raise the limit: ulimit -n",
        ) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


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
        """Say whether it is stdin."""
        return self._number == 0

    def writable(self) -> bool:
        """Say whether it is stdout."""
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
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Closed):
        sys.stdout = _opened(2)
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


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


HANDLED = (signal.SIGINT, signal.SIGTERM)
BROKEN_PIPE_STATUS = 128 + signal.SIGPIPE
_AGAIN_S = 0.01
"""Seconds until an interruption that was dropped is raised again."""


class Interrupted(BaseException):
    """A signal asked the run to end; no ``Exception``, so that no record's handler swallows it.

    Args:
        signum: The signal's number; the exit status is 128 + signum.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_status = 128 + signum
        self.word = "interrupted" if signum == signal.SIGINT else "terminated"


class Signals:
    """Handlers for the time of one run, as a context manager.

    The first signal raises ``Interrupted`` at once, or at the end of a ``shield`` if one is open;
    the second ends the process where it stands, with the same status, even within native code
    (which handlers wait for). After a signal the process is on its way out, so the handlers stay
    until the interpreter itself is taken down.

    Attributes:
        before_exit: Called where the second signal ends the process; must wait for nothing.
    """

    def __init__(self) -> None:
        self.before_exit: Callable[[], None] = lambda: None
        self._received: int | None = None
        self._shields = 0
        self._is_over = False
        self._previous: dict[int, object] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Signals:
        # subtle: only the main thread may set handlers; elsewhere the caller's own stay.
        if threading.current_thread() is threading.main_thread():
            for signum in HANDLED:
                self._previous[signum] = signal.signal(signum, self._handle)
            self._stack.enter_context(self._watch())
            self._stack.enter_context(self._caught())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._received is None:
            self._stack.close()
            for signum, handler in self._previous.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]  # what signal() gave us
        elif self._previous:
            # subtle: the interpreter would give signals their default action back, which kills.
            atexit.register(_ignore)
        self._previous.clear()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._received is not None or self._is_over:
            self._exit(signum)
        self._received = signum
        if not self._shields:
            raise Interrupted(signum)

    def _exit(self, signum: int) -> None:
        self.before_exit()
        os._exit(128 + signum)

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """End the process at the second signal also while the main thread is in native code."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        # The number of every signal is written here as it arrives, whatever is being done.
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        def watch() -> None:
            count = 0
            while came := os.read(reading, 1):
                count += came[0] in HANDLED
                if count > 1:
                    self._exit(came[0])
            os.close(reading)

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(writing)

    @contextmanager
    def _caught(self) -> Iterator[None]:
        """Raise ``Interrupted`` again where the interpreter has dropped it.

        subtle: it does so where a handler raises within a finaliser or a callback of native code.
        """
        before = sys.unraisablehook

        def caught(dropped: sys.UnraisableHookArgs) -> None:
            if not isinstance(dropped.exc_value, Interrupted):
                before(dropped)
            elif not self._is_over:
                signal.signal(signal.SIGALRM, lambda *_: self.checkpoint())
                signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

        sys.unraisablehook = caught
        try:
            yield
        finally:
            sys.unraisablehook = before

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Let what is inside finish (the write of one record) before a signal takes effect."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self.checkpoint()

    def finish(self) -> None:
        """From here on, while the last message is printed, a signal ends the process at once."""
        self._is_over = True

    def checkpoint(self) -> None:
        """Raise ``Interrupted`` if a signal came while it could not be raised."""
        if self._received is not None and not self._shields and not self._is_over:
            raise Interrupted(self._received)


def _ignore() -> None:
    for signum in HANDLED:
        signal.signal(signum, signal.SIG_IGN)
