"""The user's cache: small files that only cdec under this user's name can have written.

What is read from here decides what is not checked again, so that a file that somebody else could
have put there counts as none: its folder and itself must belong to this user, and nobody else may
write to them. A cache that cannot be read or written only costs time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cdec.core.errors import OutputError
from cdec.core.files.whole import is_ours, whole_file


def cache_directory() -> Path:
    """Return cdec's cache directory: ``CDEC_CACHE_DIR``, else the user's cache directory."""
    configured = os.environ.get("CDEC_CACHE_DIR")
    if configured:
        return Path(configured)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("cdec"))


class CacheFolder:
    """One folder of the cache directory.

    Args:
        name: Of the folder.
        most: Files kept; those that were written first go first.
        max_bytes: Largest file that is read.
        within: Where the folder lies, if not in the cache directory.
    """

    def __init__(self, name: str, *, most: int, max_bytes: int, within: Path | None = None) -> None:
        self.path = (within or cache_directory()) / name
        self._most = most
        self._max_bytes = max_bytes

    def read(self, name: str) -> bytearray | None:
        """Return what ``keep`` wrote; None where it is not there, or not this user's alone."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            if not is_ours(os.fstat(folder)):
                return None
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or not is_ours(status):
                    return None
                if status.st_size > self._max_bytes:
                    return None
                data = bytearray(status.st_size)
                return data if file.readinto(data) == len(data) else None
        except OSError:
            return None
        finally:
            os.close(folder)

    def owned(self, name: str) -> Path | None:
        """Return the path of a file that is to be mapped; None as ``read`` says."""
        with suppress(OSError):
            status = (self.path / name).lstat()
            if is_ours(self.path.lstat()) and stat.S_ISREG(status.st_mode) and is_ours(status):
                return self.path / name
        return None

    def keep(self, name: str, data: bytes | memoryview) -> None:
        """Write a file, and forget the oldest beyond ``most``."""

        def write(path: Path) -> None:
            with whole_file(path, force=True, mode=0o600) as file:
                file.write(data)

        self.keep_by(name, write)

    def keep_by(self, name: str, write: Callable[[Path], None]) -> None:
        """Let ``write`` write a whole file, and forget the oldest beyond ``most``."""
        with suppress(OSError, OutputError):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_ours(self.path.lstat()):
                return
            write(self.path / name)
            files = [(file.stat().st_mtime_ns, file) for file in self.path.iterdir()]
            for _, old in sorted(files)[: -self._most]:
                old.unlink(missing_ok=True)
