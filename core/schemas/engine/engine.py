"""Engine: what the sessions of a schema share: states, steps by bytes, and token masks.

What was computed for one text serves the next. Masks are bounded by a byte budget: when it is
reached all of them are dropped (a new *epoch* begins) and computed again as needed. One call may
pass it, so that its work ends, and what it made is dropped at its end. They go between kernels, in
one step; states remember their masks with the epoch alone. States stay; when they fill much of the
budget, new sessions get a new engine (``should_be_replaced``).
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.grammars.engine.memory import Memory
from cdec.core.grammars.engine.pointers import NEED
from cdec.core.mask import mask_words
from cdec.core.schemas.engine import fields as f
from cdec.core.schemas.engine.counts import counted_slots
from cdec.core.schemas.engine.steps import compute_step
from cdec.core.schemas.json_tokens import JsonTokens
from cdec.core.schemas.program import COLUMNS, USUAL_ESCAPES, SchemaArrays

__all__ = ["DEFAULT_BUDGET", "Engine"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of masks of one engine."""
_MOST_BYTES = 4 << 30
"""Of states and their steps together."""
_CHUNK_BYTES = 1 << 20
_MASKS = (f.MASK_CHUNKS, f.MASK_OFFSETS, f.MASK_TOKENS)
_LENGTH = 1024
"""Elements of an array that grows, at first."""
_LEAST_STATES = 1 << 20
"""Bytes of states for which an engine is kept, whatever the budget."""
_PROGRAM = SchemaArrays._fields[: f.INDENT + 1]


class Engine:
    """States, steps and masks over one program and one vocabulary.

    Args:
        arrays: The program.
        tokens: Of the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks that are kept from call to call, beyond what an engine begins with.

    Attributes:
        lock: Held while a kernel works in the memory, and while the memory grows.
    """

    def __init__(
        self, arrays: SchemaArrays, tokens: JsonTokens, end_ids: tuple[int, ...], budget: int
    ) -> None:
        self.arrays = arrays
        self.memory = memory = Memory(f.FIELDS)
        self.budget = budget
        self.lock = Lock()
        self._chunks: list[NDArray[np.int32]] = []
        self._dropped_for: object = None
        self._made_room = False
        for field, name in enumerate(_PROGRAM):
            memory.point(field, np.ascontiguousarray(getattr(arrays, name), COLUMNS[name]))
        for field, column in enumerate(counted_slots(arrays), f.OBJECT_SINGLES):
            memory.point(field, column)
        memory.point(f.VOCABULARY_OFFSETS, np.ascontiguousarray(arrays.vocabulary_offsets))
        memory.point(f.VOCABULARY_BYTES, np.ascontiguousarray(arrays.vocabulary_bytes))
        self._point_tokens(tokens)
        memory.point(f.BLANK_INDEX, np.full(len(arrays.state_label), -1, np.int32))
        memory.point(f.PHASE_BYTES, f.phase_bytes())
        memory.point(f.END_IDS, np.array(end_ids, np.int64))
        memory.point(f.STAMPS, np.zeros(len(arrays.state_label), np.int64))
        deepest = tokens.trie.max_depth
        memory.point(f.PATH, np.empty(deepest + 1, np.int32))
        memory.header[f.FAR] = deepest + int(arrays.state_shortest.max(initial=0))
        for group in f.GROWING.values():
            for field, dtype in group:
                memory.allocate(field, _LENGTH, dtype)
        for field in (f.FRAME_OFFSETS, f.PROGRESS_OFFSETS, f.MASK_OFFSETS):
            memory.arrays[field][0] = 0
        for table in (
            *(f.PROGRESS_TABLE, f.FRAME_TABLE, f.STATE_TABLE, f.NEXT_TABLE, f.TEXT_TABLE),
        ):
            memory.allocate_table(table, 256)
        self._set_scalars(len(arrays.vocabulary_offsets) - 1)

    def _point_tokens(self, tokens: JsonTokens) -> None:
        point = self.memory.point
        tries = {f.WHOLE: tokens.trie, f.CROSSING: tokens.crossing}
        tries |= {f.ENDINGS: tokens.endings, f.BEHIND: tokens.behind}
        for first, trie in tries.items():
            for field, array in enumerate(trie.arrays(), first):
                point(field, np.ascontiguousarray(array))
        point(f.CHARACTERS, tokens.characters)
        point(f.CONTENT_ROWS, tokens.rows)
        point(f.CONTENT_READY, tokens.ready)
        point(f.RUN_OF, tokens.run_of)
        point(f.RUNS, tokens.runs)
        point(f.RUN_OFFSETS, tokens.run_offsets)
        point(f.BLANK_TOKENS, tokens.blank)

    def _set_scalars(self, vocabulary: int) -> None:
        header, words = self.memory.header, mask_words(vocabulary)
        header[f.VOCABULARY], header[f.WORDS] = vocabulary, words
        header[f.MASK_STRIDE] = self._stride = (words + 15) // 16 * 16
        rows = max(min(_CHUNK_BYTES, self.budget // 8) // (4 * self._stride), 2)
        header[f.CHUNK_SHIFT] = rows.bit_length() - 1
        header[f.CALL_STEP] = compute_step.address
        layout = int(self.arrays.indent[0])
        header[f.LAYOUT], header[f.FEW_ESCAPES] = layout & ~USUAL_ESCAPES, layout & USUAL_ESCAPES

    def make_room(self, call: object) -> None:
        """Make the room that the last kernel asked for: grow an array, or drop the masks.

        The caller holds ``lock``.

        Args:
            call: Identifies the caller's work. Masks are dropped at most once for one ``call``;
                after that they grow past the budget, so that the work ends.

        Raises:
            LimitError: States and their steps have grown past ``_MOST_BYTES``.
        """
        memory, field = self.memory, int(self.memory.header[NEED]) - 1
        if field < 0:
            return
        if memory.bytes > _MOST_BYTES:
            raise LimitError(
                f"the states of the schema's texts take {memory.bytes:,} bytes",
                hint="draw fewer texts at once, or shorter ones",
                limit="memo_bytes",
            )
        self._made_room = True
        is_full = self.memo_bytes + self._bytes_of(field) > self.budget
        most = min(f.NEXT_LIMIT, self.budget // 64)
        if field in _MASKS and is_full and self._dropped_for is not call:
            self._dropped_for = call
            self._drop_masks()
        elif field == f.MASK_CHUNKS:
            self._add_rows()
        elif field == f.NEXT_TABLE and 2 * memory.size(field) > most:
            memory.drop_table(field, 256)
        else:
            memory.grow(f.GROWING)
        memory.header[NEED] = 0

    def keep_within_budget(self) -> None:
        """Drop the masks if they have grown past the budget, as the last call needed them."""
        if self._made_room:
            self._made_room = False
            if self.memo_bytes > self.budget:
                with self.lock:
                    self.drop()

    def drop(self) -> None:
        """Forget all masks; what sessions ask for is computed again. The caller holds ``lock``."""
        self._drop_masks()

    def _bytes_of(self, field: int) -> int:
        """Return the bytes by which room for masks grows."""
        if field == f.MASK_CHUNKS:
            return self._chunk_bytes
        if field not in _MASKS:
            return 0
        return sum(self.memory.arrays[other].nbytes for other, _ in f.GROWING[field])

    @property
    def memo_bytes(self) -> int:
        """Bytes that masks take beyond those right after a drop."""
        rows = self._chunk_bytes * len(self._chunks)
        lists = self._bytes_of(f.MASK_OFFSETS) + self._bytes_of(f.MASK_TOKENS)
        return rows + lists - _LENGTH * (8 + 4 + 4)

    @property
    def _chunk_bytes(self) -> int:
        return 4 * self._stride << int(self.memory.header[f.CHUNK_SHIFT])

    def _drop_masks(self) -> None:
        """Begin an epoch: forget all masks, and give back what they took."""
        memory, arrays = self.memory, dict[int, NDArray[Any]]()
        for first in (f.MASK_OFFSETS, f.MASK_TOKENS):
            arrays |= {field: np.empty(_LENGTH, dtype) for field, dtype in f.GROWING[first]}
        arrays[f.MASK_OFFSETS][0] = 0
        epoch = int(memory.header[f.EPOCH]) + 1
        scalars = {f.EPOCH: epoch, f.OWN_ROWS: 0, f.OWN_ROOM: 0}
        memory.replace(arrays, {f.MASK_OFFSETS: 1}, scalars)
        self._chunks = []

    def _add_rows(self) -> None:
        """Add a chunk of rows. The old chunks stay where they are."""
        self._chunks.append(np.empty(self._chunk_bytes // 4, np.int32))
        addresses = [chunk.__array_interface__["data"][0] for chunk in self._chunks]
        self.memory.point(f.MASK_CHUNKS, np.array(addresses, np.int64))
        rows = len(self._chunks) << int(self.memory.header[f.CHUNK_SHIFT])
        self.memory.header[f.OWN_ROOM] = rows

    @property
    def should_be_replaced(self) -> bool:
        """Whether new sessions should have a new engine: states fill much of the budget."""
        rows = self._chunk_bytes * len(self._chunks)
        return self.memory.bytes - self.memo_bytes + rows > max(self.budget // 4, _LEAST_STATES)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks."""
        memory, header = self.memory, self.memory.header
        return {
            "states": memory.used(f.STATE_FRAME),
            "frames": max(memory.used(f.FRAME_OFFSETS) - 1, 0),
            "steps": memory.used(f.NEXT_TABLE),
            "mask_hits": int(header[f.HITS]),
            "mask_misses": int(header[f.MISSES]),
            "masks": max(memory.used(f.MASK_OFFSETS) - 1, 0),
            "epochs": int(header[f.EPOCH]),
            "memo_bytes": self.memo_bytes,
            "bytes": memory.bytes + self._chunk_bytes * len(self._chunks),
        }
