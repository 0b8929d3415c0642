"""Files of URLs that must lie on this machine (artifacts are mapped): fetched once, then found."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from os import PathLike, fspath
from pathlib import Path

from cdec.core.errors import OutputError
from cdec.core.files.cache import cache_directory
from cdec.core.files.whole import whole_file
from cdec.data.input.remote import is_url, open_url, unreadable

_PIECE = 1 << 22


def local_copy(place: str | PathLike[str]) -> Path:
    """Return a path on this machine for a path (itself) or a URL (its copy in the user's cache).

    Processes of one machine that ask for one URL at the same time fetch it once. A URL whose file
    has changed (its time, size or tag) is fetched again, under another name, so that whoever has
    mapped the old one keeps it. Copies stay until ``fetched`` in the cache directory is emptied.

    Args:
        place: A path, or a URL as text.

    Raises:
        ExtraMissingError, InputMissingError: The URL cannot be opened.
        OutputError: The cache cannot be written.
    """
    if not is_url(place):
        return Path(place)
    url = fspath(place)
    version = _version(url)
    folder = cache_directory() / "fetched"
    name = hashlib.sha256(f"{url}\n{version}".encode()).hexdigest()[:32]
    path = folder / (name + Path(url).suffix)
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (folder / f".{name}.lock").open("wb") as lock:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
            if not path.exists():
                _fetch(url, path)
    except OSError as error:
        raise OutputError(
            f"{url} cannot be kept in {folder}: {error.strerror}",
            hint="make room there, or name another place with CDEC_CACHE_DIR",
            path=str(folder),
        ) from error
    return path


def _fetch(url: str, path: Path) -> None:
    with open_url(url) as remote, whole_file(path, force=True, mode=0o600) as file:
        shutil.copyfileobj(remote, file, _PIECE)


def _version(url: str) -> str:
    """Return what tells a version of a URL's file from others, as its file system has it."""
    with open_url(url):
        # What is missing, the package of the file system or the file, is said there.
        pass
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
        return str(system.ukey(path))
    except Exception as error:  # every file system has its own: no base class but this
        raise unreadable(url, error) from error
