"""Memory: a header as the compiled functions read it, and the numpy arrays that it points to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.engine.pointers import (
    EMPTY,
    NEED,
    NEED_LENGTH,
    SCALARS,
    int64s,
    mixed,
    size,
    uint8s,
)
from cdec.core.kernels import inner, kernel

__all__ = ["Memory"]

_ANY = (1 << 63) - 1


@inner
def _copied(base: int, table: int, keys: Any, values: Any, below: int) -> int:
    """Copy the entries whose values are below some number; return how many they are."""
    old_keys, old_values = int64s(base, table), int64s(base, table + 1)
    mask, count = len(keys) - 1, 0
    for i in range(size(base, table)):
        if old_keys[i] != EMPTY and old_values[i] < below:
            at = mixed(old_keys[i]) & mask
            while keys[at] != EMPTY:
                at = (at + 1) & mask
            keys[at], values[at] = old_keys[i], old_values[i]
            count += 1
    return count


@kernel(signature="int64(int64[::1], int64, int64[::1], int64[::1], int64)", nogil=False)
def copied(header: Any, table: int, keys: Any, values: Any, below: int) -> int:
    """Do the work of ``Memory.copy_table``."""
    return _copied(header.ctypes.data, table, keys, values, below)


@kernel(signature="void(int64[::1], int64[:, ::1])", nogil=False)
def write(header: Any, words: Any) -> None:
    """Write words int64[n, 2] (slot, value) of a header: one call, so no kernel sees a part."""
    for i in range(len(words)):
        header[words[i, 0]] = words[i, 1]


@kernel(signature="void(int64[::1], int64, int64[::1], int64[::1])", nogil=False)
def rehash(header: Any, table: int, keys: Any, values: Any) -> None:
    """Move a table's entries into new arrays (filled with EMPTY) and point the header at them."""
    _copied(header.ctypes.data, table, keys, values, _ANY)
    slot = SCALARS + 3 * table
    header[slot], header[slot + 1] = keys.ctypes.data, len(keys)
    header[slot + 3], header[slot + 4] = values.ctypes.data, len(values)


@kernel(signature="void(int64[::1], int64, uint8[::1], int64)", nogil=False)
def adopt(header: Any, field: int, array: Any, itemsize: int) -> None:
    """Copy a field's elements into a longer array and point the header at it.

    subtle: one compiled call, so that no other thread's kernel can write in between.
    """
    base, slot = header.ctypes.data, SCALARS + 3 * field
    old = uint8s(base, field)
    for i in range(min(size(base, field) * itemsize, len(array))):
        array[i] = old[i]
    header[slot], header[slot + 1] = array.ctypes.data, len(array) // itemsize


class Memory:
    """A header and the numpy arrays that its fields point to.

    Args:
        fields: Number of fields.
    """

    def __init__(self, fields: int) -> None:
        self.header: NDArray[np.int64] = np.zeros(SCALARS + 3 * fields, np.int64)
        self.arrays: dict[int, NDArray[Any]] = {}
        self.bytes = 0
        """Bytes of the arrays that grow."""
        # What the header points to although an interrupt came before ``arrays`` held it.
        self._held: list[NDArray[Any]] = []

    def point(self, field: int, array: NDArray[Any]) -> None:
        """Point a field at an array that never grows; kept alive here. Must be C-contiguous."""
        slot = SCALARS + 3 * field
        self.header[slot] = array.__array_interface__["data"][0]
        self.header[slot + 1] = array.size
        self.arrays[field] = array

    def allocate(self, field: int, length: int, dtype: Any) -> None:
        """Give a field an array of at least one element, longer than before, and what it held."""
        array = np.empty(length, dtype)
        self._held.append(array)
        adopt(self.header, field, array.view(np.uint8), array.itemsize)
        self._replace(field, array)

    def allocate_table(self, table: int, length: int) -> None:
        """Give a table room for ``length / 2`` entries (a power of two), and what it held."""
        keys, values = np.full(length, EMPTY, np.int64), np.empty(length, np.int64)
        self._held += [keys, values]
        rehash(self.header, table, keys, values)
        self._replace(table, keys)
        self._replace(table + 1, values)

    def drop_table(self, table: int, length: int) -> None:
        """Replace a table by an empty one."""
        keys, values = np.full(length, EMPTY, np.int64), np.empty(length, np.int64)
        self.replace({table: keys, table + 1: values}, {}, {})

    def copy_table(
        self, table: int, keys: NDArray[np.int64], values: NDArray[np.int64], below: int
    ) -> int:
        """Copy the entries of a table whose values are below some number into other arrays.

        Args:
            table: As it is.
            keys, values: int64[a power of two]; keys are EMPTY, and more than twice as many.
            below: Of the values.

        Returns:
            How many entries there are.
        """
        return int(copied(self.header, table, keys, values, below))

    def replace(
        self,
        arrays: Mapping[int, NDArray[Any]],
        used: Mapping[int, int],
        scalars: Mapping[int, int],
    ) -> None:
        """Point fields at other arrays and set scalars, all in one step.

        Args:
            arrays: By field. Must be C-contiguous.
            used: Elements in use, by field; 0 where nothing is said.
            scalars: By slot.
        """
        words = list(scalars.items())
        for field, array in arrays.items():
            slot = SCALARS + 3 * field
            words += [(slot, array.__array_interface__["data"][0]), (slot + 1, array.size)]
            words.append((slot + 2, used.get(field, 0)))
        write(self.header, np.array(words, np.int64))
        for field, array in arrays.items():
            self._replace(field, array)

    def _replace(self, field: int, array: NDArray[Any]) -> None:
        old = self.arrays.get(field)
        self.bytes += array.nbytes - (0 if old is None else old.nbytes)
        self.arrays[field] = array

    def grow(
        self,
        groups: Mapping[int, Sequence[tuple[int, type]]],
        fixed: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Make the room that the last kernel lacked: arrays and tables at least double.

        Args:
            groups: Fields that grow together, by the one that was named; others are tables.
            fixed: Elements of a field that are always there: what is beyond them doubles.
        """
        field, length = int(self.header[NEED]) - 1, int(self.header[NEED_LENGTH])
        if field in groups:
            length = max(length, 2 * self.size(field) - fixed.get(field, 0))
            # subtle: the field whose length the kernels ask for comes last.
            for other, dtype in reversed(groups[field]):
                self.allocate(other, length, dtype)
        else:
            self.allocate_table(field, max(length, 2 * self.size(field)))
        self.header[NEED] = 0
        self._held.clear()

    def used(self, field: int) -> int:
        """Return how many elements of a field are in use."""
        return int(self.header[SCALARS + 3 * field + 2])

    def use(self, field: int, count: int) -> None:
        """Set how many elements of a field are in use."""
        self.header[SCALARS + 3 * field + 2] = count

    def size(self, field: int) -> int:
        """Return how many elements a field has room for."""
        return int(self.header[SCALARS + 3 * field + 1])
