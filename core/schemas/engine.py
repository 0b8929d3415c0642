"""Engine: states, steps by bytes and token masks of a schema, which its sessions share.

What was computed for one text serves the next. Masks are bounded by a byte budget: when it is
reached all of them are dropped (a new *epoch* begins) and computed again as needed. One call may
pass it, so that its work ends, and what it made is dropped at its end. States stay; when they fill
much of the budget, new sessions get a new engine (``should_be_replaced``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import LimitError
from cdec.core.native import library
from cdec.core.schemas.json_tokens import JsonTokens
from cdec.core.schemas.program import SchemaArrays, arrays_from

__all__ = ["COUNTERS", "DEFAULT_BUDGET", "RANK", "Engine", "Phase"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of masks of one engine."""
_MOST_BYTES = 4 << 30
"""Of states and their steps together."""
_LEAST_STATES = 1 << 20
"""Bytes of states for which an engine is kept, whatever the budget."""
_COUNTS = (
    *("states", "frames", "steps", "mask_hits", "mask_misses", "masks", "epochs"),
    *("memo_bytes", "bytes"),
)
_STATES_FULL = -1
RANK, COUNTERS = 1, 5
"""Of the progress of an object: where the last key's rank stands, and where its counters begin."""


class Phase(IntEnum):
    """What stands or is awaited at a level of nesting, as the library numbers it."""

    ROOT_VALUE = 0
    ROOT_DONE = 1
    OBJECT_OPEN = 2
    OBJECT_COMMA = 3
    OBJECT_COLON = 4
    OBJECT_VALUE = 5
    OBJECT_NEXT = 6
    ARRAY_OPEN = 7
    ARRAY_VALUE = 8
    ARRAY_NEXT = 9
    KEY = 10
    STRING = 11
    RAW = 12


class Engine:
    """States, steps and masks over one program and one vocabulary; threads take turns.

    Args:
        arrays: The program; its numbers were checked (``program_checks``).
        tokens: Of the vocabulary.
        end_ids: Ascending end-of-sequence ids.
        budget: Bytes of masks that are kept from call to call.

    Attributes:
        handle: What the library's functions take.
    """

    def __init__(
        self, arrays: SchemaArrays, tokens: JsonTokens, end_ids: tuple[int, ...], budget: int
    ) -> None:
        self.arrays = arrays_from(arrays._asdict())
        self.budget = budget
        ends = np.array(end_ids, np.int64)
        self.handle = library.schema_engine_make(
            self.arrays, *tokens.tries(), tokens.held(), ends, budget, _MOST_BYTES
        )

    def start(self) -> int:
        """Return the state before the first byte."""
        return self._checked(library.schema_engine_start(self.handle))

    def work_on(self, n: int, call: Callable[[int], int]) -> None:
        """Call a function of the library until n rows are done; signals are handled in between.

        Args:
            n: Rows.
            call: Works from a row on, and returns how many are done.

        Raises:
            LimitError: States and their steps have grown past ``_MOST_BYTES``.
        """
        done = 0
        while done < n:
            done += self._checked(call(done))

    def _checked(self, status: int) -> int:
        if status != _STATES_FULL:
            return status
        raise LimitError(
            f"the states of the schema's texts take {self.statistics()['bytes']:,} bytes",
            hint="draw fewer texts at once, or shorter ones",
            limit="memo_bytes",
        )

    def level(self, state: int, outward: int) -> NDArray[np.int64]:
        """Return a level of a state, ``outward`` levels outside of the innermost, int64[1 + n, 4].

        First phase, frame outside, text and 0; then value, part, place and content of each of the n
        alternatives (``native/schemas/frames.h``).
        """
        rows = np.empty((0, 4), np.int64)
        while (n := library.schema_engine_level(self.handle, state, outward, rows)) > len(rows):
            rows = np.empty((n, 4), np.int64)
        return rows

    def progress(self, number: int) -> NDArray[np.int64]:
        """Return the numbers of a progress of an array or object, int64[n]."""
        numbers = np.empty(0, np.int64)
        while (n := library.schema_engine_progress(self.handle, number, numbers)) > len(numbers):
            numbers = np.empty(n, np.int64)
        return numbers

    def drop(self) -> None:
        """Forget all masks; what sessions ask for is computed again."""
        library.schema_engine_drop(self.handle)

    @property
    def memo_bytes(self) -> int:
        """Bytes that masks take."""
        return self.statistics()["memo_bytes"]

    @property
    def should_be_replaced(self) -> bool:
        """Whether new sessions should have a new engine: states fill much of the budget."""
        counts = self.statistics()
        return counts["bytes"] - counts["memo_bytes"] > max(self.budget // 4, _LEAST_STATES)

    def statistics(self) -> dict[str, int]:
        """Return counts and bytes of states, steps and masks."""
        counts = np.empty(len(_COUNTS), np.int64)
        library.schema_engine_statistics(self.handle, counts)
        return dict(zip(_COUNTS, counts.tolist(), strict=True))
