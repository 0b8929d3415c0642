"""Holds an output against a second writer."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cdec.core.errors import LockedError, OutputError


class Held(Protocol):
    """What has a descriptor: an open file or folder."""

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
