"""Writing an artifact file: Arrow, with the digest of its body in its metadata."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts.digest import DIGEST_KEY, PLACEHOLDER, compute_digest, digest_places
from cdec.core.artifacts.frame import read_frame
from cdec.core.files.whole import whole_file

FORMAT_VERSION = 1
MADE_FROM_KEY = "cdec.made_from"
"""What a compiling command notes of source and options, to know them again."""


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
