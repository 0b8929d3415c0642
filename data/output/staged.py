"""Outputs that cannot be added to in place, so that a kill at any moment loses nothing.

A Parquet file can be read once its last bytes are there, the columns of a table are known once all
records are, and what is compressed cannot be cut at its last whole record. So while a run writes
``out.csv``, its records stand in the folder ``out.csv.parts`` as lines of JSON, which any program
can read and ``resume`` goes on with. At the end they become the file, which takes its name when it
is whole and synced; then the folder goes.

What a kill may leave, by what there is:

* the folder alone: an unfinished run. A torn last line is cut off.
* the file alone: a finished run. One that goes on with it makes it the folder's first part when it
  has its first record.
* both: the file was finished or not yet touched, and the folder is left over.
"""

from __future__ import annotations

import fcntl
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from cdec.core.errors import CdecError, LockedError, Notice, OutputError
from cdec.data.output.lines import FinishedRecords, RecordWriter, line_of, read_finished, torn_line


class Held(Protocol):
    """An open file or folder: something with a descriptor."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class Folder:
    """An open folder.

    Args:
        path: Of the folder.

    Attributes:
        path: The same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags)

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Give it up, and the lock with it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock(file: Held, path: Path) -> None:
    """Lock an open file or folder; where that fails it is closed.

    Args:
        file: Held until it is closed.
        path: Of the output, for messages.

    Raises:
        LockedError: Another process holds it.
        OutputError: The file system has no locks.
    """
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


def locked_folder(folder: Path, output: Path) -> Folder:
    """Return a folder, made where it is not there, that this process alone holds.

    Args:
        folder: Its path.
        output: What is written by means of it, for messages.

    Raises:
        LockedError: Another process holds it.
        OutputError: The file system has no locks.
        OSError: It cannot be made.
    """
    while True:
        folder.mkdir(exist_ok=True)
        try:
            held = Folder(folder)
        except FileNotFoundError:
            continue
        lock(held, output)
        # subtle: whoever held it before may have taken it away when it was done.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held.fileno()), folder.stat()):
                return held
        held.close()


class StagedWriter(ABC):
    """An open output of one of these forms, with the interface of ``RecordWriter``.

    Subclasses say how records become the file. Made by ``open_writer``.

    Args:
        path: The file.
        held: The folder of its parts, locked.
        suffix: Of the parts that have the form of the file.

    Attributes:
        name: The output's name in messages.
        finished: The draws that were there when it was opened (``resume``).
        notices: What opening found worth a warning.
    """

    def __init__(self, path: Path, held: Folder, suffix: str) -> None:
        self.name = str(path)
        self.finished = FinishedRecords()
        self.notices: list[Notice] = []
        self._path = path
        self._folder = held.path
        self._held = held
        self._suffix = suffix
        self._number = 0
        self._journal: RecordWriter | None = None
        self._is_closed = False

    def go_on(self) -> None:
        """Read what is there: the file, or the parts and lines of an unfinished one.

        Raises:
            DataError, JsonError, FieldError: It holds something else than records.
        """
        if self._path.exists():
            self.clear_parts()
            self._read_file(self._path)
            return
        for part in self._parts():
            self._read_part(part)
            self._number = _number(part, self._suffix) + 1
        for lines in _numbered(self._folder, ".jsonl"):
            self._number = _number(lines, ".jsonl")
            self._read_journal(lines)

    def clear_parts(self) -> None:
        """Take away what the folder holds, and what was begun there: nobody else holds it."""
        left = (path for path in self._folder.glob(".*.partial"))
        for part in (*left, *_numbered(self._folder, ".jsonl"), *self._parts()):
            part.unlink()

    def write(self, record: Mapping[str, object]) -> None:
        """Append one record.

        Raises:
            OutputError: The disk is full, the device is gone. The records before it stay.
        """
        self._append(line_of(record))

    def close(self) -> None:
        """Make the file of the parts, put it on the disk, and release it.

        Raises:
            OutputError: It cannot be written; the parts stay, and ``resume`` goes on with them.
        """
        if self._is_closed:
            return
        try:
            self._finish()
            self.clear_parts()
            self._folder.rmdir()
        except OSError as error:
            raise unwritten(self._path, error) from error
        finally:
            self._release()

    def __enter__(self) -> StagedWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A run that ends with an error has an output as well; one that is broken off goes on later.
        if error is None or (isinstance(error, CdecError) and not isinstance(error, OutputError)):
            self.close()
        else:
            self._release()

    def _read_file(self, path: Path) -> None:
        """Note the draws of a finished file."""
        self._read_part(path)

    @abstractmethod
    def _read_part(self, path: Path) -> None:
        """Note the draws of a part in the form of the file."""

    @abstractmethod
    def _finish(self) -> None:
        """Make the file of the parts, where there are some or there is no file."""

    def _read_journal(self, path: Path) -> None:
        """Note the draws that stand in lines; cut a torn line off."""
        size = path.stat().st_size
        with path.open("rb") as file:
            _, good_bytes = read_finished(file, str(path), self.finished)
        if good_bytes < size:
            self.notices.append(torn_line(path, size - good_bytes))
            os.truncate(path, good_bytes)

    def _append(self, line: bytes) -> None:
        if self._journal is None:
            self._begin()
        assert self._journal is not None
        self._journal.append(line)

    def _begin(self) -> None:
        """Make a finished file the first part, and open the lines of the next."""
        try:
            if self._path.exists():
                self._path.replace(self._folder / f"000000{self._suffix}")
                self._number = 1
            self._open_journal()
        except OSError as error:
            raise unwritten(self._path, error) from error

    def _open_journal(self) -> None:
        path = self._folder / f"{self._number:06}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = io.FileIO(os.open(path, flags, 0o666), "w")
        self._journal = RecordWriter(file, self.name, end=os.fstat(file.fileno()).st_size)

    def _end_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _parts(self) -> list[Path]:
        """Return the parts in the form of the file, in their order."""
        return _numbered(self._folder, self._suffix)

    def _lines(self) -> list[Path]:
        """Return the parts that are lines of JSON, in their order."""
        return _numbered(self._folder, ".jsonl")

    def _release(self) -> None:
        self._is_closed = True
        try:
            self._end_journal()
        finally:
            self._held.close()


def _numbered(folder: Path, suffix: str) -> list[Path]:
    """Return the files with an ending whose names are numbers, in their order."""
    found = folder.glob(f"*{suffix}")
    return sorted(path for path in found if path.name.removesuffix(suffix).isdecimal())


def _number(path: Path, suffix: str) -> int:
    return int(path.name.removesuffix(suffix))


def unwritten(path: Path, error: OSError) -> OutputError:
    """Return the error of an output that the system could not write."""
    return OutputError(
        f"cannot write {path}: {error.strerror or error}",
        hint="make room, then continue with `resume`",
        path=str(path),
    )
