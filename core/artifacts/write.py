"""Artifact files as they are written: Arrow, with the digest of its body in its metadata.

The digest covers every byte of the file but its own two places (the schema metadata stands at the
front and again in the footer), which count as zeros. It is the SHA-256 of the SHA-256 digests of
chunks of ``CHUNK_BYTES``, so that all cores work on it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts.frame import Frame, read_frame
from cdec.core.errors import ArtifactChecksumError
from cdec.core.files.whole import whole_file
from cdec.core.tokens.vocabulary import Vocabulary

FORMAT_VERSION = 1
MADE_FROM_KEY = "cdec.made_from"
"""Key of a compiling command's note of source and options, to know them again."""
CHUNK_BYTES = 4 << 20
DIGEST_CHARACTERS = 64
DIGEST_KEY = "cdec.digest"
PLACEHOLDER = hashlib.sha256(b"the digest of a cdec artifact stands here").hexdigest()
"""Stands in the digest's places while the file is written."""


def recorded_metadata(
    vocabulary: Vocabulary,
    source: str,
    source_hash: str,
    options: Mapping[str, object],
    counts: Mapping[str, int],
) -> dict[str, str]:
    """Return the schema metadata that the artifact of a named source has, of whatever kind.

    The tokenisation is left out, for kinds whose masks depend on the tokens' bytes alone.
    """
    return {
        "cdec.vocabulary_hash": vocabulary.vocabulary_hash,
        "cdec.tokenization_hash": "",
        "cdec.vocabulary_size": str(vocabulary.size),
        "cdec.vocabulary_name": vocabulary.name.encode("utf-8", "replace").decode(),
        "cdec.eos": json.dumps(list(vocabulary.eos_token_ids)),
        "cdec.source": source.encode("utf-8", "replace").decode(),
        "cdec.source_hash": source_hash,
        "cdec.options": json.dumps(options, sort_keys=True),
        "cdec.counts": json.dumps(counts, sort_keys=True),
    }


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
    with whole_file(path, force=force) as file:
        _write_arrow(file, arrays, _full_metadata(kind, metadata))
        _patch_digest(file, str(path))


def _full_metadata(kind: str, metadata: Mapping[str, str]) -> dict[str, str]:
    from importlib.metadata import version

    own = {
        "cdec.kind": kind,
        "cdec.format": str(FORMAT_VERSION),
        "cdec.version": version("cdec"),
        DIGEST_KEY: PLACEHOLDER,
    }
    return own | {key: value for key, value in metadata.items() if key not in own}


def _write_arrow(
    file: BinaryIO, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]
) -> None:
    """Write one record batch of one row: a LargeList column for every array."""
    columns = {name: _large_list(array) for name, array in arrays.items()}
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    schema = pa.schema(fields, metadata=metadata)
    batch = pa.record_batch(list(columns.values()), schema=schema)
    with pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema) as writer:
        writer.write_batch(batch)


def _large_list(array: NDArray[Any]) -> Any:
    """Wrap a numpy array as a LargeList array of one row, without a copy."""
    offsets = np.array([0, len(array)], np.int64)
    return pa.LargeListArray.from_arrays(_arrow(offsets), _arrow(np.ascontiguousarray(array)))


def _arrow(array: NDArray[Any]) -> Any:
    # subtle: `array` of pyarrow imports pandas where there is one, which takes half a second.
    buffers = [None, pa.py_buffer(array)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), buffers)


def _patch_digest(file: BinaryIO, path: str) -> None:
    """Compute the digest of the written file and put it in its two places."""
    file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = memoryview(mapped)
        try:
            places = digest_places(data, read_frame(data, path), PLACEHOLDER, path)
            digest = compute_digest(data, places)
        finally:
            data.release()
    for place in places:
        file.seek(place)
        file.write(digest.encode())


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
