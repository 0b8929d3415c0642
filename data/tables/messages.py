"""Measures the messages of an Arrow stream before pyarrow reads them: whole, and no bombs.

The layout is that of the Arrow columnar format, "Serialization and Interprocess Communication
(IPC)": a message is four bytes FF, the length of its metadata, the metadata (a flatbuffer, of which
the few fields needed here are read by their place in the schema Message.fbs), and a body of
``bodyLength`` bytes. A compressed buffer of a body begins with its length once it is decompressed,
and pyarrow allocates that much: what the lengths of a message add up to is all that it can cost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cdec.core.errors import DataError, LimitError
from cdec.data.input.decompress import GRACE_BYTES
from cdec.data.input.source import InputLimits

FILE_MAGIC = b"ARROW1\x00\x00"
STREAM_MAGIC = b"\xff\xff\xff\xff"
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_HEAD_BYTES = 8
_MAX_METADATA_BYTES = 256 << 20


def measured_messages(chunks: Iterator[bytes], name: str, limits: InputLimits) -> Iterator[bytes]:
    """Yield the bytes of an Arrow stream, or of an Arrow file up to its footer, message by message.

    Args:
        chunks: The input, of any chunk size, from its first byte on.
        name: For messages.
        limits: ``max_input_bytes`` applies to what the input expands to, and so does
            ``max_expansion`` once that is 16 MiB.

    Raises:
        DataError: The input ends within a message, or it is no such stream.
        LimitError: It expands to too much.
    """
    reader = _Bytes(chunks)
    is_file = reader.peek(len(FILE_MAGIC)) == FILE_MAGIC
    if is_file:
        reader.take(len(FILE_MAGIC))
    expanded = 0
    while True:
        head = reader.take(_HEAD_BYTES)
        if not head and not is_file:
            return  # a stream may end without saying so
        if len(head) < _HEAD_BYTES or not head.startswith(STREAM_MAGIC):
            raise torn(name) if len(head) < _HEAD_BYTES else damaged(name, "no message begins")
        (length,) = struct.unpack_from("<i", head, 4)
        if length == 0:
            break
        if not 0 < length <= _MAX_METADATA_BYTES:
            raise damaged(name, f"a message has {length} bytes of metadata")
        metadata = reader.take(length)
        if len(metadata) < length:
            raise torn(name)
        try:
            message = Message.of(metadata)
            body = reader.take(message.body_bytes)
            if len(body) < message.body_bytes:
                raise torn(name)
            expanded += length + message.expanded_bytes(body)
        except struct.error as error:
            raise damaged(name, "a message points outside itself") from error
        require_modest(expanded, reader.count, name, limits)
        yield head + metadata
        if body:
            yield body
    yield head
    if is_file and not reader.rest().endswith(FILE_MAGIC[:6]):
        raise torn(name)


class _Bytes:
    """Takes exact numbers of bytes from chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()
        self.count = 0

    def peek(self, size: int) -> bytes:
        while len(self._held) < size and (chunk := next(self._chunks, b"")):
            self._held += chunk
        return bytes(self._held[:size])

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        if size < 0:
            raise struct.error("a negative length")
        taken = self.peek(size)
        del self._held[: len(taken)]
        self.count += len(taken)
        return taken

    def rest(self) -> bytes:
        """Read to the end; return the last bytes."""
        for chunk in self._chunks:
            self._held += chunk
            del self._held[:-_HEAD_BYTES]
        return bytes(self._held)


@dataclass(frozen=True, slots=True)
class Message:
    """What the metadata of one message says of its body.

    Attributes:
        body_bytes: Length of the body.
        buffers: Offset and length of each compressed buffer in the body; none if not compressed.
    """

    body_bytes: int
    buffers: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, data: bytes) -> Message:
        """Read a flatbuffer of the schema Message.fbs.

        Raises:
            struct.error: It points outside itself.
        """
        (root,) = struct.unpack_from("<I", data)
        kind_at, header_at, length_at = (field_place(data, root, index) for index in (1, 2, 3))
        body_bytes = struct.unpack_from("<q", data, length_at)[0] if length_at else 0
        kind = struct.unpack_from("<B", data, kind_at)[0] if kind_at else 0
        if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or not header_at:
            return cls(body_bytes)
        batch = follow(data, header_at)
        if kind == _DICTIONARY_BATCH:
            batch_at = field_place(data, batch, 1)
            if not batch_at:
                return cls(body_bytes)
            batch = follow(data, batch_at)
        buffers_at, compression_at = field_place(data, batch, 2), field_place(data, batch, 3)
        if not compression_at or not buffers_at:
            return cls(body_bytes)
        vector = follow(data, buffers_at)
        (count,) = struct.unpack_from("<I", data, vector)
        if vector + 4 + 16 * count > len(data):
            raise struct.error("a vector is longer than its message")
        places = struct.iter_unpack("<qq", data[vector + 4 : vector + 4 + 16 * count])
        return cls(body_bytes, tuple(places))

    def expanded_bytes(self, body: bytes) -> int:
        """Return how many bytes the body becomes."""
        total = len(body)
        for offset, length in self.buffers:
            if length == 0:
                continue
            if offset < 0 or length < 8 or offset + length > len(body):
                raise struct.error("a buffer lies outside its body")
            (size,) = struct.unpack_from("<q", body, offset)
            total += max(size, 0)  # -1: this one is not compressed
        return total


def field_place(data: bytes, table: int, index: int) -> int:
    """Return where a table's field stands; 0 where it has its default."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if not 0 <= vtable <= len(data):
        raise struct.error("a table lies outside its message")
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * index >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * index)
    return table + int(offset) if offset else 0


def follow(data: bytes, at: int) -> int:
    """Return where a table or vector stands to which the field at ``at`` points."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def require_modest(expanded: int, count: int, name: str, limits: InputLimits) -> None:
    """Refuse an input of which ``count`` bytes expand to too many.

    Raises:
        LimitError: They do.
    """
    if expanded > limits.max_input_bytes:
        raise LimitError(
            f"{name} expands to more than {limits.max_input_bytes} bytes",
            hint="raise `max_input_bytes`, or split the input",
            limit=f"max_input_bytes {limits.max_input_bytes}",
        )
    if expanded > GRACE_BYTES and expanded > limits.max_expansion * count:
        raise LimitError(
            f"{name} expands to more than {limits.max_expansion} times its size",
            hint="if you trust it, write it again without compression",
            limit=f"max_expansion {limits.max_expansion}",
        )


def torn(name: str) -> DataError:
    """Return the error of an input that ends early."""
    return DataError(
        f"{name} is an Arrow file that ends early", hint="write it again, or fetch it again"
    )


def damaged(name: str, problem: str) -> DataError:
    """Return the error of an input that contradicts itself."""
    return DataError(
        f"{name} is a damaged Arrow file: {problem}", hint="write it again, or fetch it again"
    )
