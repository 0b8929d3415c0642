"""Compressed outputs: lines of JSON, packed when all records are there."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from cdec.core.files.whole import whole_file
from cdec.data.input.decompress import XZ, ChunkFile, Compression
from cdec.data.input.source import InputLimits, SourceStats, read_chunks
from cdec.data.output.lines import read_finished
from cdec.data.output.staged import Folder, StagedWriter

_CHUNK_BYTES = 1 << 20
_ARROW_NAMES = {"bzip2": "bz2"}
_LIMITS = InputLimits(max_input_bytes=1 << 50, max_expansion=1 << 30)
"""Of what cdec wrote itself: texts that repeat shrink to next to nothing."""


class CompressedWriter(StagedWriter):
    """An open output of compressed lines.

    Args:
        path: The file.
        held: The folder of its parts, locked.
        compression: Of the file.
    """

    def __init__(self, path: Path, held: Folder, compression: Compression) -> None:
        super().__init__(path, held, compression.suffix)
        self._compression = compression

    def _read_part(self, path: Path) -> None:
        chunks = ChunkFile(plain_chunks(path))
        read_finished(io.BufferedReader(chunks), str(path), self.finished)

    def _finish(self) -> None:
        self._end_journal()
        parts, lines = self._parts(), self._lines()
        if self._path.exists() and not lines:
            return
        with whole_file(self._path, force=True) as file, packed(file, self._compression) as out:
            for part in (*parts, *lines):
                for chunk in plain_chunks(part):
                    out.write(chunk)


def plain_chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file that cdec wrote, decompressed."""
    with path.open("rb", buffering=0) as file:
        yield from read_chunks(file, str(path), limits=_LIMITS, stats=SourceStats())


@contextmanager
def packed(file: BinaryIO, compression: Compression | None) -> Iterator[Any]:
    """Give what compresses into a file, which stays open; without a compression the file."""
    if compression is None:
        yield file
        return
    if compression is XZ:
        with lzma.LZMAFile(file, "wb") as out:
            yield out
        return
    import pyarrow as pa

    name = _ARROW_NAMES.get(compression.name, compression.name)
    sink = pa.PythonFile(_Kept(file), mode="w")
    with pa.CompressedOutputStream(sink, name) as stream:
        yield stream


class _Kept(io.RawIOBase):
    """A file that stays open when whoever writes to it closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write all bytes; return how many."""
        return self._file.write(data)


def write_all(file: Any, lines: Iterable[bytes]) -> None:
    """Write lines to a file or stream, many in one call."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            file.write(b"".join(held))
            held, size = [], 0
    file.write(b"".join(held))
