"""Writes output records: one write a record, whole lines only, one writer a file."""

from __future__ import annotations

import fcntl
import io
import os
import select
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import (
    CdecError,
    LockedError,
    Notice,
    OutputError,
    OutputExistsError,
    UsageError,
)
from cdec.data.output.manifest import check_manifest, write_manifest
from cdec.data.output.resume import FinishedRecords, read_finished
from cdec.data.output.terminal import escape_json

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


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
        data = orjson.dumps(record, option=_OPTIONS)
        data = escape_json(data.decode()).encode() if self._is_terminal else data
        try:
            self._write_whole(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._cut_torn_line()
            raise OutputError(
                f"cannot write to {self.name}: {error.strerror}",
                hint="make room, then continue with `resume`",
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


def open_writer(
    path: str | Path | None,
    *,
    config: Mapping[str, object] | None = None,
    inputs: Iterable[str | Path] = (),
    force: bool = False,
    resume: bool = False,
) -> RecordWriter:
    """Open an output for records: locked, with its manifest written, ready for the first record.

    Args:
        path: A file, or None or ``"-"`` for stdout. Devices and pipes are written as they are.
        config: All that decides what the records are; goes into the manifest beside the file.
            Without it there is no manifest.
        inputs: Files the run reads (``"-"`` is stdin): the output may be none of them.
        force: Replace what is there.
        resume: Continue what is there: a torn last line is cut off, and ``finished`` tells which
            draws need not be written again.

    Raises:
        UsageError: The output is an input; ``resume`` without a file or without ``config``.
        OutputExistsError: The file is there, and neither ``force`` nor ``resume`` is on.
        LockedError: Another process writes it.
        ResumeMismatchError: Another configuration wrote it, or the manifest is missing.
        JsonError, FieldError: It holds something else than records.
        OutputError: It cannot be written.
    """
    if path is None or str(path) == "-":
        return _open_stdout(inputs, resume=resume)
    path = Path(path)
    _refuse_input(path, inputs)
    if resume and config is None:
        raise UsageError("resuming needs the configuration of the run", hint="give `config`")
    existed = path.exists()
    file = _open_file(path, may_exist=force or resume or (existed and not path.is_file()))
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        if resume:
            file.close()
            raise UsageError(f"{path} is no regular file and cannot be resumed")
        return RecordWriter(file, str(path))
    _lock(file, path)
    try:
        return _prepare(file, path, config, resume=resume)
    except BaseException as error:
        if not existed:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        file.close()
        if isinstance(error, OSError):
            raise OutputError(
                f"cannot prepare {path}: {error.strerror}",
                hint="check the disk and the permissions",
                path=str(path),
            ) from error
        raise


def _prepare(
    file: io.FileIO, path: Path, config: Mapping[str, object] | None, *, resume: bool
) -> RecordWriter:
    """Read what a locked file holds, or empty it; leave a manifest beside it."""
    size = os.fstat(file.fileno()).st_size
    if resume and size and config is not None:
        notices = check_manifest(path, config)
        with path.open("rb") as written:
            finished, good_bytes = read_finished(written, str(path))
        if good_bytes < size:
            notices.append(
                Notice(
                    "W_TORN_LINE",
                    f"{path} ended in an unfinished line: its {size - good_bytes} bytes are cut"
                    " off, the record is drawn again",
                    {"bytes": size - good_bytes},
                )
            )
            os.ftruncate(file.fileno(), good_bytes)
        return RecordWriter(file, str(path), end=good_bytes, finished=finished, notices=notices)
    os.ftruncate(file.fileno(), 0)
    # subtle: before the new manifest is there, or a crash could leave it beside the old records,
    # which a resumed run would then take for its own.
    os.fsync(file.fileno())
    if config is not None:
        write_manifest(path, config)
    return RecordWriter(file, str(path), end=0)


def _open_stdout(inputs: Iterable[str | Path], *, resume: bool) -> RecordWriter:
    if resume:
        raise UsageError("stdout cannot be resumed", hint="name the output file with `path`")
    sys.stdout.flush()
    stdout = sys.stdout.buffer
    try:
        status = os.fstat(stdout.fileno())
    except (OSError, ValueError):
        status = None  # a stream in memory
    if status is not None and stat.S_ISREG(status.st_mode):
        for name in inputs:
            if _is_same(status, name):
                raise _input_error("stdout", name)
    return RecordWriter(getattr(stdout, "raw", stdout), "stdout")


def _open_file(path: Path, *, may_exist: bool) -> io.FileIO:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if may_exist else flags | os.O_EXCL, 0o666)
    except FileExistsError as error:
        raise OutputExistsError(
            f"{path} exists",
            hint="continue it with `resume`, replace it with `force`, or name another file",
            path=str(path),
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}",
            hint="check that its folder exists and may be written",
            path=str(path),
        ) from error
    return io.FileIO(descriptor, "w")


def _lock(file: io.FileIO, path: Path) -> None:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise LockedError(
            f"another process is writing {path}",
            hint="wait until it has ended, or name another file",
            path=str(path),
        ) from error
    except OSError as error:
        file.close()
        raise OutputError(
            f"{path} cannot be locked against a second writer: {error.strerror}",
            hint="write to a file system with locks, and copy the file afterwards",
            path=str(path),
        ) from error


def _refuse_input(path: Path, inputs: Iterable[str | Path]) -> None:
    try:
        status = path.stat()
    except OSError:
        return  # not there, so no input; what else is wrong shows when it is opened
    if stat.S_ISREG(status.st_mode):
        for name in inputs:
            if _is_same(status, name):
                raise _input_error(str(path), name)


def _is_same(output: os.stat_result, name: str | Path) -> bool:
    try:
        status = os.fstat(sys.stdin.fileno()) if str(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return False
    return os.path.samestat(output, status)


def _input_error(output: str, name: str | Path) -> CdecError:
    shown = "stdin" if str(name) == "-" else name
    return UsageError(
        f"{output} would be the output and is the input {shown}",
        hint="name another file with `path`",
    )
