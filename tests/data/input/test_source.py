"""Opening inputs: compression by content, limits, encodings that are not UTF-8, missing files."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from cdec.core.errors import (
    DataError,
    EncodingError,
    InputMissingError,
    LimitError,
    UsageError,
)
from cdec.data.input.decompress import compression_of, decompress
from cdec.data.input.source import InputLimits, SourceStats, open_source, read_chunks
from tests.data.input.packed import KINDS, pack


def read(data: bytes, limits: InputLimits | None = None, stats: SourceStats | None = None) -> bytes:
    chunks = read_chunks(
        io.BytesIO(data), "x", limits=limits or InputLimits(), stats=stats or SourceStats()
    )
    return b"".join(chunks)


class Trickle(io.RawIOBase):
    """A stream that gives one byte a read, as a slow pipe does."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def read(self, size: int = -1) -> bytes:
        first, self._rest = self._rest[:1], self._rest[1:]
        return first


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_input_is_recognised_by_content(kind: str) -> None:
    data = "alpha\nbêta\n".encode() * 1000
    packed = pack(kind, data)
    assert read(packed) == data
    assert read(packed + packed) == data + data, "concatenated members are one input"
    assert read(pack(kind, b"")) == b""
    trickle = cast(BinaryIO, Trickle(packed))
    assert b"".join(read_chunks(trickle, "x", limits=InputLimits(), stats=SourceStats())) == data


def test_padding_after_a_gzip_member_is_passed_over() -> None:
    assert read(gzip.compress(b"a\n") + bytes(512)) == b"a\n"


def test_a_file_of_pzstd_begins_with_a_frame_to_be_skipped() -> None:
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    packed = pack("zstd", b"a\n")
    assert read(skipped + packed + skipped + packed) == b"a\na\n"


@pytest.mark.parametrize("text", [b"BZhang Wei\n", b"BZh9 1AY&SY\n", b"(\n", b"(", b"BZh"])
def test_text_that_begins_like_a_compressed_file_stays_text(text: bytes) -> None:
    assert read(text) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_compressed_stream_torn_at_any_byte_is_an_error(kind: str) -> None:
    first, second = pack(kind, os.urandom(100)), pack(kind, b"alpha\n" * 9)
    whole = first + second
    for length in range(10, len(whole)):
        if length != len(first):
            with pytest.raises(DataError, match="ends early"):
                read(whole[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_compressed_input_is_an_error(kind: str) -> None:
    packed = pack(kind, os.urandom(5000))
    with pytest.raises(DataError):
        read(packed + b"garbage")
    if kind in ("gzip", "xz", "bzip2"):  # the others may be written without a checksum
        with pytest.raises(DataError, match="damaged"):
            read(packed[:200] + b"!!!!" + packed[204:])


@pytest.mark.parametrize("kind", KINDS)
def test_decompression_bomb_is_refused_early(kind: str) -> None:
    member = pack(kind, b"a" * 10_000_000)
    stats = SourceStats()
    with pytest.raises(LimitError) as caught:
        read(member * 100, stats=stats)
    assert caught.value.details["limit"] == "max_expansion 200"
    assert stats.bytes_read <= 1 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_bomb_of_one_member_is_refused_before_much_of_it_is_handed_on(kind: str) -> None:
    handed_on = 0
    packed = pack(kind, b"a" * 40_000_000)
    compression = compression_of(packed[:16])
    assert compression is not None
    assert compression.name == kind
    with pytest.raises(LimitError):
        for piece in decompress(iter([packed]), compression, "bomb", 200):
            handed_on += len(piece)
    assert handed_on < 20 << 20


def test_small_file_may_expand_as_it_likes() -> None:
    assert len(read(gzip.compress(bytes(8_000_000)))) == 8_000_000


def test_input_beyond_the_limit_is_refused() -> None:
    with pytest.raises(LimitError, match="longer than 10 bytes"):
        read(b"a" * 11, InputLimits(max_input_bytes=10))
    assert read(b"a" * 10, InputLimits(max_input_bytes=10)) == b"a" * 10


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_named(encoding: str) -> None:
    text = "Foreign relations of Angola\nForeign relations of Chad\n"
    with pytest.raises(EncodingError) as caught:
        read(text.encode(encoding))
    assert f"looks like {encoding[:6].upper()}" in caught.value.message
    assert caught.value.details["line"] == 1


def test_nul_bytes_alone_are_text() -> None:
    assert read(bytes(100)) == bytes(100)
    assert read(b"a\x00b\n" * 50) == b"a\x00b\n" * 50


def test_pipe_bytes_are_passed_on_before_the_writer_ends() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as sink:
        chunks = read_chunks(stream, "pipe", limits=InputLimits(), stats=SourceStats())
        sink.write(b"first\n")
        assert next(chunks) == b"first\n"
        sink.write(b"second\n")
        assert next(chunks) == b"second\n"


def test_missing_directory_and_odd_names_are_input_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "nope.txt", tmp_path, tmp_path / "a.txt" / "b", "nul\0name"):
        with pytest.raises(InputMissingError) as caught, open_source(path):
            pass
        assert caught.value.details["path"] == str(path)


def test_unreadable_file_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(b"a\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InputMissingError, match="Permission"), open_source(path):
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_that_fails_under_a_decompressor_is_an_input_error(kind: str) -> None:
    packed = pack(kind, os.urandom(100_000))

    class Broken(io.RawIOBase):
        sizes = iter([40_000])

        def read(self, size: int = -1) -> bytes:
            for length in self.sizes:
                return packed[:length]
            raise OSError(5, "Input/output error")

    with pytest.raises(InputMissingError, match="Input/output"):
        for _ in read_chunks(
            cast(BinaryIO, Broken()), "disk", limits=InputLimits(), stats=SourceStats()
        ):
            pass


def test_failing_read_is_an_input_error() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(InputMissingError, match="Input/output"):
        next(
            read_chunks(cast(BinaryIO, Broken()), "disk", limits=InputLimits(), stats=SourceStats())
        )


def test_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    with open_source("-") as stream:
        assert stream.read() == b"a\n"


def test_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    feeder.start()
    with open_source(path) as stream:
        chunks = read_chunks(stream, "fifo", limits=InputLimits(), stats=SourceStats())
        assert b"".join(chunks) == b"a\nb\n"
    feeder.join()


@pytest.mark.parametrize("name", ["max_line_bytes", "max_input_bytes", "max_expansion"])
def test_limits_of_inputs_are_checked_where_they_are_made(name: str) -> None:
    with pytest.raises(UsageError, match=f"^`{name}` is 0, expected at least 1"):
        InputLimits(**{name: 0})
