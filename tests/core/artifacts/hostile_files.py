"""Builders of hostile artifact files: the placeholders of the corpus of bad inputs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from cdec.compilers import compile_token_set
from cdec.core.tokens.vocabulary import Vocabulary
from tests.forging import arrays_of, lists, rebuild, seal

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


def DROP(good: bytes, column: str) -> bytes:  # noqa: N802
    """Leave a column out."""
    return rebuild(good, drop=column)


def META(good: bytes, metadata: Mapping[str, str]) -> bytes:  # noqa: N802
    """Change schema metadata."""
    return rebuild(good, metadata=metadata)


def WITH_EXTENSION(good: bytes, name: str, payload: bytes) -> bytes:  # noqa: N802
    """Declare the column ``tokens`` to be of an extension type."""
    keys = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": payload}
    return rebuild(good, field_metadata=keys)


def ZSTD_ARROW(good: bytes, zeros: int) -> bytes:  # noqa: N802
    """Compress the buffers, and claim that the tokens are ``zeros`` bytes of zeros."""
    columns = {name: lists(value) for name, value in arrays_of(good).items()}
    columns["tokens"] = lists(np.zeros(10_000_000, np.int32))
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
