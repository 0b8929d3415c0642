"""Thrift's compact protocol: the structs that Parquet files describe themselves with."""

from __future__ import annotations

from collections.abc import Iterator

BOOLS, BYTE, DOUBLE, BINARY = (1, 2), 3, 7, 8
INTEGERS, LISTS, STRUCT = (4, 5, 6), (9, 10), 12
"""Types of fields."""
_DEEPEST = 64
_LONGEST_INTEGER = 10
"""Bytes of an integer of 64 bits at most."""


class Compact:
    """Reads the fields of structs one after the other.

    Attributes:
        at: Bytes that were read.

    Raises:
        IndexError, ValueError: The bytes end early, or are none of this protocol.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; whoever asks reads its value."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self.integer()
            yield field, head & 15

    def items(self, expected: int | None = None) -> Iterator[int]:
        """Yield the type of each item of a list, whoever asks reads it; each has a byte or more."""
        head = self._byte()
        kind, count = head & 15, head >> 4
        if count == 15:
            count = self._unsigned()
        if expected not in (None, kind):
            raise ValueError(f"a list of the type {kind} stands in the place of one of {expected}")
        for _ in range(count):
            yield kind

    def skip(self, kind: int, depth: int = 0, *, in_list: bool = False) -> None:
        if depth > _DEEPEST:
            raise ValueError("its structs are nested too deep")
        if kind in BOOLS:
            self._move(in_list)  # that of a field stands in its type
        elif kind == BYTE:
            self._move(1)
        elif kind in INTEGERS:
            self._unsigned()
        elif kind == DOUBLE:
            self._move(8)
        elif kind == BINARY:
            self._move(self._unsigned())
        elif kind in LISTS:
            for item in self.items():
                self.skip(item, depth + 1, in_list=True)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            # A map has no place in the metadata of files.
            raise ValueError(f"a field has the type {kind}")

    def text(self) -> str:
        length = self._unsigned()
        start = self.at
        self._move(length)
        return self._data[start : self.at].decode("utf-8", "replace")

    def integer(self) -> int:
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
        self.at += 1
        return self._data[self.at - 1]

    def _move(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError("it ends within a field")
