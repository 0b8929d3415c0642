"""RecordWriter: records as lines of JSON, one write a record, whole lines only."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from cdec.core.errors import Notice, OutputError
from cdec.data.output.resume import FinishedRecords
from cdec.data.output.terminal import escape_json

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
