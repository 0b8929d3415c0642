"""Artifact files as they are read: opened, checked in a fixed order, remembered.

The order: size, frame, compression, version, kind, extension types, schema, digest, Arrow's own
validation, ranges of every index (one file a kind). A file is read into memory where it is small,
mapped where it is not.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts.frame import Frame, read_frame
from cdec.core.artifacts.write import DIGEST_KEY, FORMAT_VERSION, verify_digest
from cdec.core.errors import (
    ArtifactFormatError,
    ArtifactInvalidError,
    ArtifactSchemaError,
    ArtifactVersionError,
    InputMissingError,
    LimitError,
)
from cdec.core.files.cache import CacheFolder
from cdec.core.files.fetched import MAX_FETCHED_BYTES, local_copy
from cdec.core.files.remote import FilePath, Place

_AGAIN = "compile the artifact again"
UNNAMED = Path("artifact")
"""Stands for the path of an artifact that is no file."""
COPIED_BYTES = 4 << 20
"""Files up to this size are read into memory, which costs a millisecond; larger ones are mapped."""
MAX_REMEMBERED = 512
"""Files whose verification is remembered; the oldest are forgotten first."""
_MAX_ENTRY_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """Limits of reading an artifact; passing one is a ``LimitError``.

    Attributes:
        max_bytes: Largest file.
        max_fetched_bytes: Largest file of a URL, which is copied to this machine.
    """

    max_bytes: int = 1 << 40
    max_fetched_bytes: int = MAX_FETCHED_BYTES


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """A verified artifact; the arrays are read-only, views of the mapped file if it is one.

    ``path`` is what it was opened by, a path or a URL; ``local`` is the file on this machine.
    """

    kind: str
    metadata: dict[str, str]
    arrays: dict[str, NDArray[Any]]
    path: Place
    local: Path = UNNAMED


@dataclass(frozen=True, slots=True)
class ArtifactKind:
    """A kind of artifact.

    Attributes:
        columns: Column name -> element type, as numpy names it.
        check_shape: Checks lengths and options, each time that a file opens, so that not even a
            file that was called good by mistake leads outside of an array; raises
            ``ArtifactInvalidError``.
        check: Checks the ranges of every index, once for a file; raises ``ArtifactInvalidError``.
        checks_version: Changes when ``check`` does, so that remembered files are checked again.
    """

    columns: Mapping[str, str]
    check_shape: Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], None]
    check: Callable[[Mapping[str, NDArray[Any]], Mapping[str, str]], None]
    checks_version: int

    def check_all(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
        """Check lengths, options and the ranges of every index.

        Raises:
            ArtifactInvalidError: An invariant does not hold.
        """
        self.check_shape(arrays, metadata)
        self.check(arrays, metadata)


def checks_of(name: str, kind: ArtifactKind) -> str:
    """Return what the memory of verified files calls the checks of a kind, by its name."""
    return f"{name}-{FORMAT_VERSION}.{kind.checks_version}"


def map_verified(
    path: Path,
    kinds: Mapping[str, ArtifactKind],
    limits: ArtifactLimits,
    *,
    copy: bool = False,
    name: Place | None = None,
) -> ArtifactFile:
    """Map a file and verify it, or remember that it was verified (see ``VerifiedFiles``).

    Frame, schema, Arrow layout, lengths and options are checked every time; digest and ranges once
    for a file.

    Args:
        path: The file.
        kinds: The kinds of artifact that may be read.
        limits: What reading may cost.
        copy: Read it into memory whatever its size.
        name: What it was opened by, for messages, if not the path.

    Returns:
        Kind, schema metadata and arrays.

    Raises:
        As ``cdec.core.artifacts.opened.open_artifact``, but for the mismatch.
    """
    name = path if name is None else name
    data, status = contents_of(path, limits, sys.maxsize if copy else COPIED_BYTES)
    frame = read_frame(memoryview(data), str(name))
    kind = _check_frame(memoryview(data), frame, kinds, str(name))
    checks = checks_of(frame.metadata["cdec.kind"], kind)
    verified, digest = VerifiedFiles(checks), frame.metadata.get(DIGEST_KEY, "")
    if verified.knows(str(path), status, digest):
        reader = _open_arrow(data, kind, str(name))
        arrays = _arrays(reader, kind, str(name), validate=False)
        kind.check_shape(arrays, frame.metadata)
        return ArtifactFile(frame.metadata["cdec.kind"], frame.metadata, arrays, name, path)
    file = replace(_verified(data, frame, kind, name), local=path)
    verified.remember(str(path), status, digest)
    return file


def peek_metadata(path: FilePath) -> dict[str, str]:
    """Return what a file says of itself in its schema metadata; nothing of it is verified.

    Args:
        path: The file; that of a URL is fetched, as ``read_artifact`` does.

    Returns:
        The metadata; no ``cdec.kind`` in an Arrow file of another program. Cost: two small reads,
        whatever the size of the file.

    Raises:
        InputMissingError: It cannot be read.
        ArtifactFormatError, ArtifactChecksumError, LimitError: It is damaged or no Arrow file.
    """
    data, _ = contents_of(local_copy(path), ArtifactLimits(), 0)
    return read_frame(memoryview(data), str(path)).metadata


def verify_bytes(data: Any, kinds: Mapping[str, ArtifactKind]) -> ArtifactFile:
    """Verify an artifact held in memory: all checks of ``map_verified``, nothing remembered."""
    frame = read_frame(memoryview(data), str(UNNAMED))
    kind = _check_frame(memoryview(data), frame, kinds, str(UNNAMED))
    return _verified(data, frame, kind, UNNAMED)


def _verified(data: Any, frame: Frame, kind: ArtifactKind, path: Place) -> ArtifactFile:
    reader = _open_arrow(data, kind, str(path))
    verify_digest(memoryview(data), frame, str(path))
    arrays = _arrays(reader, kind, str(path), validate=True)
    kind.check_all(arrays, frame.metadata)
    return ArtifactFile(frame.metadata["cdec.kind"], frame.metadata, arrays, path)


def _check_frame(
    data: memoryview, frame: Frame, kinds: Mapping[str, ArtifactKind], path: str
) -> ArtifactKind:
    """Check compression, version, extension types and batches, in this order."""
    if frame.is_compressed:
        if DIGEST_KEY in frame.metadata:
            # A damaged header may look compressed; then it is the damage that should be told.
            verify_digest(data, frame, path)
        raise LimitError(
            f"{path} has compressed buffers; artifacts are mapped and never decompressed",
            hint=_AGAIN,
            path=path,
            limit="uncompressed buffers only",
        )
    if "cdec.kind" not in frame.metadata:
        raise ArtifactFormatError(
            f"{path} is an Arrow file, but no cdec artifact", hint=_AGAIN, path=path
        )
    written, version = frame.metadata.get("cdec.version", "?"), frame.metadata.get("cdec.format")
    if version != str(FORMAT_VERSION):
        raise ArtifactVersionError(
            f"{path} has format version {version}, written by cdec {written}; this cdec reads "
            f"version {FORMAT_VERSION}",
            hint=f"upgrade cdec to {written} or later, or compile the artifact again",
            path=path,
        )
    name = frame.metadata["cdec.kind"]
    if name not in kinds:
        raise ArtifactVersionError(
            f"{path} is an artifact of kind {name!r}; this cdec reads {', '.join(kinds)}",
            hint=f"upgrade cdec to {written} or later",
            path=path,
        )
    if frame.extension is not None:
        raise _schema_error(path, f"column {frame.extension} has an extension type", "plain types")
    if frame.batches != 1 or frame.dictionaries:
        found = f"{frame.batches} batches and {frame.dictionaries} dictionaries"
        raise _schema_error(path, found, "one batch and no dictionary")
    return kinds[name]


def _schema_error(path: str, found: str, expected: str, **details: object) -> ArtifactSchemaError:
    return ArtifactSchemaError(
        f"{path}: {found}; expected {expected}", hint=_AGAIN, path=path, **details
    )


def _open_arrow(data: Any, kind: ArtifactKind, path: str) -> Any:
    """Open the file with pyarrow and compare its schema with the kind's."""
    try:
        reader = pa.ipc.open_file(pa.py_buffer(data))
        types = {field.name: field.type for field in reader.schema}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactFormatError(
            f"{path}: damaged Arrow file: {error}", hint=_AGAIN, path=path
        ) from None
    for name in kind.columns:
        if name not in types:
            raise _schema_error(path, f"no column {name}", "all columns", column=name)
    for name in reader.schema.names:
        if name not in kind.columns or reader.schema.names.count(name) > 1:
            raise _schema_error(path, f"a column {name!r}", "no such column", column=name)
        expected = pa.type_for_alias(kind.columns[name])
        found = types[name]
        if not pa.types.is_large_list(found) or found.value_type != expected:
            shape = f"large_list<{expected}>"
            raise _schema_error(path, f"column {name} is {found}", shape, column=name)
    return reader


def _arrays(
    reader: Any, kind: ArtifactKind, path: str, *, validate: bool
) -> dict[str, NDArray[Any]]:
    """Return the columns as read-only numpy views; the Arrow layout is checked in any case."""
    try:
        batch = reader.get_batch(0)
        batch.validate(full=validate)
        if batch.num_rows != 1:
            raise _schema_error(path, f"{batch.num_rows} rows", "one row")
        return {name: _view(batch.column(name), name) for name in kind.columns}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactInvalidError(
            f"{path}: damaged Arrow batch: {error}", hint=_AGAIN, path=path
        ) from None


def _view(column: Any, name: str) -> NDArray[Any]:
    """Return the one list of a column as a numpy array, without a copy."""
    # subtle: to_numpy of pyarrow imports pandas where there is one, which takes half a second.
    offsets = np.from_dlpack(column.offsets)
    values = column.values
    if column.null_count or values.null_count or offsets[0] != 0 or offsets[1] != len(values):
        raise ValueError(f"column {name} is not one whole list")
    array: NDArray[Any] = np.from_dlpack(values).view()
    array.flags.writeable = False
    return array


def contents_of(
    path: Path, limits: ArtifactLimits, copied_bytes: int
) -> tuple[Any, os.stat_result]:
    """Read a regular file of at most ``copied_bytes``, or map it.

    A map keeps its inode, whatever happens to the name; but where the file itself is cut while it
    is mapped, the system ends the process (SIGBUS) that reads what is gone.

    Args:
        path: The file.
        limits: What reading may cost.
        copied_bytes: Largest file that is read into memory.

    Returns:
        The contents, bytes-like, and the status of the file that they are of.

    Raises:
        InputMissingError: It cannot be read.
        ArtifactFormatError: It is no regular file, or was cut while it was read.
        LimitError: It is larger than the limits.
    """
    if str(path) == "-":
        raise ArtifactFormatError(
            "an artifact is memory-mapped and cannot be read from standard input",
            hint="give the name of a file",
        )
    try:
        # subtle: O_NONBLOCK, or opening a named pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputMissingError(
            f"cannot read the artifact {path}: {reason}", hint="check the name", path=str(path)
        ) from None
    try:
        status = os.fstat(descriptor)
        _check_status(path, status, limits)
        if not status.st_size:
            return b"", status
        if status.st_size <= copied_bytes:
            data = _read_whole(descriptor, status.st_size, path)
            # What was written meanwhile makes it another file than the one that is remembered.
            return data, os.fstat(descriptor)
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), status
    finally:
        os.close(descriptor)


def _read_whole(descriptor: int, size: int, path: Path) -> bytearray:
    data, done = bytearray(size), 0
    with memoryview(data) as view:
        while done < size:
            read = os.preadv(descriptor, [view[done:]], done)
            if not read:
                raise ArtifactFormatError(
                    f"{path} was cut while it was read: {done} of {size} bytes",
                    hint="wait until it is written, and try again",
                    path=str(path),
                )
            done += read
    return data


def _check_status(path: Path, status: os.stat_result, limits: ArtifactLimits) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InputMissingError(
            f"{path} is a folder, expected an artifact file", hint="check the name", path=str(path)
        )
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactFormatError(
            f"{path} is a pipe or a device; an artifact is memory-mapped from a regular file",
            hint="write it to a file first",
            path=str(path),
        )
    if status.st_size > limits.max_bytes:
        raise LimitError(
            f"{path} has {status.st_size} bytes, more than {limits.max_bytes}",
            path=str(path),
            limit=f"max_bytes {limits.max_bytes}",
        )


class VerifiedFiles:
    """Remembers which files were verified, one small file each in the cache directory.

    A file is known by its path, device, inode, size and times in nanoseconds; the entry also holds
    its recorded digest and the version of the checks. A cache that cannot be read or written, or
    that others may write to, only means that files are verified again.
    """

    def __init__(self, checks: str) -> None:
        self._checks = checks
        self._folder = CacheFolder("verified", most=MAX_REMEMBERED, max_bytes=_MAX_ENTRY_BYTES)

    def _entry(self, path: str, status: os.stat_result, digest: str) -> tuple[str, bytes]:
        resolved = os.path.realpath(path)
        name = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:32]
        facts = [status.st_dev, status.st_ino, status.st_size]
        facts += [status.st_mtime_ns, status.st_ctime_ns]
        said = json.dumps([resolved, *facts, digest, self._checks])
        return f"{name}.json", said.encode("utf-8", "surrogatepass")

    def knows(self, path: str, status: os.stat_result, digest: str) -> bool:
        """Say whether exactly this file was found good before."""
        name, expected = self._entry(path, status, digest)
        return bytes(self._folder.read(name) or b"") == expected

    def remember(self, path: str, status: os.stat_result, digest: str) -> None:
        """Note that this file was found good; forget the oldest beyond ``MAX_REMEMBERED``."""
        self._folder.keep(*self._entry(path, status, digest))
