"""Files written whole, and temporary folders: neither outlives a killed process for long.

A file is complete and synced under its own name, or not there at all. Its bytes go to a new file
beside it, ``.NAME.<random>.partial``, which nobody can have put there before and which is no link;
then they are synced, and the file takes its name.

Who makes a partial file or a folder holds a lock (flock) on it. One that nobody holds belonged to a
process that was killed, and whoever makes the next one takes it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cdec.core.errors import OutputError, OutputExistsError

_RANDOM_BYTES = 6
_ATTEMPTS = 8
_SCRATCH = "cdec-"
_RANDOM = "[a-z0-9_]{8}"
"""What ``tempfile`` puts into names."""
_READING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_ours(status: os.stat_result) -> bool:
    """Say whether this user owns a file or folder and nobody else may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


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
    left = rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}\.partial"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    _sweep(path.parent, left, flags, lambda found: stat.S_ISREG(found.st_mode), Path.unlink)
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
        if not _hold(descriptor) and attempt + 1 < _ATTEMPTS:
            # Another writer looks whether it is a dead one's.
            os.close(descriptor)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            continue
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)
    raise OSError(errno.EBUSY, "other programs take away each file that is begun beside it")


def _hold(descriptor: int) -> bool:
    """Lock what was made; say whether nobody else holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # subtle: a file system without locks; then nothing is swept there either.
        pass
    return True


def _sweep(
    parent: Path,
    name: str,
    flags: int,
    is_left: Callable[[os.stat_result], bool],
    remove: Callable[[Path], object],
) -> None:
    """Remove what killed processes left in a folder: what is named so and no process holds.

    Args:
        parent: The folder.
        name: Regular expression of the whole name.
        flags: To open it with.
        is_left: Whether it is of such a kind.
        remove: Takes it away.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        for found in [parent / each.name for each in entries if re.fullmatch(name, each.name)]:
            with suppress(OSError):
                descriptor = os.open(found, flags)
                try:
                    if is_left(os.fstat(descriptor)):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        remove(found)
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


@contextmanager
def scratch_folder(
    *, prefix: str = _SCRATCH, suffix: str = "", within: Path | None = None
) -> Iterator[Path]:
    """Give a new folder that is this user's alone, and take it away at the end.

    Args:
        prefix, suffix: Of its name.
        within: Where it lies; the system's folder for temporary files if None.

    Yields:
        The folder.

    Raises:
        OSError: It cannot be made.
    """
    parent = Path(tempfile.gettempdir()) if within is None else within
    left = f"{re.escape(prefix)}{_RANDOM}{re.escape(suffix)}"
    _sweep(parent, left, _READING, is_ours, lambda found: shutil.rmtree(found, ignore_errors=True))
    folder, descriptor = _held(parent, prefix, suffix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _held(parent: Path, prefix: str, suffix: str) -> tuple[Path, int]:
    """Return a new folder, and the descriptor that holds it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
        # subtle: until it is held, another process may take it away.
        try:
            descriptor = os.open(folder, _READING)
        except FileNotFoundError:
            continue
        if not _hold(descriptor):
            os.close(descriptor)
            continue
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), folder.lstat()):
                return folder, descriptor
        os.close(descriptor)
