"""What the columns of a Parquet file hold, read from its footer without pyarrow.

The footer is a ``FileMetaData`` of parquet.thrift in Thrift's compact protocol. pyarrow ends the
process where a column's metadata contradict themselves: they are looked at here, where that is an
error, and by pyarrow's reader alone, which raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from cdec.core.errors import DataError

_END = b"PAR1"
_BOOLS, _BYTE, _DOUBLE, _BINARY = (1, 2), 3, 7, 8
_INTEGERS, _LISTS, _STRUCT = (4, 5, 6), (9, 10), 12
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _UNPACKED, _PACKED = 3, 6, 7
_DEEPEST = 64
_LONGEST_INTEGER = 10
"""Bytes of an integer of 64 bits at most."""


def column_sizes(stream: BinaryIO, name: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path of each column of each row group, its bytes decompressed, and as they are.

    Args:
        stream: Of the file; it can seek. name: For messages.

    Raises:
        DataError: The footer is damaged. Cost: some 30 us a column of a row group.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    length = int.from_bytes(end[:4], "little")
    if not end.endswith(_END) or not 0 < length <= size - 8:
        raise _damaged(name, "it does not end as one")
    stream.seek(size - 8 - length)
    try:
        sizes = _Footer(stream.read(length)).columns()
    except (IndexError, ValueError) as error:
        raise _damaged(name, str(error)) from error
    for path, unpacked, packed in sizes:
        if min(unpacked, packed) < 0:
            raise _damaged(name, f"column {path!r} has a negative size")
        yield path, unpacked, packed


class _Footer:
    """Reads the fields of structs one after the other.

    Raises:
        IndexError, ValueError: The bytes end early, or are none of this protocol.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def columns(self) -> list[tuple[str, int, int]]:
        """Return the columns of all row groups."""
        found: list[tuple[str, int, int]] = []
        for field, kind in self._fields():
            if field == _ROW_GROUPS and kind in _LISTS:
                # subtle: where a field stands twice, the last one counts.
                found = [column for _ in self._items(_STRUCT) for column in self._row_group()]
            else:
                self._skip(kind)
        return found

    def _row_group(self) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = []
        for field, kind in self._fields():
            if field == _COLUMNS and kind in _LISTS:
                found = [self._column() for _ in self._items(_STRUCT)]
            else:
                self._skip(kind)
        return found

    def _column(self) -> tuple[str, int, int]:
        found = ("", 0, 0)
        for field, kind in self._fields():
            if field == _META_DATA and kind == _STRUCT:
                found = self._meta_data()
            else:
                self._skip(kind)
        return found

    def _meta_data(self) -> tuple[str, int, int]:
        path, sizes = "", {_UNPACKED: 0, _PACKED: 0}
        for field, kind in self._fields():
            if field == _PATH and kind in _LISTS:
                path = ".".join(self._text() for _ in self._items(_BINARY))
            elif field in sizes and kind in _INTEGERS:
                sizes[field] = self._integer()
            else:
                self._skip(kind)
        return path, sizes[_UNPACKED], sizes[_PACKED]

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; whoever asks reads its value."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            yield field, head & 15

    def _items(self, expected: int | None = None) -> Iterator[int]:
        """Yield the type of each item of a list, whoever asks reads it; each has a byte or more."""
        head = self._byte()
        kind, count = head & 15, head >> 4
        if count == 15:
            count = self._unsigned()
        if expected not in (None, kind):
            raise ValueError(f"a list of the type {kind} stands in the place of one of {expected}")
        for _ in range(count):
            yield kind

    def _skip(self, kind: int, depth: int = 0, *, in_list: bool = False) -> None:
        if depth > _DEEPEST:
            raise ValueError("its structs are nested too deep")
        if kind in _BOOLS:
            self._move(in_list)  # that of a field stands in its type
        elif kind == _BYTE:
            self._move(1)
        elif kind in _INTEGERS:
            self._unsigned()
        elif kind == _DOUBLE:
            self._move(8)
        elif kind == _BINARY:
            self._move(self._unsigned())
        elif kind in _LISTS:
            for item in self._items():
                self._skip(item, depth + 1, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        else:
            # A map has no place in the metadata of files.
            raise ValueError(f"a field has the type {kind}")

    def _text(self) -> str:
        length = self._unsigned()
        start = self._at
        self._move(length)
        return self._data[start : self._at].decode("utf-8", "replace")

    def _integer(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _unsigned(self) -> int:
        value = 0
        for place in range(_LONGEST_INTEGER):
            byte = self._byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise ValueError("an integer has more than 64 bits")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _move(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise IndexError("it ends within a field")


def _damaged(name: str, problem: str) -> DataError:
    return DataError(
        f"{name} cannot be read as Parquet: its footer is damaged: {problem}",
        hint="check that the file is whole, or name its format with `format`",
    )
