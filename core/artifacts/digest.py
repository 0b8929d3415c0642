"""The digest of an artifact file, and the memory of files whose contents were found good.

The digest covers every byte of the file but its own two places (the schema metadata stands at the
front and again in the footer), which count as zeros. It is the SHA-256 of the SHA-256 digests of
chunks of ``CHUNK_BYTES``, so that all cores work on it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.frame import Frame
from cdec.core.errors import ArtifactChecksumError
from cdec.core.files.cache import CacheFolder

CHUNK_BYTES = 4 << 20
DIGEST_CHARACTERS = 64
DIGEST_KEY = "cdec.digest"
PLACEHOLDER = hashlib.sha256(b"the digest of a cdec artifact stands here").hexdigest()
"""Stands in the digest's places while the file is written."""
MAX_REMEMBERED = 512
"""Files whose verification is remembered; the oldest are forgotten first."""
_MAX_ENTRY_BYTES = 1 << 16


def digest_places(data: memoryview, frame: Frame, value: str, path: str) -> tuple[int, int]:
    """Return where the digest stands, once in the schema message and once in the footer.

    Raises:
        ArtifactChecksumError: A place is missing: one of the copies differs.
    """
    places = []
    for start, stop in frame.regions:
        found = bytes(data[start:stop]).find(value.encode())
        if len(value) != DIGEST_CHARACTERS or found < 0:
            raise ArtifactChecksumError(
                f"{path}: the two copies of the digest differ",
                hint="compile the artifact again, or copy it again from where it came",
                path=path,
            )
        places.append(start + found)
    return places[0], places[1]


def compute_digest(data: memoryview, places: Iterable[int]) -> str:
    """Return the digest of a file as 64 hexadecimal digits.

    Args:
        data: The whole file, uint8.
        places: Offsets of the digest's own characters, which count as zeros.

    Returns:
        The digest. Cost: one read of the file, about a second a gigabyte and core.
    """
    blanks = [(place, place + DIGEST_CHARACTERS) for place in places]

    def chunk_digest(start: int) -> bytes:
        stop = min(start + CHUNK_BYTES, len(data))
        inside = [(max(a, start), min(b, stop)) for a, b in blanks if a < stop and b > start]
        if not inside:
            return hashlib.sha256(data[start:stop]).digest()
        copy = bytearray(data[start:stop])
        for a, b in inside:
            copy[a - start : b - start] = b"0" * (b - a)
        return hashlib.sha256(copy).digest()

    starts = range(0, len(data), CHUNK_BYTES)
    if len(starts) == 1:
        return hashlib.sha256(chunk_digest(0)).hexdigest()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return hashlib.sha256(b"".join(pool.map(chunk_digest, starts))).hexdigest()


def digest_of_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Return what tells artifacts that are no files from each other, 64 hexadecimal digits.

    Token bytes are left out: the metadata hold the vocabulary's hash.
    """
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        if not name.startswith("vocabulary_"):
            digest.update(f"{name} {arrays[name].dtype.str} {len(arrays[name])} ".encode())
            digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def verify_digest(data: memoryview, frame: Frame, path: str) -> None:
    """Check the recorded digest.

    Raises:
        ArtifactChecksumError: The file is not the one that was written.
    """
    recorded = frame.metadata.get(DIGEST_KEY, "")
    computed = compute_digest(data, digest_places(data, frame, recorded, path))
    if computed != recorded:
        raise ArtifactChecksumError(
            f"{path}: the contents are damaged: digest {computed[:16]}..., recorded "
            f"{recorded[:16]}...",
            hint="compile the artifact again, or copy it again from where it came",
            path=path,
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
