"""Writing a file whole: complete and synced under its own name, or not there at all.

The bytes go to a new file beside it, ``.NAME.<random>.partial``, which nobody can have put there
before and which is no link; then they are synced, and the file takes its name. The writer holds a
lock (flock) on it meanwhile: a partial file that nobody holds belonged to a process that was
killed, and the next writer of the same name takes it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cdec.core.errors import OutputError, OutputExistsError

_RANDOM_BYTES = 6
_ATTEMPTS = 8


def refuse_existing(path: str | Path, *, force: bool) -> None:
    """Refuse an output that must not be replaced, before hours of work go into it.

    Raises:
        OutputExistsError: The file exists and ``force`` is false.
        OutputError: Not a regular file, or in a folder that does not exist.
    """
    path = Path(path)
    try:
        status = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise OutputError(
                f"cannot write {path}: there is no folder {path.parent}",
                hint="create the folder, or give another output with `path`",
                path=str(path),
            ) from None
        return
    except OSError as error:
        raise _output_error(path, error) from error
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
        raise OutputError(
            f"cannot write {path}: it is not a regular file",
            hint="it is written to a file; give another output with `path`",
            path=str(path),
        )
    if not force:
        raise OutputExistsError(
            f"{path} exists already", hint="give `force` to replace it", path=str(path)
        )


@contextmanager
def whole_file(path: str | Path, *, force: bool, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a new file that takes a name when the block ends, and goes where it does not.

    Args:
        path: The name. A link there is replaced, not followed.
        force: Replace an existing file.
        mode: Permissions, less the user's umask.

    Yields:
        The file, empty, open for reading and writing.

    Raises:
        OutputExistsError: The file exists and ``force`` is false.
        OutputError: A full disk, missing permission, a folder that does not exist; whatever
            ``OSError`` the block raises.
    """
    path = Path(path)
    refuse_existing(path, force=force)
    _sweep(path)
    temporary: Path | None = None
    try:
        temporary, descriptor = _created(path, mode)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _publish(temporary, path, force=force)
    except OSError as error:
        raise _output_error(path, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _created(path: Path, mode: int) -> tuple[Path, int]:
    """Return a new file beside ``path``, and its descriptor, which holds a lock on it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for attempt in range(_ATTEMPTS):
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(_RANDOM_BYTES)}.partial")
        descriptor = os.open(temporary, flags, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Another writer looks whether it is a dead one's.
            if attempt + 1 < _ATTEMPTS:
                os.close(descriptor)
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                continue
        except OSError:
            # subtle: a file system without locks; then nothing is swept there either.
            pass
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)
    raise OSError(errno.EBUSY, "other programs take away each file that is begun beside it")


def _sweep(path: Path) -> None:
    """Remove what killed writers of ``path`` left: partial files that no process holds."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}\.partial")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for name in [entry.name for entry in entries if left.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_unheld(path.with_name(name))


def _remove_unheld(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _publish(temporary: Path, path: Path, *, force: bool) -> None:
    """Give the finished file its name; without ``force`` never over another writer's."""
    if force:
        temporary.replace(path)
    else:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            refuse_existing(path, force=False)
            raise
        except OSError:
            # subtle: some file systems have no hard links; there a race can only lose a duplicate.
            refuse_existing(path, force=False)
            temporary.replace(path)
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _output_error(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return OutputError(
        f"cannot write {path}: {reason}",
        hint="free disk space, or write to another disk with `path`" if full else None,
        path=str(path),
        errno=error.errno,
    )
