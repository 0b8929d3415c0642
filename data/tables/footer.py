"""Measures Arrow files that are no streams after their first bytes, by their footer.

Some writers (polars is one) leave the schema's message out, so that only the footer says where the
batches are: a flatbuffer of the schema File.fbs, followed by its length and the magic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from cdec.data.input.source import InputLimits
from cdec.data.tables.messages import (
    FILE_MAGIC,
    STREAM_MAGIC,
    Message,
    damaged,
    field_place,
    follow,
    require_modest,
    torn,
)

_END = FILE_MAGIC[:6]
_DICTIONARIES, _RECORD_BATCHES = 2, 3
_BLOCK = struct.Struct("<qi4xq")


def measure_file(stream: BinaryIO, name: str, limits: InputLimits) -> None:
    """See what reading an Arrow file may cost.

    Args:
        stream: Of the file; it can seek.
        name: For messages.
        limits: As of ``measured_messages``.

    Raises:
        DataError: The file ends early, or points outside itself.
        LimitError: It expands to too much.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 10))
    end = stream.read(10)
    if len(end) < 10 or not end.endswith(_END):
        raise torn(name)
    (length,) = struct.unpack_from("<i", end)
    try:
        if not 0 < length <= size - 18:
            raise struct.error("the footer is longer than the file")
        stream.seek(size - 10 - length)
        expanded = 0
        for offset, head_bytes, body_bytes in _blocks(stream.read(length)):
            if min(offset, head_bytes, body_bytes) < 0 or offset + head_bytes + body_bytes > size:
                raise struct.error("a batch lies outside the file")
            stream.seek(offset)
            head = stream.read(head_bytes)
            message = Message.of(head[8 if head.startswith(STREAM_MAGIC) else 4 :])
            expanded += body_bytes
            for start, bytes_there in message.buffers:
                if bytes_there == 0:
                    continue
                if start < 0 or bytes_there < 8 or start + bytes_there > body_bytes:
                    raise struct.error("a buffer lies outside its body")
                stream.seek(offset + head_bytes + start)
                expanded += max(0, int(struct.unpack("<q", stream.read(8))[0]))
            require_modest(expanded, size, name, limits)
    except struct.error as error:
        raise damaged(name, str(error)) from error


def _blocks(footer: bytes) -> Iterator[tuple[int, int, int]]:
    (root,) = struct.unpack_from("<I", footer)
    for index in (_DICTIONARIES, _RECORD_BATCHES):
        place = field_place(footer, root, index)
        if place:
            vector = follow(footer, place)
            (count,) = struct.unpack_from("<I", footer, vector)
            if vector + 4 + _BLOCK.size * count > len(footer):
                raise struct.error("a vector is longer than the footer")
            yield from _BLOCK.iter_unpack(footer[vector + 4 : vector + 4 + _BLOCK.size * count])
