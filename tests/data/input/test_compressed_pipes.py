"""Compressed pipes: a record is there when its bytes are, whatever the compression."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdec.core.errors import DataError
from cdec.data.input.decompress import COMPRESSIONS, decompress
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, SourceStats, open_source, read_chunks
from cdec.data.prompts.read import read_prompts

from .packed import KINDS, pack

LINES = [json.dumps({"id": i, "prompt": f"prompt {i} é"}).encode() + b"\n" for i in range(20)]


class _Flushed:
    """A compressed stream of which each record is flushed, as a program that waits does."""

    def __init__(self, kind: str) -> None:
        self._sink = io.BytesIO()
        self._deflate: Any = None
        if kind == "gzip":
            self._deflate = zlib.compressobj(wbits=31)
        else:
            self._stream = pa.CompressedOutputStream(pa.PythonFile(self._sink, mode="w"), kind)

    def __call__(self, line: bytes) -> bytes:
        if self._deflate is not None:
            return bytes(self._deflate.compress(line) + self._deflate.flush(zlib.Z_SYNC_FLUSH))
        self._stream.write(line)
        self._stream.flush()
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


def _packers(kind: str) -> list[Callable[[bytes], bytes]]:
    """Return ways of sending a record: a member each, and flushed where a stream can be."""
    members: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "xz": lzma.compress,
        "bzip2": bz2.compress,
    }
    found: list[Callable[[bytes], bytes]] = [members.get(kind, lambda line: pack(kind, line))]
    return found if kind in ("xz", "bzip2") else [*found, _Flushed(kind)]


class _NoMoreError(Exception):
    """The stream goes on, and nothing comes."""


def _arriving(packed: Callable[[bytes], bytes], got: bytearray) -> Iterator[bytes]:
    """Yield packed lines, each when those before it have been got."""
    for sent, line in enumerate(LINES):
        assert got == b"".join(LINES[:sent])
        yield packed(line)
    raise _NoMoreError


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_is_there_before_more_is_asked_for(kind: str) -> None:
    for packed in _packers(kind):
        got = bytearray()
        compression = next(each for each in COMPRESSIONS if each.name == kind)
        pieces = decompress(_arriving(packed, got), compression, "pipe", 200, is_awaited=True)
        with pytest.raises(_NoMoreError):
            for piece in pieces:
                got += piece
        assert got == b"".join(LINES)


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_a_pipe_come_one_by_one_from_their_writer(kind: str) -> None:
    packed = _packers(kind)[-1]
    read_end, write_end = os.pipe()
    answered = threading.Semaphore(0)

    def write() -> None:
        for line in LINES:
            os.write(write_end, packed(line))
            # Waits for the answer: no reader that waits for more ever gets there.
            if not answered.acquire(timeout=20):
                break
        os.close(write_end)

    threading.Thread(target=write, daemon=True).start()
    seen = []
    with os.fdopen(read_end, "rb", buffering=0) as stream:
        records = read_prompts(stream)
        for _ in LINES:
            seen.append(next(records).id)
            answered.release()
    assert seen == list(range(20))


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_line_by_line_and_piece_by_piece_are_the_same_bytes(kind: str, tmp_path: Path) -> None:
    data = b"".join(LINES) * 50 + b"x" * 200_000 + b"\nno newline"
    compression = next(each for each in COMPRESSIONS if each.name == kind)
    packed = pack(kind, data)
    whole = [
        b"".join(decompress(iter([packed]), compression, "x", 10**6, is_awaited=awaited))
        for awaited in (True, False)
    ]
    assert whole == [data, data]
    for awaited in (True, False):
        with pytest.raises(DataError, match="ends early"):
            list(decompress(iter([packed[:-9]]), compression, "x", 10**6, is_awaited=awaited))
    (tmp_path / "x").write_bytes(packed)
    with open_source(tmp_path / "x") as stream:
        limits: InputLimits = PROMPT_LIMITS
        chunks = list(read_chunks(stream, "x", limits=limits, stats=SourceStats()))
    assert (b"".join(chunks), len(chunks) < 10) == (data, True)
