"""Records as lines of JSON: one write a record, whole lines only, and read again to go on."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from cdec.core.errors import FieldError, JsonError, Notice, OutputError
from cdec.data.ids import id_key
from cdec.data.input.lines import LineBlocks, LongLine
from cdec.data.input.source import InputLimits
from cdec.data.output.terminal import escape_json

_LIMITS = InputLimits(max_line_bytes=1 << 28)
_CHUNK_BYTES = 1 << 20
MAX_INDEX = 10_000_000  # far beyond any limit on n; a bad file must not cost a gigabyte of bits


class FinishedRecords:
    """The (id, index) pairs an output already holds.

    Attributes:
        records: Records there are, error objects among them.
        errors: Error objects.

    Memory: about 120 bytes an id, whatever its length; the indices of an id are bits of one
    integer.
    """

    def __init__(self) -> None:
        self.records = 0
        self.errors = 0
        self._indices: dict[bytes, int] = {}  # bit i: index i is there; -1: all of them

    def key(self, record_id: object) -> bytes:
        """Return what stands for an id."""
        return id_key(record_id)

    def add(
        self, record_id: object, index: int | None, *, is_error: bool, is_last: bool = False
    ) -> None:
        """Note a record; an ``index`` of None is an error or a whole answer, which end their id.

        After one that ``is_last`` its id has no further draws.
        """
        self.note(self.key(record_id), index, is_error=is_error, is_last=is_last)

    def note(self, key: bytes, index: int | None, *, is_error: bool, is_last: bool = False) -> None:
        """Note a record by the key of its id."""
        bits = -1 if index is None else -1 << index if is_last else 1 << index
        self.errors += is_error
        self._indices[key] = self._indices.get(key, 0) | bits
        self.records += 1

    def has(self, key: bytes, index: int | None) -> bool:
        """Say whether a draw is there; for an ``index`` of None, whether any is."""
        bits = self._indices.get(key, 0)
        return bits != 0 if index is None else bool(bits >> index & 1)

    def missing(self, record_id: object, n: int) -> list[int]:
        """Return the indices below ``n`` that are not there yet, ascending."""
        bits = self._indices.get(self.key(record_id), 0)
        return [index for index in range(n) if not bits >> index & 1]


def read_finished(
    file: BinaryIO, name: str, finished: FinishedRecords | None = None
) -> tuple[FinishedRecords, int]:
    """Read an output up to its last whole record.

    A run that was killed may leave a last line that is cut, even within a character, or full of NUL
    bytes: the good part ends before it. An error object counts as finished: the record would
    fail again. Only a bad line *between* good ones is an error, because no run of cdec leaves one.

    Args:
        file: The output, opened for reading, at its start.
        name: For messages.
        finished: What it is added to; something new if not given.

    Returns:
        What is there, and the length of the good part, bytes. Cost: a few us a short record.

    Raises:
        JsonError: A line that is no record stands before one that is.
        FieldError: A record without ``id`` or ``index`` (left out by ``fields``).
    """
    finished = FinishedRecords() if finished is None else finished
    good_bytes = 0
    bad_line: int | None = None
    for line, end, data in _whole_lines(file, name):
        record = _parse(data)
        if record is None:
            bad_line = line if bad_line is None else bad_line
            continue
        if bad_line is not None:
            raise JsonError(
                f"{name}, line {bad_line} is no record, yet records follow it",
                hint="take the line out by hand, or start over with `force`",
                line=bad_line,
            )
        is_error = isinstance(record.get("error"), dict)
        is_last = record.get("exhausted") is True
        finished.add(*_key(record, is_error, name, line), is_error=is_error, is_last=is_last)
        good_bytes = end
    return finished, good_bytes


def torn_line(path: Path, size: int) -> Notice:
    """Return the warning of a record that a kill cut."""
    return Notice(
        "W_TORN_LINE",
        f"{path} ended in an unfinished line: its {size} bytes are cut off, the record is drawn"
        " again",
        {"bytes": size},
    )


def _whole_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield (1-based number, offset of the end, bytes without newline) of lines that have an end.

    A line too long for a record comes as no bytes, which are no record either.
    """
    chunks = iter(lambda: file.read(_CHUNK_BYTES), b"")
    for event in LineBlocks(chunks, name, _LIMITS, keep_going=True):
        if isinstance(event, LongLine):
            yield event.line, event.byte_offset + event.length + 1, b""
            continue
        end = event.byte_offset
        *whole, _ = event.data.split(b"\n")  # what follows the last newline is torn, or nothing
        for line, data in enumerate(whole, event.line):
            end += len(data) + 1
            yield line, end, data


def _parse(data: bytes) -> dict[str, object] | None:
    try:
        record = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _key(
    record: dict[str, object], is_error: bool, name: str, line: int
) -> tuple[object, int | None]:
    index = record.get("index")
    # The answer to a request of a batch file is one line, however many texts it has.
    if "id" in record and (is_error or "custom_id" in record):
        return record["id"], None
    if "id" in record and type(index) is int and 0 <= index <= MAX_INDEX:
        return record["id"], index
    field = "index" if "id" in record else "id"
    raise FieldError(
        f"{name}, line {line} has no good {field!r}, by which a run is resumed",
        hint="start over with `force`, and keep id and index among the `fields`",
        line=line,
        field=field,
    )


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


def line_of(record: Mapping[str, object]) -> bytes:
    """Return a record as JSON and a newline."""
    return orjson.dumps(record, option=_OPTIONS)


class RecordWriter:
    """An open output; a context manager. Made by ``open_writer``.

    Args:
        stream: Takes bytes without a buffer of its own.
        name: As in the attributes, like ``finished`` and ``notices``.
        end: Length of the file, bytes, where it is a regular one: what a failed write leaves after
            it is cut off. None for stdout, pipes and devices.

    Attributes:
        name: The output's name in messages.
        finished: The draws that were there when it was opened (``resume``).
        notices: What opening found worth a warning.
    """

    def __init__(
        self,
        stream: Any,
        name: str,
        *,
        end: int | None = None,
        finished: FinishedRecords | None = None,
        notices: Iterable[Notice] = (),
    ) -> None:
        self.name = name
        self.finished = finished if finished is not None else FinishedRecords()
        self.notices = list(notices)
        self._stream = stream
        self._end = end
        self._is_terminal = stream.isatty()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record as one line, in one write where the system takes it whole.

        Raises:
            OutputError: The disk is full, the device is gone. A file ends with its last whole line.
            BrokenPipeError: The reader has closed the pipe.
        """
        self.append(line_of(record))

    def append(self, line: bytes) -> None:
        """Append one line of ``line_of``, as ``write`` does.

        Raises:
            OutputError, BrokenPipeError: As ``write``.
        """
        data = escape_json(line.decode()).encode() if self._is_terminal else line
        try:
            self._write_whole(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._cut_torn_line()
            raise OutputError(
                f"cannot write to {self.name}: {error.strerror}",
                hint="make room there, or write to a file somewhere else"
                if self._end is None
                else "make room, then continue with `resume`",
                path=self.name,
            ) from error
        except BaseException:
            # A signal's exception between the parts of a short write.
            self._cut_torn_line()
            raise
        if self._end is not None:
            self._end += len(data)

    def close(self) -> None:
        """Put the records on the disk and release the file; stdout stays open.

        Raises:
            OutputError: The system could not keep what it had taken.
        """
        if self._end is None or self._stream.closed:
            return
        try:
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write to {self.name}: {error.strerror}",
                hint="check the disk, then continue with `resume`",
            ) from error
        finally:
            self._stream.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_whole(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = self._stream.write(view)
            if written is None:  # a non-blocking pipe that is full
                select.select([], [self._stream], [])
                continue
            view = view[written:]

    def _cut_torn_line(self) -> None:
        if self._end is not None:
            # What cannot be cut off now is cut off by the run that resumes.
            with suppress(OSError):
                os.ftruncate(self._stream.fileno(), self._end)
