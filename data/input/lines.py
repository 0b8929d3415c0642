"""Cuts chunks of bytes into blocks of whole lines; memory stays bounded however long a line is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from cdec.core.errors import EncodingError, LineTooLongError
from cdec.data.input.source import InputLimits, bom_length

_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines as they stand in the input.

    Attributes:
        line: 1-based number of the first line.
        byte_offset: 0-based offset of its first byte in the (decompressed) input.
        data: The lines with their newlines; only the input's last may lack one. Not empty.
    """

    line: int
    byte_offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line beyond the limit; its bytes were not kept.

    Attributes:
        line: 1-based number.
        byte_offset: 0-based offset of its first byte in the (decompressed) input.
        length: Bytes, newline not counted.
        digest: SHA-256 of its bytes, newline not counted.
        unit: What ``line`` counts.
    """

    line: int
    byte_offset: int
    length: int
    digest: bytes
    unit: str = "line"

    def error(self, name: str, limits: InputLimits) -> LineTooLongError:
        """Return what is wrong, as an error."""
        found = f"is {self.length} bytes long"
        return _too_long(name, self.line, limits, found, self.unit)


class LineBlocks:
    """Splits a stream at newlines; a line longer than the limit never stays in memory.

    Args:
        chunks: The input, of any chunk size.
        name: For messages.
        limits: ``max_line_bytes`` applies.
        keep_going: Report an overlong line as a ``LongLine`` and continue after it; otherwise
            iteration raises as soon as the limit is passed, before the line's end is known.
    """

    def __init__(
        self, chunks: Iterator[bytes], name: str, limits: InputLimits, *, keep_going: bool
    ) -> None:
        self._chunks = chunks
        self._name = name
        self._limits = limits
        self._keep_going = keep_going
        self._line = 1
        self._offset = 0

    def __iter__(self) -> Iterator[LineBlock | LongLine]:
        """Yield blocks and overlong lines in order.

        Raises:
            LineTooLongError: A line passes the limit and ``keep_going`` is off.
        """
        pending: list[bytes] = []  # the beginning of a line whose end is not read yet
        size = 0
        skipping: Skipped | None = None
        for chunk in self._without_bom():
            if skipping is not None:
                newline = chunk.find(b"\n")
                skipping.add(chunk if newline < 0 else chunk[:newline])
                if newline < 0:
                    continue
                yield self._pass_long_line(skipping)
                skipping, chunk = None, chunk[newline + 1 :]
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield from self._blocks(b"".join((*pending, chunk[:cut])))
                pending, size = [], 0
            if cut < len(chunk):
                pending.append(chunk[cut:])
                size += len(chunk) - cut
            if size > self._limits.max_line_bytes:
                skipping = self._skip(pending)
                pending, size = [], 0
        if skipping is not None:
            yield self._pass_long_line(skipping)
        elif pending:
            yield from self._blocks(b"".join(pending))

    def _without_bom(self) -> Iterator[bytes]:
        for position, chunk in enumerate(self._chunks):
            if position == 0:
                self._offset = bom_length(chunk)
                chunk = chunk[self._offset :]
            yield chunk

    def _blocks(self, data: bytes) -> Iterator[LineBlock | LongLine]:
        """Cut overlong lines out of whole lines; nearly always there are none."""
        for start, stop, is_long in _runs(data, self._limits.max_line_bytes):
            if is_long:
                yield self._pass_long_line(self._skip([data[start:stop].removesuffix(b"\n")]))
                continue
            part = data[start:stop] if stop - start < len(data) else data
            yield LineBlock(self._line, self._offset, part)
            self._line += part.count(b"\n")
            self._offset += len(part)

    def _skip(self, parts: list[bytes]) -> Skipped:
        if not self._keep_going:
            raise _too_long(self._name, self._line, self._limits, "goes on past the limit")
        skipped = Skipped()
        for part in parts:
            skipped.add(part)
        return skipped

    def _pass_long_line(self, skipped: Skipped) -> LongLine:
        long_line = LongLine(self._line, self._offset, skipped.length, skipped.hash.digest())
        self._line += 1
        self._offset += skipped.length + 1
        return long_line


class Skipped:
    """Remains of an overlong line: its length and its hash."""

    def __init__(self) -> None:
        self.length = 0
        self.hash = hashlib.sha256()

    def add(self, part: bytes) -> None:
        self.length += len(part)
        self.hash.update(part)


def _runs(data: bytes, max_line_bytes: int) -> Iterator[tuple[int, int, bool]]:
    """Yield start, stop and True for an overlong line, False for the lines up to the next one."""
    if len(data) <= max_line_bytes:
        yield 0, len(data), False
        return
    # Commands that only name formats, for their help, import this module.
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE) + 1
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data) + 1)  # as if a newline followed
    starts = np.concatenate(([0], ends[:-1]))
    at = 0
    for index in np.flatnonzero(ends - starts - 1 > max_line_bytes):
        start, stop = int(starts[index]), min(int(ends[index]), len(data))
        if at < start:
            yield at, start, False
        yield start, stop, True
        at = stop
    if at < len(data):
        yield at, len(data), False


def numbered_lines(block: LineBlock) -> Iterator[tuple[int, int, bytes]]:
    """Yield (1-based number, 0-based byte offset, bytes without newline and CR) of each line."""
    offset = block.byte_offset
    lines = block.data.split(b"\n")
    if block.data.endswith(b"\n"):
        lines.pop()
    for number, line in enumerate(lines, block.line):
        yield number, offset, line.removesuffix(b"\r")
        offset += len(line) + 1


def decode_line(data: bytes, name: str, line: int, byte_offset: int, unit: str = "line") -> str:
    """Decode one line strictly.

    Args:
        data: The line's bytes.
        name: Name of the source, for messages.
        line: 1-based number.
        byte_offset: 0-based offset of its first byte.
        unit: What ``line`` counts.

    Raises:
        EncodingError: Invalid UTF-8. ``byte_offset`` of the error is the position of the first bad
            byte in the (decompressed) input, counted from 1 as lines are.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        position = byte_offset + error.start + 1
        raise EncodingError(
            f"{name}, {unit} {line}: byte {position} of the input (0x{data[error.start]:02x}) is"
            f" not UTF-8: {error.reason}",
            hint="convert the input to UTF-8 with iconv, or leave the line out",
            line=line,
            byte_offset=position,
        ) from error


def _too_long(
    name: str, line: int, limits: InputLimits, found: str, unit: str = "line"
) -> LineTooLongError:
    return LineTooLongError(
        f"{name}, {unit} {line} {found}; a {unit} may have {limits.max_line_bytes} bytes",
        hint="raise `max_line_bytes`, or check that the file is text with one record a line",
        line=line,
        limit=f"max_line_bytes {limits.max_line_bytes}",
    )
