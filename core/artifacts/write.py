"""Writing an artifact file: complete and synced under its own name, or not there at all."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts.digest import DIGEST_KEY, PLACEHOLDER, compute_digest, digest_places
from cdec.core.artifacts.frame import read_frame
from cdec.core.errors import OutputError, OutputExistsError

FORMAT_VERSION = 1
MADE_FROM_KEY = "cdec.made_from"
"""What a compiling command notes of source and options, to know them again."""


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
            hint="an artifact is written to a file; give another output with `path`",
            path=str(path),
        )
    if not force:
        raise OutputExistsError(
            f"{path} exists already", hint="give `force` to replace it", path=str(path)
        )


def write_artifact(
    path: str | Path,
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str],
    *,
    force: bool = False,
) -> None:
    """Write one artifact file: temporary file, fsync, digest, rename.

    Args:
        path: The final name; nothing is visible under it before the file is whole.
        kind: ``set`` and so on.
        arrays: One-dimensional arrays by column name; written without a copy.
        metadata: Schema metadata, all keys under ``cdec.``; kind, format version, cdec version and
            digest are added.
        force: Replace an existing file.

    Raises:
        OutputExistsError: The file exists and ``force`` is false.
        OutputError: A full disk, missing permission, a folder that does not exist.
    """
    path = Path(path)
    refuse_existing(path, force=force)
    with _temporary_beside(path) as temporary:
        _write_arrow(temporary, arrays, _full_metadata(kind, metadata))
        _patch_digest(temporary)
        _publish(temporary, path, force=force)


def _full_metadata(kind: str, metadata: Mapping[str, str]) -> dict[str, str]:
    from importlib.metadata import version

    own = {
        "cdec.kind": kind,
        "cdec.format": str(FORMAT_VERSION),
        "cdec.version": version("cdec"),
        DIGEST_KEY: PLACEHOLDER,
    }
    return own | {key: value for key, value in metadata.items() if key not in own}


@contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    """Give a new file in the output's folder; remove it whatever happens."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    try:
        # Created here and not by a library, for O_EXCL and the user's umask.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
    except OSError as error:
        raise _output_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _output_error(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return OutputError(
        f"cannot write {path}: {reason}",
        hint="free disk space, or write to another disk with `path`" if full else None,
        path=str(path),
        errno=error.errno,
    )


def _write_arrow(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Write one record batch of one row: a LargeList column for every array."""
    columns = {name: _large_list(array) for name, array in arrays.items()}
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    schema = pa.schema(fields, metadata=metadata)
    batch = pa.record_batch(list(columns.values()), schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)


def _large_list(array: NDArray[Any]) -> Any:
    """Wrap a numpy array as a LargeList array of one row, without a copy."""
    flat = np.ascontiguousarray(array)
    values = pa.Array.from_buffers(
        pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)]
    )
    return pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), values)


def _patch_digest(path: Path) -> None:
    """Compute the digest of the written file and put it in its two places."""
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            data = memoryview(mapped)
            try:
                places = digest_places(data, read_frame(data, str(path)), PLACEHOLDER, str(path))
                digest = compute_digest(data, places)
            finally:
                data.release()
        for place in places:
            file.seek(place)
            file.write(digest.encode())
        file.flush()
        os.fsync(file.fileno())


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
