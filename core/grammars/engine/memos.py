"""Masks, memos and working space of an engine: all that it can forget, and does at one place.

No kernel takes the number of a mask, a list or a memo over into another call, and what is dropped
goes between kernels, in one step (``Memory.replace``). The masks of decoding states alone are
remembered elsewhere: each with its epoch, which ends here. Parser stacks stay, because decoding
states name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.grammars.columns import GrammarArrays
from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.memory import Memory
from cdec.core.grammars.engine.pointers import EMPTY

__all__ = ["STACKS", "STACK_TABLES", "Memos"]

STACKS = {f.VERTEX_STATE: 512, f.SET_OFFSETS: 64, f.SET_ITEMS: 64}
STACK_TABLES = {f.VERTEX_TABLE: 1024, f.SET_TABLE: 64}
_STACK_FIELDS = tuple(
    [field for first in STACKS for field, _ in f.GROWING[first]]
    + [field for table in STACK_TABLES for field in (table, table + 1)]
)
_TABLES = {
    f.SHIFT_TABLE: 1024,
    f.UNION_TABLE: 64,
    f.PARTIAL_TABLE: 1024,
    f.LIST_TABLE: 64,
    f.PAIR_TABLE: 64,
    f.EVALUATE_TABLE: 64,
    f.STEP_TABLE: 256,
    f.RUN_TABLE: 64,
    f.STEPPED_TABLE: 64,
    f.JOIN_TABLE: 64,
    f.JOINED_TABLE: 64,
    f.MASK_TABLE: 256,
    f.EDGE_TABLE: 256,
    f.INDENT_TABLE: 64,
}
_LENGTHS = {f.LIST_OFFSETS: 512, f.LIST_ITEMS: 4096}
"""Elements beyond those of the artifact's automaton; of other arrays 64."""
_CHUNK_BYTES = 1 << 20
_LEAST_ROWS = 8
"""Of masks: what one call needs for the most part, so that less is dropped at its end."""


class Memos:
    """What an engine computes and can compute again; it begins with the artifact's automaton.

    Args:
        memory: Of the engine; its scalars are set.
        arrays: The compiled grammar.
        stored: Lists of the artifact's automaton that are used.
        budget: Bytes of masks and memos, which decide how many rows are added at a time.
    """

    def __init__(self, memory: Memory, arrays: GrammarArrays, stored: int, budget: int) -> None:
        self._memory = memory
        self._arrays = arrays
        self._trees = int(memory.header[f.TREES])
        self._lists = self._trees + stored
        self._items = len(arrays.automaton_items) if stored else 0
        stride = 4 * int(memory.header[f.MASK_STRIDE])
        rows = max(min(_CHUNK_BYTES, budget // 8) // stride, _LEAST_ROWS)
        shift = rows.bit_length() - 1
        memory.header[f.CHUNK_SHIFT], memory.header[f.EPOCH] = shift, -1
        memory.header[f.STORED] = self._lists if stored else 0
        self._chunks = [np.empty((stride << shift) // 4, np.int32)]
        self._least = 0
        self.drop()

    @property
    def lists(self) -> Mapping[int, int]:
        """Elements of the automaton's arrays that come from the artifact."""
        return {f.LIST_OFFSETS: self._lists, f.LIST_ITEMS: self._items}

    @property
    def bytes(self) -> int:
        """Bytes that masks, memos and working space take beyond those right after a drop."""
        own = self._memory.bytes - self.stacks_bytes + self.rows_bytes
        return own - self._least - self._index_bytes

    @property
    def stacks_bytes(self) -> int:
        """Bytes of the parser's stacks."""
        return sum(self._memory.arrays[field].nbytes for field in _STACK_FIELDS)

    @property
    def rows_bytes(self) -> int:
        """Bytes of all rows of masks."""
        return len(self._chunks) * self._chunks[0].nbytes

    @property
    def _index_bytes(self) -> int:
        """Bytes of LIST_TABLE that the artifact's lists take: from the first new list on."""
        length = _index_length(int(self._memory.header[f.STORED]))
        if self._memory.size(f.LIST_TABLE) < length:
            return 0
        return 16 * (length - _TABLES[f.LIST_TABLE])

    def more(self, field: int) -> int:
        """Return the bytes by which the room for a field grows."""
        if field == f.MASK_COUNT:
            return self._chunks[0].nbytes
        group = [other for other, _ in f.GROWING.get(field, ())] or [field, field + 1]
        return sum(self._memory.arrays[other].nbytes for other in group)

    def add_rows(self) -> None:
        """Add a chunk of rows. The old chunks stay where they are."""
        self._chunks.append(np.empty_like(self._chunks[0]))
        rows = len(self._chunks) << int(self._memory.header[f.CHUNK_SHIFT])
        self._memory.replace({f.MASK_CHUNKS: self._addresses()}, {}, {})
        for field in (f.MASK_ONLY, f.MASK_COUNT):
            self._memory.allocate(field, rows, np.int32)

    def _addresses(self) -> NDArray[np.int64]:
        places = [chunk.__array_interface__["data"][0] for chunk in self._chunks]
        return np.array(places, np.int64)

    def drop(self) -> None:
        """Begin an epoch: forget all masks and memos, and give back what they took."""
        memory, rows = self._memory, 1 << int(self._memory.header[f.CHUNK_SHIFT])
        arrays, lists = dict[int, NDArray[Any]](), self.lists
        used = {f.LIST_OFFSETS: self._lists + 1, f.LIST_ITEMS: self._items}
        for table, length in _TABLES.items():
            arrays[table] = np.full(length, EMPTY, np.int64)
            arrays[table + 1] = np.empty(length, np.int64)
        for first, group in f.GROWING.items():
            for field, dtype in group if first not in STACKS else ():
                arrays[field] = np.empty(_LENGTHS.get(first, 64) + lists.get(first, 0), dtype)
        arrays |= {field: np.empty(rows, np.int32) for field in (f.MASK_ONLY, f.MASK_COUNT)}
        self._write_lists(arrays)
        indexed, epoch = self._write_index(arrays, used), int(memory.header[f.EPOCH]) + 1
        arrays[f.MASK_CHUNKS] = self._addresses()[:1]
        # subtle: what a paused call had begun in working space goes with it.
        begun = {f.SHIFT_LEVEL: f.NONE, f.STEPPED_NEXT: 0}
        memory.replace(arrays, used, begun | {f.EPOCH: epoch, f.JOINS: 0, f.INDEXED: indexed})
        self._chunks = self._chunks[:1]
        self._least = 0
        self._least = self.bytes

    def _write_lists(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """Write the automaton's first states, one a tree (empty), and those of the artifact."""
        arrays[f.LIST_OFFSETS][: self._trees + 1] = 0
        if self._lists > self._trees:
            ends = self._arrays.automaton_offsets
            arrays[f.LIST_OFFSETS][self._trees : self._lists + 1] = ends
        arrays[f.LIST_ITEMS][: self._items] = self._arrays.automaton_items[: self._items]
        arrays[f.LIST_MASK][: self._lists] = -1

    def _write_index(self, arrays: dict[int, NDArray[Any]], used: dict[int, int]) -> int:
        """Take over what LIST_TABLE says of the artifact's lists; return up to which it does."""
        stored = int(self._memory.header[f.STORED])
        if stored == 0 or int(self._memory.header[f.INDEXED]) < stored:
            return self._trees
        length = _index_length(stored)
        arrays[f.LIST_TABLE] = np.full(length, EMPTY, np.int64)
        arrays[f.LIST_TABLE + 1] = np.empty(length, np.int64)
        used[f.LIST_TABLE] = self._memory.copy_table(
            f.LIST_TABLE, arrays[f.LIST_TABLE], arrays[f.LIST_TABLE + 1], stored
        )
        return stored


def _index_length(stored: int) -> int:
    """Return the places of LIST_TABLE that are asked for by ``engine.lists``."""
    length = _TABLES[f.LIST_TABLE]
    while length < 4 * stored:
        length *= 2
    return length
