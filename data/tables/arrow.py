"""Reads Arrow files and streams batch by batch, from any stream of bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from cdec.core.errors import CdecError, DataError
from cdec.data.input.decompress import ChunkFile
from cdec.data.input.source import InputLimits, Source, open_source
from cdec.data.tables.footer import measure_file
from cdec.data.tables.messages import FILE_MAGIC, STREAM_MAGIC, measured_messages

_HEAD_BYTES = 16


def is_arrow(head: bytes) -> bool:
    """Whether an input that begins so is an Arrow file or stream."""
    return head.startswith((FILE_MAGIC, STREAM_MAGIC))


@contextmanager
def open_arrow(
    chunks: Iterator[bytes], source: Source, name: str, limits: InputLimits
) -> Iterator[ArrowBatches]:
    """Open an Arrow file or stream; a file is read from its beginning where it is a stream there.

    Args:
        chunks: The input from its first byte on; read to its end with the last batch.
        source: Where it comes from, opened again where only the footer says what it holds.
        name: For messages.
        limits: Of what it may expand to.

    Raises:
        DataError: It is none, or its schema is damaged.
        LimitError: It expands to too much.
    """
    head = b""
    while len(head) < _HEAD_BYTES and (chunk := next(chunks, b"")):
        head += chunk
    chunks = chain([head], chunks)
    if not head.startswith(FILE_MAGIC) or head.startswith(STREAM_MAGIC, len(FILE_MAGIC)):
        yield _open_stream(chunks, name, limits)
        return
    if not isinstance(source, str | Path) or str(source) == "-":
        raise DataError(
            f"{name} is an Arrow file that is read from its end", hint="save it to a file first"
        )
    with open_source(source) as stream:
        if not stream.seekable() or stream.read(len(FILE_MAGIC)) != FILE_MAGIC:
            raise DataError(
                f"{name} is an Arrow file that is read from its end",
                hint="save it to a file, decompressed",
            )
        measure_file(stream, name, limits)
        stream.seek(0)
        try:
            reader = pa.ipc.open_file(pa.PythonFile(stream, mode="r"))
            reader.schema.names  # noqa: B018  # one that is not UTF-8 is an error here
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _damaged(name, error) from error
        yield ArrowBatches(_InFile(reader), ChunkFile(chunks), name)


class _InFile:
    """The batches of a file, as a stream's reader gives them."""

    def __init__(self, reader: Any) -> None:
        self.schema = reader.schema
        self._batches = (reader.get_batch(i) for i in range(reader.num_record_batches))

    def read_next_batch(self) -> Any:
        return next(self._batches)


def _open_stream(chunks: Iterator[bytes], name: str, limits: InputLimits) -> ArrowBatches:
    file = io.BufferedReader(ChunkFile(measured_messages(chunks, name, limits)), 1 << 16)
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
        reader.schema.names  # noqa: B018  # one that is not UTF-8 is an error here
        return ArrowBatches(reader, file, name)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(name, error) from error


class ArrowBatches:
    """An opened Arrow input.

    Args:
        reader: pyarrow's.
        file: What it reads, to be read to its end.
        name: For messages.

    Attributes:
        schema: Of all its batches.
    """

    def __init__(self, reader: Any, file: Any, name: str) -> None:
        self.schema = reader.schema
        self._reader = reader
        self._file = file
        self._name = name

    def batches(self) -> Iterator[Any]:
        """Yield the record batches.

        Raises:
            DataError: One is damaged, or the input ends early.
            LimitError: It expands to too much.
        """
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                while self._file.read(1 << 16):  # what follows says whether the file is whole
                    pass
                return
            except CdecError:
                raise
            except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
                raise _damaged(self._name, error) from error
            yield batch


def _damaged(name: str, error: BaseException) -> DataError:
    return DataError(
        f"{name} cannot be read as Arrow: {error}", hint="write it again, or fetch it again"
    )
