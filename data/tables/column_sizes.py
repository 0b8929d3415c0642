"""What the columns of a Parquet file expand to, read from the headers of their pages.

The footer is a ``FileMetaData`` of parquet.thrift in Thrift's compact protocol, and each page of a
column begins with a ``PageHeader``. What the footer says of sizes binds nobody: pyarrow allocates
what each page's header says. And pyarrow ends the process where a column's metadata contradict
themselves: they are looked at here, where that is an error, and by pyarrow's reader alone, which
raises.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from cdec.core.errors import DataError
from cdec.data.tables.compact import BINARY, INTEGERS, LISTS, STRUCT, Compact

_END = b"PAR1"
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _VALUES, _PACKED, _PAGES, _DICTIONARY = 3, 5, 7, 9, 11
_UNPACKED_PAGE, _PACKED_PAGE, _DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 2, 3, 5, 7, 8
_VALUES_IN_PAGE = 1
_ENCODING = {_DATA_PAGE: 2, _DATA_PAGE_2: 4}
_INDEXED = (0, 2, 8)
"""PLAIN, and two names of indices into a dictionary: what pyarrow reads by index."""
_PREFIXED = 7
"""DELTA_BYTE_ARRAY: a text is a beginning of the one before, and what follows it."""
_WINDOWS = (1 << 8, 1 << 16, 16 << 20)
"""Bytes in which a page's header is looked for; pyarrow reads none that is longer than the last."""
_PADDING = 100
"""Bytes that old writers leave out of a column's size."""


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """A column of one row group.

    Attributes:
        group, column: Their numbers.
        path: Names from the outermost to the innermost, joined by dots.
        unpacked: Bytes of its pages decompressed. packed: As they are. Headers included.
        values: Values of its data pages, nulls and empty lists among them.
        longest: No text is longer that several values share, whole or its beginning, bytes.
        by_index: Whether pyarrow reads it as a dictionary.
    """

    group: int
    column: int
    path: str
    unpacked: int
    packed: int
    values: int
    longest: int
    by_index: bool


def column_sizes(
    stream: BinaryIO, name: str, chosen: Container[int] | None = None
) -> Iterator[ColumnSize]:
    """Yield what the columns of each row group are.

    Args:
        stream: Of the file; it can seek. name: For messages.
        chosen: Numbers of columns; None looks at all.

    Raises:
        DataError: The footer or a page's header is damaged. Cost: some 30 us a column of a row
            group, and a page.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    length = int.from_bytes(end[:4], "little")
    if not end.endswith(_END) or not 0 < length <= size - 8:
        raise _damaged(name, "it does not end as one")
    stream.seek(size - 8 - length)
    left = size
    try:
        for group, chunks in enumerate(_groups(Compact(stream.read(length)))):
            for column, chunk in enumerate(chunks):
                # subtle: no two columns share bytes, so all headers together are read once.
                left -= max(chunk.packed, 0)
                if min(chunk.packed, chunk.values, chunk.start, left) < 0:
                    raise ValueError(f"column {chunk.path!r} does not lie in the file")
                if chosen is None or column in chosen:
                    yield _measured(stream, chunk, group, column)
    except (IndexError, ValueError) as error:
        raise _damaged(name, str(error)) from error


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What the footer says of a column: its path, where it stands, its bytes and values."""

    path: str = ""
    start: int = 0
    packed: int = 0
    values: int = 0


def _groups(footer: Compact) -> list[list[_Chunk]]:
    """Return the columns of each row group."""
    found: list[list[_Chunk]] = []
    for field, kind in footer.fields():
        if field == _ROW_GROUPS and kind in LISTS:
            # subtle: where a field stands twice, the last one counts.
            found = [_row_group(footer) for _ in footer.items(STRUCT)]
        else:
            footer.skip(kind)
    return found


def _row_group(footer: Compact) -> list[_Chunk]:
    found: list[_Chunk] = []
    for field, kind in footer.fields():
        if field == _COLUMNS and kind in LISTS:
            found = [_column(footer) for _ in footer.items(STRUCT)]
        else:
            footer.skip(kind)
    return found


def _column(footer: Compact) -> _Chunk:
    found = _Chunk()
    for field, kind in footer.fields():
        if field == _META_DATA and kind == STRUCT:
            found = _meta_data(footer)
        else:
            footer.skip(kind)
    return found


def _meta_data(footer: Compact) -> _Chunk:
    path, found = "", dict.fromkeys((_VALUES, _PACKED, _PAGES, _DICTIONARY), 0)
    for field, kind in footer.fields():
        if field == _PATH and kind in LISTS:
            path = ".".join(footer.text() for _ in footer.items(BINARY))
        elif field in found and kind in INTEGERS:
            found[field] = footer.integer()
        else:
            footer.skip(kind)
    start, first = found[_PAGES], found[_DICTIONARY]
    return _Chunk(path, first if 0 < first < start else start, found[_PACKED], found[_VALUES])


@dataclass(slots=True)
class _Page:
    """What the header of a page says."""

    unpacked: int = 0
    packed: int = 0
    values: int = 0
    encoding: int = 0
    is_dictionary: bool = False


def _measured(stream: BinaryIO, chunk: _Chunk, group: int, column: int) -> ColumnSize:
    """Read the headers of a column's pages, as many as pyarrow reads.

    Raises:
        IndexError, ValueError: One is damaged, or does not lie in the column.
    """
    at, stop = chunk.start, chunk.start + chunk.packed + _PADDING
    unpacked = values = longest = 0
    by_index = True
    while values < chunk.values and at < chunk.start + chunk.packed:
        length, page = _header(stream, at)
        if min(page.unpacked, page.packed, page.values) < 0 or at + length + page.packed > stop:
            raise ValueError(f"a page of column {chunk.path!r} does not lie in it")
        at += length + page.packed
        unpacked += length + page.unpacked
        values += page.values
        if page.is_dictionary or page.encoding == _PREFIXED:
            longest = max(longest, page.unpacked)
        by_index &= page.encoding in _INDEXED
    packed = at - chunk.start
    return ColumnSize(group, column, chunk.path, unpacked, packed, values, longest, by_index)


def _header(stream: BinaryIO, at: int) -> tuple[int, _Page]:
    """Return the length of a page's header, and what it says."""
    for window in _WINDOWS:
        stream.seek(at)
        header = Compact(stream.read(window))
        try:
            page = _page(header)
        except IndexError:
            if window == _WINDOWS[-1]:
                raise
            continue
        return header.at, page
    raise AssertionError


def _page(header: Compact) -> _Page:
    page = _Page()
    for field, kind in header.fields():
        if field == _UNPACKED_PAGE and kind in INTEGERS:
            page.unpacked = header.integer()
        elif field == _PACKED_PAGE and kind in INTEGERS:
            page.packed = header.integer()
        elif field in _ENCODING and kind == STRUCT:
            for inner, inner_kind in header.fields():
                if inner == _VALUES_IN_PAGE and inner_kind in INTEGERS:
                    page.values = header.integer()
                elif inner == _ENCODING[field] and inner_kind in INTEGERS:
                    page.encoding = header.integer()
                else:
                    header.skip(inner_kind)
        else:
            page.is_dictionary |= field == _DICTIONARY_PAGE
            header.skip(kind)
    return page


def _damaged(name: str, problem: str) -> DataError:
    return DataError(
        f"{name} cannot be read as Parquet: its metadata are damaged: {problem}",
        hint="check that the file is whole, or name its format with `format`",
    )
