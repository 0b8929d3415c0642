"""Temporary folders that do not outlive a killed process for long.

The process that makes one holds a lock (flock) on it. A folder that nobody holds belonged to a
process that was killed, and whoever makes the next one takes it away.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cdec.core.files.cache import is_ours

PREFIX = "cdec-"
_RANDOM = "[a-z0-9_]{8}"
"""What ``tempfile`` puts into names."""
_READING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder(
    *, prefix: str = PREFIX, suffix: str = "", within: Path | None = None
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
    _sweep(parent, prefix, suffix)
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
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:
            # subtle: a file system without locks; then nothing is swept there either.
            pass
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), folder.lstat()):
                return folder, descriptor
        os.close(descriptor)


def _sweep(parent: Path, prefix: str, suffix: str) -> None:
    """Remove folders of this user that no process holds."""
    left = re.compile(f"{re.escape(prefix)}{_RANDOM}{re.escape(suffix)}")
    with suppress(OSError), os.scandir(parent) as entries:
        for name in [entry.name for entry in entries if left.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_unheld(parent / name)


def _remove_unheld(folder: Path) -> None:
    descriptor = os.open(folder, _READING)
    try:
        if is_ours(os.fstat(descriptor)):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
