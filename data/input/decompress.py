"""Decompresses gzip and xz streams chunk by chunk, and refuses decompression bombs."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from typing import Protocol

from cdec.core.errors import DataError, LimitError

GZIP = b"\x1f\x8b"
XZ = b"\xfd7zXZ\x00"
COMPRESSIONS = (GZIP, XZ)

_NAMES = {GZIP: "gzip", XZ: "xz"}
_PIECE_BYTES = 1 << 20
_FEED_BYTES = 16 << 10  # so that a bomb is measured against what was read of it, not its whole size
_GRACE_BYTES = 16 << 20  # small files may expand as they like
_XZ_MEMORY_BYTES = 256 << 20  # xz -9 needs 65 MiB


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


class _Xz:
    def __init__(self) -> None:
        self._inflate = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
        self.eof = False
        self.unused_data = b""

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        yield self._inflate.decompress(chunk, _PIECE_BYTES)
        while not self._inflate.needs_input and not self._inflate.eof:
            yield self._inflate.decompress(b"", _PIECE_BYTES)
        self.eof = self._inflate.eof
        self.unused_data = self._inflate.unused_data if self.eof else b""


def compression_of(head: bytes) -> bytes | None:
    """Return the magic number the bytes begin with, one of ``COMPRESSIONS``; None if plain."""
    return next((magic for magic in COMPRESSIONS if head.startswith(magic)), None)


def decompress(
    chunks: Iterator[bytes], compression: bytes, name: str, max_expansion: int
) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces of at most 1 MiB, never empty.

    Args:
        chunks: The compressed stream; concatenated members are read one after the other.
        compression: ``GZIP`` or ``XZ``.
        name: For messages.
        max_expansion: Largest ratio of bytes out to bytes in, once 16 MiB are out.

    Raises:
        LimitError: The ratio is passed: a decompression bomb.
        DataError: The stream is damaged or ends early.
    """
    kind = _NAMES[compression]
    bytes_in = bytes_out = 0
    member = _new_member(compression)
    try:
        for chunk in _in_pieces(chunks, _FEED_BYTES):
            bytes_in += len(chunk)
            while chunk:
                if member.eof:
                    chunk = chunk.lstrip(b"\0")  # tape padding between members
                    if not chunk:
                        break
                    member = _new_member(compression)
                for piece in member.pieces(chunk):
                    bytes_out += len(piece)
                    if bytes_out > _GRACE_BYTES and bytes_out > max_expansion * bytes_in:
                        raise _bomb(name, kind, max_expansion)
                    if piece:
                        yield piece
                chunk = member.unused_data
    except (zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"{name} is a damaged {kind} file: {error}", hint=f"test it with {kind} -t"
        ) from error
    if not member.eof:
        raise DataError(f"{name} is a {kind} file that ends early", hint=f"test it with {kind} -t")


def _in_pieces(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def _new_member(compression: bytes) -> _Decompressor:
    return _Gzip() if compression == GZIP else _Xz()


def _bomb(name: str, kind: str, max_expansion: int) -> LimitError:
    return LimitError(
        f"{name} expands to more than {max_expansion} times its {kind} size",
        hint=f"if you trust it, decompress it yourself: {kind} -dc {name} | cdec ... -",
        limit=f"max_expansion {max_expansion}",
    )
