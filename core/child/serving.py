"""The child's side of a process that can be killed: its messages, its limits, its end with ours."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PIECE = 1 << 16
"""Bytes read from a pipe at a time."""
MAX_FRAME = 1 << 31
"""Bytes of one message; a longer one means that the stream is broken."""
_LOOK_EVERY_S = 5.0
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_SIZES = struct.Struct("<QQ")


class Message(NamedTuple):
    """One message: a JSON object and a byte string."""

    body: dict[str, Any]
    data: bytes = b""


def pack(message: Message) -> bytes:
    """Return a message as it travels: two lengths, JSON, bytes."""
    body = json.dumps(message.body, default=str).encode()
    return _SIZES.pack(len(body), len(message.data)) + body + message.data


def write(descriptor: int, message: Message) -> None:
    """Write a whole message to a pipe."""
    view = memoryview(pack(message))
    while view:
        view = view[os.write(descriptor, view) :]


class Inbox:
    """Puts messages together from the pieces that a pipe gives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes in and yield each message that is complete.

        Raises:
            ValueError: What came is no message.
        """
        self._buffer += data
        while len(self._buffer) >= _SIZES.size:
            body, extra = _SIZES.unpack_from(self._buffer)
            if body + extra > MAX_FRAME:
                raise ValueError(f"a message of {body + extra} bytes")
            end = _SIZES.size + body + extra
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_SIZES.size : _SIZES.size + body])
            rest = bytes(self._buffer[_SIZES.size + body : end])
            del self._buffer[:end]
            yield Message(json.loads(text), rest)


def claim_pipes() -> tuple[int, int]:
    """Return descriptors for requests and answers; what else would print goes to stderr."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    # The parent answers the terminal's Ctrl-C: it closes the pipe or kills this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return requests, answers


def messages(requests: int, parent: int) -> Iterator[Message]:
    """Yield what comes until the parent closes its end, or is gone.

    Args:
        requests: Descriptor to read.
        parent: Process id.
    """
    inbox = Inbox()
    while True:
        # subtle: a process that the parent forked off may hold the pipe open after its end.
        while not select.select([requests], [], [], _LOOK_EVERY_S)[0]:
            if os.getppid() != parent:
                return
        data = os.read(requests, PIECE)
        if not data:
            return
        yield from inbox.feed(data)


def limit_memory(megabytes: int) -> None:
    """Bound the memory above what the process has now, where the system says what that is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _return_memory()
    size = _address_space()
    if size:
        most = size + (megabytes << 20)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        # What the user's own limit leaves is not made more.
        bounds = [most, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))


def limit_time(seconds: int) -> None:
    """Bound the processor time of the process from its beginning.

    What the user's own limit leaves is not made more.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = seconds + 1 if hard == resource.RLIM_INFINITY else min(seconds + 1, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, most), most))


def end_with_parent() -> None:
    """Ask the system to end this process with the thread that made it, where it can be asked."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _return_memory() -> None:
    """Give freed memory back to the system, where it can be: the limit counts what is mapped."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _address_space() -> int:
    """Return the bytes of address space in use; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()
