"""Files of URLs that must lie on this machine (artifacts are mapped): fetched once, then found."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from cdec.core.errors import InputMissingError, LimitError, OutputError
from cdec.core.files.cache import cache_directory
from cdec.core.files.remote import FilePath, file_system, is_url, open_url, public_name, readable
from cdec.core.files.whole import is_ours, whole_file
from cdec.core.progress import Progress, Stage, silent

FOLDER = "fetched"
MAX_FETCHED_BYTES = 64 << 30
_PIECE = 1 << 22
_MIB = 1 << 20
_VERSION = ("etag", "md5", "md5hash", "checksum", "generation", "versionid", "size", "mtime")
_TIMES = ("last-modified", "lastmodified", "last_modified", "updated", "modified", "created")


def local_copy(
    place: FilePath, *, max_bytes: int = MAX_FETCHED_BYTES, progress: Progress = silent
) -> Path:
    """Return a path on this machine for a path (itself) or a URL (its copy in the user's cache).

    Processes of one machine that ask for one URL at the same time fetch it once. A URL whose file
    has changed (its tag, size or time) is fetched again, under another name, so that whoever has
    mapped the old one keeps it. Copies stay until ``fetched`` in the cache directory is emptied.

    Args:
        place: A path, or a URL as text.
        max_bytes: Largest file that is fetched.
        progress: Told how much of it is there.

    Raises:
        ExtraMissingError, InputMissingError: The URL cannot be read, or ends early.
        LimitError: Its file is larger.
        OutputError: The cache cannot be written, or is not this user's alone.
    """
    if not is_url(place):
        return Path(place)
    url = str(place)
    size, version = _asked(url)
    _refuse_large(url, size or 0, max_bytes)
    name = hashlib.sha256(f"{url}\n{version}".encode()).hexdigest()[:32]
    folder = cache_directory() / FOLDER
    path = folder / (name + PurePosixPath(public_name(url)).suffix[:16])
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_ours(folder.lstat()):
            raise PermissionError(0, "it belongs to another user, or others may write to it")
        if path.exists():
            return path
        with (folder / f".{name}.lock").open("wb") as lock:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
            if not path.exists():
                _fetch(url, path, size, max_bytes, progress)
    except OSError as error:
        raise OutputError(
            f"{public_name(url)} cannot be kept in {folder}: {error.strerror}",
            hint="make room there, or name another place with CDEC_CACHE_DIR",
            path=str(folder),
        ) from error
    return path


def _fetch(url: str, path: Path, size: int | None, max_bytes: int, progress: Progress) -> None:
    total = None if size is None else -(-size // _MIB)
    name, done = PurePosixPath(public_name(url)).name, 0
    with open_url(url) as remote, whole_file(path, force=True, mode=0o600) as file:
        while piece := _piece(remote, url):
            done += len(piece)
            _refuse_large(url, done, max_bytes)
            file.write(piece)
            progress(Stage(f"fetching {name}", done // _MIB, total, "MiB"))
        if size is not None and done != size:
            raise InputMissingError(
                f"{public_name(url)} gave {done} bytes of {size}",
                hint="try again when nobody writes to it",
                path=public_name(url),
            )


def _piece(remote: BinaryIO, url: str) -> bytes:
    # subtle: what fails here is the reading, whatever OSError it may be.
    with readable(url):
        return remote.read(_PIECE)


def _asked(url: str) -> tuple[int | None, str]:
    """Return the size of a URL's file, if it is known, and what tells it from later ones."""
    system, path = file_system(url)
    with readable(url):
        facts: Mapping[str, Any] = system.info(path)
        if facts.get("type") == "directory":
            raise InputMissingError(
                f"{public_name(url)} is a folder, a file was expected",
                hint="name one file",
                path=public_name(url),
            )
        known = {name.lower(): facts[name] for name in facts}
        told = {name: str(known[name]) for name in (*_VERSION, *_TIMES) if known.get(name)}
        if not told.keys() - {"size"}:
            told["key"] = str(system.ukey(path))
    size = known.get("size")
    return size if isinstance(size, int) else None, json.dumps(told, sort_keys=True)


def _refuse_large(url: str, size: int, most: int) -> None:
    if size > most:
        raise LimitError(
            f"{public_name(url)} has more than {most} bytes, the most that is fetched",
            hint="fetch it yourself, and name the file",
            path=url,
            limit=f"bytes {most}",
        )
