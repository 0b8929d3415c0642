"""Chunks of bytes as the file object that other libraries read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class ChunkFile(io.RawIOBase):
    """An iterator of chunks as a file; a read gives what is left of one chunk at most.

    Args:
        chunks: None of them empty.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._unread = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the beginning of ``buffer``; return how many bytes, 0 at the end."""
        if not self._unread:
            self._unread = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._unread))
        buffer[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count
