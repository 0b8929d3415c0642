"""Remote and compressed sources."""

from __future__ import annotations

import builtins
import bz2
import gzip
import io
import json
import lzma
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.core.errors import DataError, ExtraMissingError, InputMissingError
from cdec.core.files.remote import is_url
from cdec.data.entities.source import read_entities
from cdec.data.input.decompress import COMPRESSIONS, decompress
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, SourceStats, open_source, read_chunks
from cdec.data.prompts.read import read_prompts
from cdec.data.rows.count import count_records
from tests.data.input.packed import KINDS, pack

# --- URLs: read through fsspec; what is missing is said, with the command that installs it.


@pytest.fixture
def bucket() -> Iterator[str]:
    """A folder of files in memory."""
    files = fsspec.filesystem("memory")
    table = pa.table({"id": [1, 2, 3], "prompt": ["a", "b", "c"], "text": ["x", "y", "z"]})
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink)
    contents = {
        "p.parquet": sink.getvalue(),
        "p.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist()),
        "p.csv": b"id,prompt,text\n1,a,x\n2,b,y\n3,c,z\n",
    }
    contents["p.jsonl.gz"] = gzip.compress(contents["p.jsonl"])
    for name, data in contents.items():
        files.pipe(f"/bucket/{name}", data)
    yield "memory://bucket"
    files.rm("/bucket", recursive=True)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl", "p.jsonl.gz", "p.csv"])
def test_prompts_and_entities_come_from_urls(bucket: str, name: str) -> None:
    url = f"{bucket}/{name}"
    assert [str(record.id) for record in read_prompts(url)] == ["1", "2", "3"]
    (batch,) = read_entities(url, field="text", id_field="id")
    assert (batch.texts, batch.ids) == (["x", "y", "z"], ["1", "2", "3"])
    assert count_records(url) is None


def test_a_file_url_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"one\ntwo\n")
    url = (tmp_path / "p.txt").as_uri()
    assert [record.line for record in read_prompts(url)] == [1, 2]


def test_paths_are_no_urls() -> None:
    assert is_url("s3://b/k")
    assert is_url("simplecache::s3://b/k")
    for path in ("a.txt", "-", "/a//b", "c:/x", "s3:/b/k", "://x", Path("s3://b/k")):
        assert not is_url(path)


@pytest.mark.parametrize(
    ("url", "code"),
    [("memory://bucket/none", "no such file"), ("nokind://a/b", "nokind")],
)
def test_a_url_that_cannot_be_read_is_named(url: str, code: str) -> None:
    with pytest.raises(InputMissingError, match=code) as caught, open_source(url):
        pass
    assert caught.value.details["path"] == url


@pytest.mark.parametrize(
    ("url", "package"), [("s3://b/k", "s3fs"), ("gs://b/k", "gcsfs"), ("memory://b", "fsspec")]
)
def test_a_missing_package_is_named_with_its_command(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        if package != "fsspec":
            monkeypatch.delitem(sys.modules, name)
    if package != "fsspec":
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissingError, match=package) as caught, open_source(url):
        pass
    assert caught.value.hint == 'pip install "cdec[remote]"'


def test_a_failing_read_of_a_url_is_an_input_error(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.memory import MemoryFile

    class ServiceError(Exception):
        """What packages of file systems raise: nothing that they share."""

    def broken(self: Any, *_: Any) -> bytes:
        raise ServiceError("slow down")

    monkeypatch.setattr(MemoryFile, "read1", broken)
    with pytest.raises(InputMissingError, match="ServiceError: slow down"):
        list(read_prompts(f"{bucket}/p.jsonl"))


# --- Compressed pipes: a record is there when its bytes are, whatever the compression.

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
