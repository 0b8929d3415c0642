"""Opens an input (path, URL, stdin, stream) and yields its bytes, decompressed and limited."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

from cdec.core.errors import EncodingError, InputMissingError, LimitError, Notice
from cdec.core.files.remote import is_url, open_url, public_name, unreadable
from cdec.core.options import check_limits, limit
from cdec.data.input.decompress import MAGICS, compression_of, decompress

CHUNK_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_WIDE_SAMPLE = 64

Source = str | Path | BinaryIO
"""A path, ``"-"`` for stdin, a URL (text, not a path), or an open binary stream."""


@dataclass(frozen=True, slots=True)
class InputLimits:
    """Limits beyond which an input is refused; the newline of a line does not count.

    Raises:
        UsageError: One is out of bounds.
    """

    max_line_bytes: int = limit(1 << 20, "Longest input line, bytes.", unit="bytes")
    max_input_bytes: int = limit(
        64 << 30, "Longest input after decompression, bytes.", unit="bytes", python_only=True
    )
    max_expansion: int = limit(
        200, "Largest ratio of decompressed to compressed bytes, after 16 MiB.", python_only=True
    )

    def __post_init__(self) -> None:
        check_limits(self)


ENTITY_LIMITS = InputLimits()
PROMPT_LIMITS = InputLimits(max_line_bytes=16 << 20)


@dataclass(slots=True)
class SourceStats:
    """Counts of a reader so far; the caller may look at any time.

    Attributes:
        lines: Lines (rows of a table) read, blank and skipped ones included.
        blank: Blank lines among them.
        skipped: Bad lines left out (``bad_lines="skip"``).
        bytes_read: Bytes taken from the file itself, so compressed where it is compressed.
        notices: Warnings; those about the whole input are added when it ends.
        digest: Takes the bytes of the file itself as they are read; None takes none.
    """

    lines: int = 0
    blank: int = 0
    skipped: int = 0
    bytes_read: int = 0
    notices: list[Notice] = field(default_factory=list)
    digest: Any = None

    def notice_once(self, code: str, message: str, **details: object) -> None:
        """Add a notice unless one with this code is there."""
        if all(notice.code != code for notice in self.notices):
            self.notices.append(Notice(code, message, details))


def source_name(source: Source) -> str:
    """Return how error messages name the source: of a URL nothing that lets its bearer in."""
    if isinstance(source, str | Path):
        return "stdin" if str(source) == "-" else public_name(str(source))
    return str(getattr(source, "name", "stream"))


@contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """Open a path, a URL or stdin for reading bytes; a stream is passed through and left open.

    Raises:
        InputMissingError: Nothing there, a directory, or no permission.
        ExtraMissingError: A URL whose package is not installed.
    """
    if not isinstance(source, str | Path):
        yield source
    elif str(source) == "-":
        buffered = sys.stdin.buffer
        # subtle: unbuffered, as files are. A thread that waits in the buffer holds its lock, at
        # which the interpreter would give up when it takes standard input down.
        yield cast(BinaryIO, buffered.raw) if isinstance(buffered, BufferedReader) else buffered
    elif is_url(source):
        with open_url(str(source)) as stream:
            yield stream
    else:
        with _open_path(Path(source)) as stream:
            yield stream


def _open_path(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise InputMissingError(
            f"no such file: {path}", hint="check the name, or give - for stdin", path=str(path)
        ) from error
    except IsADirectoryError as error:
        raise InputMissingError(
            f"{path} is a directory, a file was expected", hint="name one file", path=str(path)
        ) from error
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the name.
        raise InputMissingError(
            f"cannot read {path}: {error}", hint="check its permissions", path=str(path)
        ) from error


def read_chunks(
    stream: BinaryIO, name: str, *, limits: InputLimits, stats: SourceStats
) -> Iterator[bytes]:
    """Yield the source's plain bytes as they arrive: decompressed and limited.

    Compressions are recognised by content. A pipe's bytes are passed on at once, so a producer that
    waits for results is not kept waiting: whole lines of zstd and lz4, every byte of all else.
    Memory: a few chunks of 1 MiB.

    Args:
        stream: What ``open_source`` gave.
        name: For messages.
        limits: ``max_input_bytes`` and ``max_expansion`` apply.
        stats: ``bytes_read`` is kept up to date.

    Raises:
        EncodingError: The text looks like UTF-16 or UTF-32.
        LimitError: Too many bytes, or a compressed file that expands absurdly.
        DataError: A damaged compressed stream.
        InputMissingError: Reading failed.
    """
    head, chunks = _with_head(_file_chunks(stream, name, stats), MAGICS)
    compression = compression_of(head)
    if compression is not None:
        chunks = decompress(
            chunks, compression, name, limits.max_expansion, is_awaited=_is_awaited(stream)
        )
        head, chunks = _with_head(chunks, ())
    total = 0
    for position, chunk in enumerate(chunks):
        if position == 0:
            _refuse_wide(chunk, name)
        total += len(chunk)
        _require_length(total, name, limits)
        yield chunk


def hash_whole(source: Source, *, limits: InputLimits, stats: SourceStats) -> None:
    """Read a source to its end for ``stats.digest`` and ``stats.bytes_read`` alone.

    Args:
        source: Path, ``"-"`` for stdin, or a binary stream.
        limits: ``max_input_bytes`` applies to the file as it is, not to what it expands to.
        stats: With a digest.

    Raises:
        InputMissingError: It cannot be read.
        LimitError: It is too long.
    """
    name = source_name(source)
    with open_source(source) as stream:
        for _ in _file_chunks(stream, name, stats):
            _require_length(stats.bytes_read, name, limits)


def _require_length(total: int, name: str, limits: InputLimits) -> None:
    if total > limits.max_input_bytes:
        raise LimitError(
            f"{name} is longer than {limits.max_input_bytes} bytes",
            hint="raise `max_input_bytes`, or split the input",
            limit=f"max_input_bytes {limits.max_input_bytes}",
        )


def bom_length(chunk: bytes) -> int:
    """Return how many bytes of the input's first chunk are UTF-8's byte-order mark: 3 or 0."""
    return len(_BOM) if chunk.startswith(_BOM) else 0


def _file_chunks(stream: BinaryIO, name: str, stats: SourceStats) -> Iterator[bytes]:
    # One system call a chunk: `read` of a buffered pipe would wait until the chunk is full.
    read = getattr(stream, "read1", stream.read)
    while True:
        try:
            chunk: bytes = read(CHUNK_BYTES)
        except OSError as error:
            raise InputMissingError(
                f"cannot read {name}: {error}", hint="check the device or the pipe", path=name
            ) from error
        except Exception as error:
            if not is_url(name):
                raise
            raise unreadable(name, error) from error
        if not chunk:
            return
        stats.bytes_read += len(chunk)
        if stats.digest is not None:
            stats.digest.update(chunk)
        yield chunk


def _with_head(chunks: Iterator[bytes], magics: tuple[bytes, ...]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, enough to tell the magics apart, and all chunks, those included."""
    magics = (*magics, _BOM, *_WIDE_BOMS)
    head = next(chunks, b"")
    while any(len(head) < len(magic) and magic.startswith(head) for magic in magics):
        more = next(chunks, b"")
        if not more:
            break
        head += more

    def whole() -> Iterator[bytes]:
        if head:
            yield head
        yield from chunks

    return head, whole()


def is_awaited(status: os.stat_result) -> bool:
    """Say whether somebody may write an input while it is read: a pipe, a socket, a device."""
    return any(test(status.st_mode) for test in (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR))


def _is_awaited(stream: BinaryIO) -> bool:
    try:
        return is_awaited(os.fstat(stream.fileno()))
    except (OSError, ValueError, AttributeError):
        return False  # of a URL, or in memory


def _refuse_wide(head: bytes, name: str) -> None:
    encoding = next((wide for bom, wide in _WIDE_BOMS.items() if head.startswith(bom)), None)
    if encoding is None and _alternates_with_nul(head[:_WIDE_SAMPLE]):
        encoding = "UTF-16"
    if encoding is not None:
        raise EncodingError(
            f"{name} is not UTF-8: it looks like {encoding}",
            hint=f"convert it first: iconv -f {encoding} -t UTF-8 {name}",
            line=1,
            byte_offset=1,
        )


def _alternates_with_nul(sample: bytes) -> bool:
    # UTF-16 without a byte-order mark is valid UTF-8 full of NULs: nobody means that.
    if len(sample) < _WIDE_SAMPLE:
        return False
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = len(sample) // 2
    return min(even, odd) == 0 and max(even, odd) >= 0.9 * half
