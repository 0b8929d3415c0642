"""The server process as its parent sees it: started, spoken to, ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

from cdec.compilers.grammars.child.protocol import Inbox, Message, pack, write_all
from cdec.core.errors import CdecError

_PIECE = 1 << 16
_SHOWN_STDERR = 2000
# subtle: the server finds modules where this process does, and never in the working directory,
# which `-c` and `-m` would put first.
_CODE = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; "
    "sys.path[:] = json.loads(sys.argv[1]); "
    "from cdec.compilers.grammars.child.server import main; main()"
)
_ENVIRONMENT = {
    # Each thread's arena would reserve address space that the memory limit counts.
    "MALLOC_ARENA_MAX": "2",
    # Threads of a library do not survive a fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class ServerFaultError(Exception):
    """What the server printed of a fault of its own: the cause of the error that is raised."""


class ServerProcess:
    """A running ``server``; it and its forks end with ``kill`` and with this process."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by kill
        self._inbox = Inbox()
        self._pending: list[Message] = []
        self._shown_from = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, json.dumps([p for p in sys.path if p])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | _ENVIRONMENT,
            # Its own session: Ctrl-C reaches this process alone, and one signal ends all of it.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the server and its fork, and wait until they are gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()
        self._stderr.close()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            CdecError: The server has ended.
        """
        stream = self._process.stdin
        try:
            if stream is not None:
                write_all(stream.fileno(), pack(message))
        except BrokenPipeError:
            raise broken("ended too soon") from self.printed()

    def receive(self, deadline: float | None = None) -> Message | None:
        """Return the next message; None once the deadline (``time.monotonic()``) has passed.

        Raises:
            CdecError: The server has ended.
        """
        stream = self._process.stdout
        while stream is not None and not self._pending:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([stream], [], [], wait)
            if not ready:
                return None
            data = os.read(stream.fileno(), _PIECE)
            if not data:
                raise broken("ended too soon") from self.printed()
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


def broken(what: str) -> CdecError:
    """Return the error for a server or a fork that failed by its own fault."""
    return CdecError(
        f"the process that compiles grammars {what}",
        hint="this is a fault of cdec: report the grammar and the traceback",
    )
