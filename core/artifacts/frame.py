"""The frame of an Arrow IPC file, read before Arrow builds anything from it.

Only what must be known *before* pyarrow sees the file lives here: magic, sizes, schema metadata,
extension types, the number of batches and whether their buffers are compressed. pyarrow runs a
registered extension type's own code, and decompresses, while it opens a file; so both are found
here, in the few flatbuffer tables of footer and message headers (Arrow columnar format, "IPC File
Format"). Every read is bound-checked; damage is an ``ArtifactFormatError``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cdec.core.errors import ArtifactChecksumError, ArtifactFormatError, LimitError

MAGIC = b"ARROW1"
HEAD_BYTES = 8
TAIL_BYTES = 4 + len(MAGIC)
MAX_METADATA_BYTES = 64 << 20
"""Largest footer or message header that is read, bytes."""
MAX_FIELDS = 10_000
CONTINUATION = 0xFFFFFFFF
RECORD_BATCH = 3
"""``MessageHeader.RecordBatch`` of Arrow's Message.fbs."""

_REBUILD = "compile the artifact again, or copy it again from where it came"


@dataclass(frozen=True, slots=True)
class Frame:
    """Metadata of an Arrow IPC file.

    Attributes:
        metadata: The schema's custom metadata.
        columns: Names of the top-level fields.
        extension: Name of the first field of an extension type, None where there is none.
        batches: Number of record batches.
        dictionaries: Number of dictionary batches.
        is_compressed: Whether a batch has compressed buffers.
        regions: Byte ranges [start, stop) of the schema message and of the footer, the two places
            where the schema metadata stands.
    """

    metadata: dict[str, str]
    columns: tuple[str, ...]
    extension: str | None
    batches: int
    dictionaries: int
    is_compressed: bool
    regions: tuple[tuple[int, int], tuple[int, int]]


class _Tables:
    """Bound-checked reads of the tables of one flatbuffer."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, kind: str, at: int) -> int:
        """Read one little-endian number; negative positions are damage, not Python's indexing."""
        if at < 0:
            raise ValueError("negative position")
        value: int = struct.unpack_from("<" + kind, self.data, at)[0]
        return value

    def follow(self, at: int) -> int:
        """Return the position that the offset at ``at`` points to."""
        return at + self.number("I", at)

    def field(self, table: int, index: int) -> int:
        """Return the position of a table's field, 0 where it is left out."""
        vtable = table - self.number("i", table)
        slot = 4 + 2 * index
        if slot + 2 > self.number("H", vtable):
            return 0
        offset = self.number("H", vtable + slot)
        return table + offset if offset else 0

    def vector(self, table: int, index: int, width: int) -> Iterator[int]:
        """Yield the positions of a vector field's elements of ``width`` bytes."""
        at = self.field(table, index)
        if not at:
            return
        start = self.follow(at)
        count = self.number("I", start)
        if count > MAX_FIELDS or start + 4 + count * width > len(self.data):
            raise ValueError("vector runs past its buffer")
        yield from range(start + 4, start + 4 + count * width, width)

    def text(self, table: int, index: int) -> str:
        """Return a string field, empty where it is left out."""
        at = self.field(table, index)
        if not at:
            return ""
        start = self.follow(at)
        stop = start + 4 + self.number("I", start)
        if stop > len(self.data):
            raise ValueError("string runs past its buffer")
        return self.data[start + 4 : stop].decode()

    def pairs(self, table: int, index: int) -> dict[str, str]:
        """Return a field of key-value tables as a dict."""
        tables = [self.follow(at) for at in self.vector(table, index, 4)]
        return {self.text(pair, 0): self.text(pair, 1) for pair in tables}


def read_frame(data: memoryview, path: str) -> Frame:
    """Read the frame of an Arrow IPC file.

    Args:
        data: The whole file, uint8.
        path: Its name, for errors.

    Returns:
        The frame. Cost: independent of the size of the body.

    Raises:
        ArtifactFormatError: No Arrow IPC file, or one cut before its body's end.
        ArtifactChecksumError: The body is whole, what follows it is damaged or cut.
        LimitError: Footer or message headers larger than ``MAX_METADATA_BYTES``.
    """
    if len(data) < HEAD_BYTES + TAIL_BYTES or bytes(data[: len(MAGIC)]) != MAGIC:
        raise ArtifactFormatError(
            f"{path}: not an artifact: {len(data)} bytes that do not begin with {MAGIC!r}",
            hint="give a file written by cdec compile-set or cdec compile-grammar",
            path=path,
        )
    try:
        if bytes(data[-len(MAGIC) :]) != MAGIC:
            _refuse_damaged_tail(data, path)
        return _read_footer(data, path)
    except (struct.error, ValueError, RecursionError) as error:
        raise ArtifactFormatError(
            f"{path}: damaged Arrow file: {error}", hint=_REBUILD, path=path
        ) from None


def _slice(data: memoryview, start: int, size: int, path: str) -> bytes:
    """Copy a metadata region, refusing what lies outside the file or is absurdly large."""
    if size < 0 or start < 0 or start + size > len(data):
        raise ValueError("a region lies outside the file")
    if size > MAX_METADATA_BYTES:
        raise LimitError(
            f"{path}: {size} bytes of metadata, more than {MAX_METADATA_BYTES}",
            hint=_REBUILD,
            path=path,
            limit="max_metadata_bytes",
        )
    return bytes(data[start : start + size])


def _message(data: memoryview, at: int, path: str) -> tuple[int, bytes]:
    """Return start and bytes of a message's flatbuffer; no bytes at the end of the stream."""
    continuation, size = struct.unpack_from("<Ii", data, at)
    if continuation != CONTINUATION:
        raise ValueError("no message where one should begin")
    return at + 8, _slice(data, at + 8, size, path)


def _refuse_damaged_tail(data: memoryview, path: str) -> None:
    """Tell a file whose footer is damaged (a checksum matter) from one that was never finished."""
    at = HEAD_BYTES
    while at + 8 <= len(data):
        start, header = _message(data, at, path)
        if not header:
            raise ArtifactChecksumError(
                f"{path}: the end of the file is damaged or cut", hint=_REBUILD, path=path
            )
        tables = _Tables(header)
        body = tables.field(tables.follow(0), 3)
        at = start + len(header) + (tables.number("q", body) if body else 0)
        if at < start:
            break
    raise ValueError("it ends before its footer, as if still being written")


def _read_footer(data: memoryview, path: str) -> Frame:
    """Read the footer, the schema in it and the headers of the batches it lists."""
    size = struct.unpack_from("<i", data, len(data) - TAIL_BYTES)[0]
    footer_at = len(data) - TAIL_BYTES - size
    tables = _Tables(_slice(data, footer_at, size, path))
    footer = tables.follow(0)
    schema_at = tables.field(footer, 1)
    if not schema_at:
        raise ValueError("a footer without schema")
    schema = tables.follow(schema_at)
    fields = [tables.follow(at) for at in tables.vector(schema, 1, 4)]
    blocks = list(tables.vector(footer, 3, 24))
    compressed = [_is_compressed(data, tables, block, path) for block in blocks]
    head_at, head = _message(data, HEAD_BYTES, path)
    return Frame(
        metadata=tables.pairs(schema, 2),
        columns=tuple(tables.text(at, 0) for at in fields),
        extension=next((name for at in fields if (name := _extension(tables, at))), None),
        batches=len(blocks),
        dictionaries=len(list(tables.vector(footer, 2, 24))),
        is_compressed=any(compressed),
        regions=((head_at, head_at + len(head)), (footer_at, footer_at + size)),
    )


def _extension(tables: _Tables, field: int, depth: int = 0) -> str:
    """Return the name of a field (or of a child of it) with an extension type, else ``""``."""
    if depth > 16:
        raise ValueError("types nested more than 16 deep")
    if any(key.startswith("ARROW:extension:") for key in tables.pairs(field, 6)):
        return tables.text(field, 0) or "(unnamed)"
    children = (tables.follow(at) for at in tables.vector(field, 5, 4))
    return next((name for at in children if (name := _extension(tables, at, depth + 1))), "")


def _is_compressed(data: memoryview, footer: _Tables, block: int, path: str) -> bool:
    """Say whether the record batch that a footer's block names has compressed buffers."""
    at, header_size = footer.number("q", block), footer.number("i", block + 8)
    body_size = footer.number("q", block + 16)
    if at < 0 or header_size < 8 or body_size < 0 or at + header_size + body_size > len(data):
        raise ValueError("a batch lies outside the file")
    tables = _Tables(_message(data, at, path)[1])
    message = tables.follow(0)
    kind, header = tables.field(message, 1), tables.field(message, 2)
    if not kind or not header or tables.number("B", kind) != RECORD_BATCH:
        raise ValueError("a batch that is no record batch")
    return tables.field(tables.follow(header), 3) != 0
