"""Signals: SIGINT and SIGTERM end a run between two records; nothing else may live here."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType

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
