"""The bytes of an artifact file: read into memory where it is small, mapped where it is not."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdec.core.errors import ArtifactFormatError, InputMissingError, LimitError
from cdec.core.files.fetched import MAX_FETCHED_BYTES

COPIED_BYTES = 4 << 20
"""Files up to this size are read into memory, which costs a millisecond; larger ones are mapped."""


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """What reading an artifact may cost; passing one is a ``LimitError``.

    Attributes:
        max_bytes: Largest file.
        max_fetched_bytes: Largest file of a URL, which is copied to this machine.
    """

    max_bytes: int = 1 << 40
    max_fetched_bytes: int = MAX_FETCHED_BYTES


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
