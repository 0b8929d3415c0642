"""A server process as its parent sees it: started, spoken to, ended, asked once more."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from cdec.core.child.serving import PIECE, Inbox, Message, pack
from cdec.core.errors import CdecError, OutputError

_SHOWN_STDERR = 2000
# subtle: the server finds modules where this process does, and never in the working directory,
# which `-c` and `-m` would put first.
_CODE = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; "
    "sys.path[:] = json.loads(sys.argv[1]); "
    "from {module} import main; main(int(sys.argv[2]), *sys.argv[3:])"
)
_TRIES = 2
"""A server that ended without reason, such as by somebody's ``kill``, is asked once more."""
_FAULT = "this is a fault of cdec: report what it was given and the traceback"
_ENVIRONMENT = {
    # Each thread's arena would reserve address space that the memory limit counts.
    "MALLOC_ARENA_MAX": "2",
    # So would Arrow's own allocator, 1 GiB at its first use.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Threads of a library do not survive a fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


T = TypeVar("T")


class ServerFaultError(Exception):
    """A fault of the server's own, as it printed it: the cause of the error that is raised."""


class LostServerError(CdecError):
    """The server ended, and nobody knows why: somebody, or the system, may have killed it."""


@contextlib.contextmanager
def needing_system(task: str) -> Iterator[None]:
    """Turn an error of the system in the block into one with a code.

    Args:
        task: What is done there, for the message: ``compiling``.

    Raises:
        OutputError: There is no descriptor, process or folder of temporary files left.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{task} failed, as the system gave none of what it takes: {error.strerror or error}",
            hint="see that descriptors, processes and temporary files are to be had, and ask again",
        ) from error


class ServerProcess:
    """A running server; it and its forks end with ``kill`` and with this process.

    Args:
        module: Whose ``main`` is called with the id of this process and the words, and serves on
            stdin and stdout until stdin ends.
        task: What it does, for messages: ``compiles grammars``.
        words: Of the server.

    Raises:
        OSError: The system starts no process.
    """

    def __init__(self, module: str, task: str, *words: str) -> None:
        self._task = task
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by kill
        self._inbox = Inbox()
        self._pending: list[Message] = []
        self._shown_from = 0
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _CODE.format(module=module),
                json.dumps([p for p in sys.path if p]),
                str(os.getpid()),
                *words,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | _ENVIRONMENT,
            # Its own session: Ctrl-C reaches this process alone, and one signal ends all of it.
            start_new_session=True,
        )
        # A server that stands still takes nothing: no write may wait for it without end.
        os.set_blocking(self._writing, False)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True where it has not ended."""
        return self._process.poll() is None

    @property
    def _writing(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    @property
    def _reading(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def kill(self) -> int:
        """End the server and its fork, wait until they are gone, and return its exit status."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._close()
        return self._process.wait()

    def abandon(self) -> None:
        """Forget the server in a process that was forked off: it is another one's child."""
        self._close()
        # subtle: waiting for it is not this process's business, nor is a word about that.
        self._process.returncode = 0

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def send(self, message: Message, deadline: float | None = None) -> bool:
        """Send one message; False once the deadline (``time.monotonic()``) has passed.

        Raises:
            LostServerError: The server has ended.
            OSError: The system fails.
        """
        view = memoryview(pack(message))
        while view:
            try:
                view = view[os.write(self._writing, view) :]
            except BlockingIOError:
                if not _is_ready(self._writing, select.POLLOUT, deadline):
                    return False
            except BrokenPipeError:
                raise self._lost() from self.printed()
        return True

    def receive(self, deadline: float | None = None) -> Message | None:
        """Return the next message; None once the deadline (``time.monotonic()``) has passed.

        Raises:
            LostServerError: The server has ended.
            OSError: The system fails.
        """
        while not self._pending:
            if not _is_ready(self._reading, select.POLLIN, deadline):
                return None
            data = os.read(self._reading, PIECE)
            if not data:
                raise self._lost() from self.printed()
            self._pending += self._inbox.feed(data)
        return self._pending.pop(0)

    def printed(self) -> ServerFaultError | None:
        """Return the end of what the server wrote to its stderr."""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(self._shown_from, end - _SHOWN_STDERR))
        text = self._stderr.read().decode("utf-8", "replace")
        return ServerFaultError(text) if text else None

    def forget_printed(self) -> None:
        """Let ``printed`` return only what comes from now on."""
        self._shown_from = self._stderr.seek(0, os.SEEK_END)

    def broken(self, what: str) -> CdecError:
        """Return the error for a fork that failed by its own fault."""
        return CdecError(f"the process that {self._task} {what}", hint=_FAULT)

    def _lost(self) -> LostServerError:
        return LostServerError(f"the process that {self._task} ended too soon", hint=_FAULT)


class Worker(ABC):
    """Asks a server one thing at a time, and starts it where none runs.

    Calls from several threads wait for each other. The server ends with this process, however that
    ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: ServerProcess | None = None
        self._is_asked = False

    @property
    def pid(self) -> int | None:
        """The server's process id; None where none runs."""
        return None if self._server is None else self._server.pid

    @abstractmethod
    def _start(self, *words: str) -> ServerProcess:
        """Start the server; ``words`` are for one that is started now.

        Raises:
            OSError: The system gives no process.
        """

    @abstractmethod
    def _forget(self) -> None:
        """Forget what the server knew, which is gone."""

    def _running(self, *words: str) -> ServerProcess:
        """Return the server, started with ``words`` where none runs; it owes an answer from now."""
        if self._server is None or not self._server.is_running:
            self._stop()
            self._server = self._start(*words)
        self._is_asked = True
        return self._server

    def _exchange(self, ask: Callable[[], T]) -> T:
        """Return what asking gives; ``ask`` clears ``_is_asked`` once the server is done.

        Raises:
            LostServerError: It ended without reason, twice.
            OSError: The system fails.
        """
        for tries in range(1, _TRIES + 1):
            try:
                return ask()
            except LostServerError:
                if tries == _TRIES:
                    raise
            finally:
                # An interrupt among other things: no work outlives the wish for its result, and an
                # answer that comes late is never taken for that to the next question.
                if self._is_asked:
                    self._stop()
        raise AssertionError

    def _stop(self) -> int | None:
        """End the server, if there is one, and what it works on; return its exit status."""
        server, self._server = self._server, None
        self._is_asked = False
        self._forget()
        return None if server is None else server.kill()


def _is_ready(descriptor: int, events: int, deadline: float | None) -> bool:
    """Wait until a descriptor can be used, or has ended; say whether that was before the deadline.

    subtle: ``select.select`` takes no descriptor above 1,023, and a caller may hold many.
    """
    poll = select.poll()
    poll.register(descriptor, events)
    wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    return bool(poll.poll(wait))
