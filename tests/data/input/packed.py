"""Bytes packed by every compression that is read."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pyarrow as pa

KINDS = ("gzip", "xz", "bzip2", "zstd", "lz4")


def pack(kind: str, data: bytes) -> bytes:
    """Return ``data`` as one member of a compressed stream."""
    python = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}
    if kind in python:
        return python[kind](data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
