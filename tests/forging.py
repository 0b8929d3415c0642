"""Forged artifacts: other contents in valid Arrow under a right digest, and forged memory of them.

Works for every kind of file that ``write_artifact`` writes: sets, grammars, trees. What a forger
can do who knows the format, and nothing that the code under test does for him.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.core.artifacts import read as artifact_read
from cdec.core.artifacts.frame import read_frame
from cdec.core.artifacts.read import VerifiedFiles
from cdec.core.artifacts.write import (
    DIGEST_CHARACTERS,
    DIGEST_KEY,
    compute_digest,
)


def seal(data: bytes) -> bytes:
    """Write the right digest into a file, so that later checks are reached.

    Raises:
        ValueError, KeyError: There is no place for it.
        CdecError: The frame is broken.
    """
    frame = read_frame(memoryview(data), "sealed")
    old = frame.metadata[DIGEST_KEY].encode()
    places = [start + data[start:stop].index(old) for start, stop in frame.regions]
    digest = compute_digest(memoryview(data), places).encode()
    result = bytearray(data)
    for place in places:
        result[place : place + DIGEST_CHARACTERS] = digest
    return bytes(result)


def metadata_of(data: bytes) -> dict[str, str]:
    """Return the metadata of an artifact; nothing is verified."""
    return read_frame(memoryview(data), "forged").metadata


def arrays_of(data: bytes) -> dict[str, NDArray[Any]]:
    """Return writable copies of an artifact's arrays."""
    batch = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
    return {
        name: batch.column(name).values.to_numpy(zero_copy_only=False).copy()
        for name in batch.schema.names
    }


def rebuild(
    data: bytes,
    arrays: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    drop: str | None = None,
    field_metadata: Mapping[bytes, bytes] | None = None,
    rows: int = 1,
    batches: int = 1,
) -> bytes:
    """Write an artifact again with other contents, valid Arrow and a right digest.

    Args:
        data: A valid artifact.
        arrays: Columns to replace or add: numpy arrays, or Arrow arrays of ``rows`` rows.
        metadata: Schema metadata to replace or add.
        drop: A column to leave out.
        field_metadata: Metadata of the first field.
        rows: Rows of the batch: every list is repeated.
        batches: Times the batch is written.
    """
    merged: dict[str, Any] = arrays_of(data) | dict(arrays or {})
    columns = {
        name: value if isinstance(value, pa.Array) else lists(value, rows)
        for name, value in merged.items()
        if name != drop
    }
    old = pa.ipc.open_file(pa.py_buffer(data)).schema.metadata
    new = old | {key.encode(): value.encode() for key, value in (metadata or {}).items()}
    first = next(iter(columns))
    fields = [
        pa.field(name, column.type, metadata=field_metadata if name == first else None)
        for name, column in columns.items()
    ]
    schema = pa.schema(fields, metadata=new)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    return seal(sink.getvalue().to_pybytes())


def lists(values: NDArray[Any], rows: int = 1) -> Any:
    """Return an Arrow column of ``rows`` equal lists."""
    return pa.LargeListArray.from_arrays(
        pa.array([i * len(values) for i in range(rows + 1)], pa.int64()),
        pa.array(np.tile(values, rows)),
    )


def pretend_verified(path: Path, checks: str | None = None) -> None:
    """Forge the memory that a file was verified: its digest and contents are not looked at again.

    Args:
        path: Of a kind in ``cdec.core.kinds.SOURCE_KINDS``, unless ``checks`` is given.
        checks: What names kind and version of the checks, as ``checks_of`` gives it.
    """
    from cdec.core.artifacts.opened import KINDS

    frame = read_frame(memoryview(path.read_bytes()), str(path))
    kind = frame.metadata["cdec.kind"]
    if checks is None:
        checks = artifact_read.checks_of(kind, KINDS[kind])
    memory = VerifiedFiles(checks)
    memory.remember(str(path), path.stat(), frame.metadata[DIGEST_KEY])
