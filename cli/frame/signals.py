"""Signals: SIGINT and SIGTERM end a run between two records; nothing else may live here."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

HANDLED = (signal.SIGINT, signal.SIGTERM)
BROKEN_PIPE_STATUS = 128 + signal.SIGPIPE


class Interrupted(BaseException):
    """A signal asked the run to end; no ``Exception``, so that no record's handler swallows it.

    Args:
        signum: The signal's number; the exit status is 128 + signum.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_status = 128 + signum


class Signals:
    """Handlers for the time of one run, as a context manager.

    The first signal raises ``Interrupted`` at once, or at the end of a ``shield`` if one is open;
    the second ends the process where it stands, with the same status. After a signal the process
    is on its way out, so the handlers stay until the interpreter itself is taken down.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._shields = 0
        self._is_over = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Signals:
        # subtle: only the main thread may set handlers; elsewhere the caller's own stay.
        if threading.current_thread() is threading.main_thread():
            for signum in HANDLED:
                self._previous[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._received is None:
            for signum, handler in self._previous.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]  # what signal() gave us
        elif self._previous:
            # subtle: the interpreter would give signals their default action back, which kills.
            atexit.register(_ignore)
        self._previous.clear()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._received is not None or self._is_over:
            os._exit(128 + signum)
        self._received = signum
        if not self._shields:
            raise Interrupted(signum)

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
        """Raise ``Interrupted`` if a signal came while it could not be raised.

        subtle: an exception raised by the handler inside a callback from native code is dropped by
        the interpreter, so long loops ask again.
        """
        if self._received is not None and not self._shields:
            raise Interrupted(self._received)


def _ignore() -> None:
    for signum in HANDLED:
        signal.signal(signum, signal.SIG_IGN)
