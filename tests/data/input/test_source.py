"""Sources of bytes: files, pipes, lines as they arrive."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import queue
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import (
    DataError,
    EncodingError,
    InputMissingError,
    LimitError,
    LineTooLongError,
    UsageError,
)
from cdec.data.input.arrivals import Arrivals
from cdec.data.input.decompress import compression_of, decompress
from cdec.data.input.lines import LineBlock, LineBlocks, LongLine, decode_line, numbered_lines
from cdec.data.input.source import InputLimits, SourceStats, open_source, read_chunks
from tests.data.input.packed import KINDS, pack

# --- Opening inputs: compression by content, limits, encodings that are not UTF-8, missing files.


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


@pytest.mark.share(2)
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


# --- Blocks of lines: numbers, offsets and limits hold whatever the chunks are.

LIMITS = InputLimits(max_line_bytes=5)


def events(chunks: list[bytes], limits: InputLimits = LIMITS) -> list[LineBlock | LongLine]:
    return list(LineBlocks(iter(chunks), "x", limits, keep_going=True))


def lines_of(chunks: list[bytes]) -> list[tuple[int, int, bytes | int]]:
    """(number, offset, bytes) of each line; the length in place of the bytes of a long one."""
    found: list[tuple[int, int, bytes | int]] = []
    for event in events(chunks):
        if isinstance(event, LongLine):
            found.append((event.line, event.byte_offset, event.length))
        else:
            found += numbered_lines(event)
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab", max_size=9).map(str.encode), max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_lines_do_not_depend_on_where_chunks_are_cut(
    lines: list[bytes], final_newline: bool, cuts: list[int]
) -> None:
    data = b"\n".join(lines) + (b"\n" if final_newline and lines else b"")
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    chunks = [data[a:b] for a, b in pairwise(places)]
    expected: list[tuple[int, int, bytes | int]] = []
    offset = 0
    kept = data.split(b"\n")
    for number, line in enumerate(kept if kept[-1] else kept[:-1], 1):
        expected.append((number, offset, line if len(line) <= 5 else len(line)))
        offset += len(line) + 1
    assert lines_of(chunks) == expected


def test_long_line_is_hashed_and_not_kept() -> None:
    (event,) = events([b"abc", b"def", b"ghi"])
    assert event == LongLine(1, 0, 9, hashlib.sha256(b"abcdefghi").digest())


def test_endless_line_is_refused_as_soon_as_the_limit_is_passed() -> None:
    taken = 0

    def zeros() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(4)

    with pytest.raises(LineTooLongError) as caught:
        list(LineBlocks(zeros(), "/dev/zero", LIMITS, keep_going=False))
    assert taken == 2
    assert caught.value.details == {"line": 1, "limit": "max_line_bytes 5"}


def test_line_as_long_as_the_limit_is_kept() -> None:
    assert lines_of([b"abcde\nx\n"]) == [(1, 0, b"abcde"), (2, 6, b"x")]


def test_byte_order_mark_counts_in_offsets_and_not_in_the_text() -> None:
    assert lines_of([b"\xef\xbb\xbfa\nb"]) == [(1, 3, b"a"), (2, 5, b"b")]


def test_carriage_return_at_the_end_is_cut_and_inside_is_kept() -> None:
    assert lines_of([b"a\rb\r\nc\r"]) == [(1, 0, b"a\rb"), (2, 5, b"c")]


def test_decode_error_names_the_first_bad_byte_counted_from_one() -> None:
    with pytest.raises(EncodingError) as caught:
        decode_line(b"b\xff\xfea", "x.txt", 2, 6)
    assert caught.value.details == {"line": 2, "byte_offset": 8}
    assert "0xff" in caught.value.message


# --- Items read ahead: their order, their errors, and when nothing comes.

LONG_S = 3600.0
SHORT_S = 0.001


def test_items_come_in_their_order_and_end() -> None:
    arrivals = Arrivals(iter(range(1000)), LONG_S, ahead=3)
    assert list(arrivals) == list(range(1000))
    assert list(arrivals) == [], "the end stays the end"
    assert not arrivals.is_idle(), "an input at its end is not idle"


def test_an_error_stands_behind_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise DataError("damaged", hint="x")

    arrivals = Arrivals(items(), LONG_S, ahead=8)
    assert [next(arrivals), next(arrivals)] == [1, 2]
    with pytest.raises(DataError, match="damaged"):
        next(arrivals)
    with pytest.raises(StopIteration):
        next(arrivals)


def test_an_input_is_idle_while_its_writer_waits_and_not_when_something_is_there() -> None:
    written: queue.Queue[int | None] = queue.Queue()
    arrivals = Arrivals(iter(written.get, None), SHORT_S, ahead=8)
    assert arrivals.is_idle()
    written.put(1)
    assert next(arrivals) == 1
    assert arrivals.is_idle()
    patient = Arrivals(iter(written.get, None), LONG_S, ahead=8)
    written.put(2)
    written.put(3)
    # The older reader took one of the two: the newer sees what is left, or the end.
    written.put(None)
    written.put(None)
    assert not patient.is_idle()


def test_no_more_is_held_than_was_asked_for() -> None:
    taken: list[int] = []
    seen = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            seen.release()
            yield number

    arrivals = Arrivals(items(), LONG_S, ahead=4)
    assert next(arrivals) == 0
    for _ in range(6):
        assert seen.acquire(timeout=60), "the one taken, four held, one in hand"
    assert not seen.acquire(timeout=0.05)
    assert len(taken) == 6
