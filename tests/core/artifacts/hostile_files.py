"""Builders of hostile artifact files: the placeholders of the corpus of bad inputs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdec.compilers import compile_token_set
from cdec.core.artifacts.digest import DIGEST_CHARACTERS, DIGEST_KEY, compute_digest
from cdec.core.artifacts.frame import read_frame
from cdec.core.artifacts.kinds import KINDS
from cdec.core.artifacts.read import verify_bytes
from cdec.core.tokens.vocabulary import Vocabulary

FANOUT = 300
"""Children of the root of the good artifact: enough for a dense node."""


def byte_vocabulary(width: int | None = None) -> Vocabulary:
    """A vocabulary of 320 ordinary tokens and an end-of-sequence id."""
    token_bytes = [b"t%d;" % i for i in range(320)] + [b""]
    return Vocabulary(token_bytes, eos_token_ids=[320], width=width, name="test")


def good_rows() -> list[list[int]]:
    """Rows with a dense node, shared prefixes, a member within a member and a long tail."""
    rows = [[i] for i in range(FANOUT)]
    rows += [[3, i] for i in range(40)]
    return [*rows, [3, 4, 5], [3, 4, 5, 6, 7, 8, 9], [9, 9, 9, 9], [9, 9, 9, 8, 1, 2, 3], [3, 4, 5]]


def GOOD(folder: Path) -> bytes:  # noqa: N802
    """Return the bytes of a valid set artifact."""
    path = folder / "good.arrow"
    if not path.exists():
        compile_token_set(good_rows(), byte_vocabulary(), path, source="good")
    return path.read_bytes()


def metadata_of(artifact: bytes) -> dict[str, str]:
    """Return the metadata of an artifact, verified."""
    return verify_bytes(artifact, KINDS).metadata


def seal(data: bytes) -> bytes:
    """Write the right digest into a file, so that later checks are reached."""
    frame = read_frame(memoryview(data), "sealed")
    old = frame.metadata[DIGEST_KEY].encode()
    places = [start + data[start:stop].index(old) for start, stop in frame.regions]
    digest = compute_digest(memoryview(data), places).encode()
    result = bytearray(data)
    for place in places:
        result[place : place + DIGEST_CHARACTERS] = digest
    return bytes(result)


def MUTANTS(good: bytes, count: int, seed: int = 0) -> Iterator[bytes]:  # noqa: N802
    """Yield copies with one byte changed at a random place."""
    rng = np.random.default_rng(seed)
    places = rng.integers(len(good), size=count).tolist()
    changes = rng.integers(1, 256, size=count).tolist()
    for place, change in zip(places, changes, strict=True):
        mutant = bytearray(good)
        mutant[place] ^= change
        yield bytes(mutant)


def PATCH(good: bytes, what: str, value: int) -> bytes:  # noqa: N802
    """Overwrite the end offset of the ``tokens`` list inside the file, and seal it."""
    if what != "list offsets":
        raise ValueError(f"a set artifact has no {what}")
    buffer = pa.py_buffer(good)
    batch = pa.ipc.open_file(buffer).get_batch(0)
    offsets = batch.column("tokens").buffers()[1]
    place = offsets.address - buffer.address + 8
    return seal(good[:place] + struct.pack("<q", value) + good[place + 8 :])


def arrays_of(good: bytes) -> dict[str, NDArray[Any]]:
    """Return writable copies of an artifact's arrays."""
    batch = pa.ipc.open_file(pa.py_buffer(good)).get_batch(0)
    return {
        name: batch.column(name).values.to_numpy(zero_copy_only=False).copy()
        for name in batch.schema.names
    }


def REBUILD(  # noqa: N802
    good: bytes,
    arrays: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    drop: str | None = None,
    field_metadata: Mapping[bytes, bytes] | None = None,
    rows: int = 1,
    batches: int = 1,
) -> bytes:
    """Write the artifact again with other contents, valid Arrow and a right digest.

    Args:
        good: A valid artifact.
        arrays: Columns to replace or add: numpy arrays, or Arrow arrays of ``rows`` rows.
        metadata: Schema metadata to replace or add.
        drop: A column to leave out.
        field_metadata: Metadata of the field ``tokens``.
        rows: Rows of the batch: every list is repeated.
        batches: Times the batch is written.
    """
    merged: dict[str, Any] = arrays_of(good) | dict(arrays or {})
    columns = {
        name: value if isinstance(value, pa.Array) else _lists(value, rows)
        for name, value in merged.items()
        if name != drop
    }
    old = pa.ipc.open_file(pa.py_buffer(good)).schema.metadata
    new = old | {key.encode(): value.encode() for key, value in (metadata or {}).items()}
    fields = [
        pa.field(name, column.type, metadata=field_metadata if name == "tokens" else None)
        for name, column in columns.items()
    ]
    schema = pa.schema(fields, metadata=new)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    return seal(sink.getvalue().to_pybytes())


def DROP(good: bytes, column: str) -> bytes:  # noqa: N802
    """Leave a column out."""
    return REBUILD(good, drop=column)


def META(good: bytes, metadata: Mapping[str, str]) -> bytes:  # noqa: N802
    """Change schema metadata."""
    return REBUILD(good, metadata=metadata)


def WITH_EXTENSION(good: bytes, name: str, payload: bytes) -> bytes:  # noqa: N802
    """Declare the column ``tokens`` to be of an extension type."""
    keys = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": payload}
    return REBUILD(good, field_metadata=keys)


def ZSTD_ARROW(good: bytes, zeros: int) -> bytes:  # noqa: N802
    """Compress the buffers, and claim that the tokens are ``zeros`` bytes of zeros."""
    columns = {name: _lists(value, 1) for name, value in arrays_of(good).items()}
    columns["tokens"] = _lists(np.zeros(10_000_000, np.int32), 1)
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in columns.items()],
        metadata=pa.ipc.open_file(pa.py_buffer(good)).schema.metadata,
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    data = sink.getvalue().to_pybytes()
    # A compressed buffer begins with its size after decompression.
    claimed = data.replace(struct.pack("<q", 40_000_000), struct.pack("<q", zeros))
    return seal(claimed)


def UNFINISHED_WRITER(good: bytes) -> bytes:  # noqa: N802
    """Return what is on disk while an Arrow writer has not closed its file."""
    reader = pa.ipc.open_file(pa.py_buffer(good))
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_file(sink, reader.schema)
    writer.write_batch(reader.get_batch(0))
    return sink.getvalue().to_pybytes()


def _lists(values: NDArray[Any], rows: int) -> Any:
    return pa.LargeListArray.from_arrays(
        pa.array([i * len(values) for i in range(rows + 1)], pa.int64()),
        pa.array(np.tile(values, rows)),
    )
