"""What parent and child say to each other: length-prefixed JSON with byte strings behind it."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

PIECE = 1 << 16
"""Bytes read from a pipe at a time."""
MAX_FRAME = 1 << 31
"""Bytes of one message; a longer one means that the stream is broken."""

_SIZES = struct.Struct("<QQ")


class Message(NamedTuple):
    """One message: a JSON object and a byte string."""

    body: dict[str, Any]
    data: bytes = b""


def pack(message: Message) -> bytes:
    """Return a message as it travels: two lengths, JSON, bytes."""
    body = json.dumps(message.body, default=str).encode()
    return _SIZES.pack(len(body), len(message.data)) + body + message.data


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a pipe."""
    view = memoryview(data)
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
