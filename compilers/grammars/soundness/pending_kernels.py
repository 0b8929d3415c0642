"""Compiled numbering of pending matches: pairs of a scanner state and what it may end as."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdec.compilers.grammars.states.row_store import Rows, intern_row
from cdec.core.kernels import kernel

DONE, FULL, UNKNOWN = 0, 1, 2
"""What ends a call: all pairs followed, larger arrays wanted, a set of ends wanted."""
STOPS, PLAIN, COMPLETES = 0, 1, 2
"""What entering a scanner state means: nothing more can complete; later only; a terminal ends."""


@kernel
def add_pairs(states: Any, ends: Any, rows: Rows) -> None:
    """Number the pairs of ``states`` and ``ends`` int32[n]; the caller made room."""
    row = np.empty(2, np.int32)
    for i in range(len(states)):
        row[0], row[1] = states[i], ends[i]
        intern_row(row, 2, rows)


@kernel
def follow_pairs(
    delta: Any, meaning: Any, live_row: Any, both: Any, rows: Rows, follow: Any, progress: Any
) -> int:
    """Compute where each pair goes on, new pairs included.

    Args:
        delta: int32[C, K], -1 dead.
        meaning: int8[C] STOPS, PLAIN or COMPLETES.
        live_row: int32[C].
        both: int32[ends, live rows] the set of what is in both, -1 where it is not known yet.
        rows: Pairs (state, set of ends), by number.
        follow: int32[capacity, K], written: 0 where a match completes, pair + 1, -1 else.
        progress: int64[3]: next pair; after UNKNOWN the set of ends and the live row asked for.

    Returns:
        DONE; FULL or UNKNOWN: call again when there is room, or ``both`` has the answer.
    """
    pool, offsets, _, used = rows
    num_classes, row = delta.shape[1], np.empty(2, np.int32)
    while progress[0] < used[0]:
        pair = progress[0]
        state, ends = pool[2 * pair], pool[2 * pair + 1]
        count = used[0] + num_classes + 1
        if count > min(len(follow), len(offsets) - 1) or 2 * count > len(pool):
            return FULL
        for k in range(num_classes):
            follow[pair, k] = -1
            target = delta[state, k]
            if target < 0 or meaning[target] == STOPS:
                continue
            follow[pair, k] = 0
            if meaning[target] == PLAIN:
                shared = both[ends, live_row[target]]
                if shared < 0:
                    progress[1], progress[2] = ends, live_row[target]
                    return UNKNOWN
                row[0], row[1] = target, shared
                follow[pair, k] = intern_row(row, 2, rows) + 1
        progress[0] += 1
    return DONE
