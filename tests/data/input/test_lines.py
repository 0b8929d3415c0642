"""Blocks of lines: numbers, offsets and limits hold whatever the chunks are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EncodingError, LineTooLongError
from cdec.data.input.lines import LineBlock, LineBlocks, LongLine, decode_line, numbered_lines
from cdec.data.input.source import InputLimits

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
