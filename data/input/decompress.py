"""Streams decompressed chunk by chunk, told by their first bytes; bombs are refused."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from cdec.core.errors import CdecError, DataError, LimitError


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


_PIECE_BYTES = 1 << 20
_ARROW_PIECE_BYTES = 64 << 10
_FEED_BYTES = 16 << 10  # so that a bomb is measured against what was read of it, not its whole size
GRACE_BYTES = 16 << 20
"""Size up to which an input may expand as it likes."""
_XZ_MEMORY_BYTES = 256 << 20  # xz -9 needs 65 MiB
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
"""What follows ``BZh`` and a digit, so that no text is taken for bzip2."""


class _Decompressor(Protocol):
    """One member of a compressed stream; input after its end is in ``unused_data``."""

    eof: bool
    unused_data: bytes

    def pieces(self, chunk: bytes) -> Iterator[bytes]: ...


class _Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self.eof = False
        self.unused_data = b""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        while chunk and not self._inflate.eof:
            yield self._inflate.decompress(chunk, _PIECE_BYTES)
            chunk = self._inflate.unconsumed_tail
        self.eof, self.unused_data = self._inflate.eof, self._inflate.unused_data


class _Buffering:
    """A decompressor of Python's that keeps input which it has not used yet: xz and bzip2."""

    def __init__(self, inflate: Any) -> None:
        self._inflate = inflate
        self.eof = False
        self.unused_data = b""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield self._inflate.decompress(chunk, _PIECE_BYTES)
        while not self._inflate.needs_input and not self._inflate.eof:
            yield self._inflate.decompress(b"", _PIECE_BYTES)
        self.eof = self._inflate.eof
        self.unused_data = self._inflate.unused_data if self.eof else b""


def _new_xz() -> _Decompressor:
    return _Buffering(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))


def _new_bzip2() -> _Decompressor:
    return _Buffering(bz2.BZ2Decompressor())


@dataclass(frozen=True)
class Compression:
    """A way of compressing files.

    Attributes:
        name: Of the program that tests such a file, too.
        suffix: Of such files' names.
        magics: What such files begin with, one of these.
        member: Begins a member of a stream; None where Python has no decompressor and pyarrow's is
            used, under ``name``.
    """

    name: str
    suffix: str
    magics: tuple[bytes, ...]
    member: Callable[[], _Decompressor] | None = None


GZIP = Compression("gzip", ".gz", (b"\x1f\x8b",), _Gzip)
XZ = Compression("xz", ".xz", (b"\xfd7zXZ\x00",), _new_xz)
BZIP2 = Compression(
    "bzip2",
    ".bz2",
    tuple(b"BZh%d" % level + block for level in range(1, 10) for block in _BZIP2_BLOCKS),
    _new_bzip2,
)
# subtle: files of pzstd begin with a frame to be skipped.
ZSTD = Compression("zstd", ".zst", (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"))
LZ4 = Compression("lz4", ".lz4", (b"\x04\x22\x4d\x18",))

COMPRESSIONS = (GZIP, XZ, ZSTD, BZIP2, LZ4)
MAGICS = tuple(magic for compression in COMPRESSIONS for magic in compression.magics)
SUFFIXES = tuple(compression.suffix for compression in COMPRESSIONS)


def compression_of(head: bytes) -> Compression | None:
    """Return the compression that the bytes begin with; None if plain."""
    return next((found for found in COMPRESSIONS if head.startswith(found.magics)), None)


def decompress(
    chunks: Iterator[bytes],
    compression: Compression,
    name: str,
    max_expansion: int,
    *,
    is_awaited: bool = False,
) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces of at most 1 MiB, never empty.

    Args:
        chunks: The compressed stream; concatenated members are read one after the other.
        compression: One of ``COMPRESSIONS``.
        name: For messages.
        max_expansion: Largest ratio of bytes out to bytes in, once 16 MiB are out.
        is_awaited: Whether the stream is written while it is read: then each line comes as soon as
            the bytes are there that it can be told from. Else some may wait for a piece to fill.

    Raises:
        LimitError: The ratio is passed: a decompression bomb.
        DataError: The stream is damaged or ends early.
    """
    kind = compression.name
    fed, bytes_out = _Fed(chunks), 0
    try:
        if compression.member is not None:
            pieces = _member_pieces(fed, compression.member)
        elif is_awaited:
            pieces = _arrow_lines(fed, kind)
        else:
            pieces = _arrow_pieces(fed, kind, _ARROW_PIECE_BYTES)
        for piece in pieces:
            bytes_out += len(piece)
            if bytes_out > GRACE_BYTES and bytes_out > max_expansion * fed.count:
                raise _bomb(name, kind, max_expansion)
            if piece:
                yield piece
    except EOFError as error:
        raise DataError(
            f"{name} is a {kind} file that ends early", hint=f"test it with {kind} -t"
        ) from error
    except CdecError:
        raise
    except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        raise DataError(
            f"{name} is a damaged {kind} file: {error}", hint=f"test it with {kind} -t"
        ) from error


class _Fed:
    """Chunks in small pieces, which are counted as they are taken."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            for start in range(0, len(chunk), _FEED_BYTES):
                part = chunk[start : start + _FEED_BYTES]
                self.count += len(part)
                yield part


def _member_pieces(fed: _Fed, begin: Callable[[], _Decompressor]) -> Iterator[bytes]:
    member = begin()
    for chunk in fed:
        while chunk:
            if member.eof:
                chunk = chunk.lstrip(b"\0")  # tape padding between members
                if not chunk:
                    break
                member = begin()
            yield from member.pieces(chunk)
            chunk = member.unused_data
    if not member.eof:
        raise EOFError


def _arrow_lines(fed: _Fed, kind: str) -> Iterator[bytes]:
    """Yield lines of what pyarrow decompresses, of a long one pieces.

    subtle: pyarrow's stream reads on until it has as many bytes as it was asked for, and cannot
    say how many it has. Asked for one byte it waits only where it has none: some 50,000 lines a
    second, about as many as are parsed in that time.
    """
    line = bytearray()
    for byte in _arrow_pieces(fed, kind, 1):
        line += byte
        if byte == b"\n" or len(line) == _ARROW_PIECE_BYTES:
            yield bytes(line)
            line.clear()
    yield bytes(line)


def _arrow_pieces(fed: _Fed, kind: str, size: int) -> Iterator[bytes]:
    import pyarrow as pa

    source = pa.PythonFile(ChunkFile(iter(fed)), mode="r")
    with pa.CompressedInputStream(source, kind) as stream:
        while True:
            try:
                piece: bytes = stream.read(size)
            except OSError as error:
                if "runcated" in str(error):
                    raise EOFError from error
                raise
            if not piece:
                return
            yield piece


def _bomb(name: str, kind: str, max_expansion: int) -> LimitError:
    return LimitError(
        f"{name} expands to more than {max_expansion} times its {kind} size",
        hint=f"if you trust it, decompress it yourself: {kind} -dc {name} | cdec ... -",
        limit=f"max_expansion {max_expansion}",
    )
