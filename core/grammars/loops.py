"""Loops of the scanner: which row describes which scanner state, and what their columns obey."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import Columns, require, require_length, require_range
from cdec.core.grammars.columns import RELATIVE, GrammarArrays, arrays_from

MOST_STATES = 1 << 29
"""Scanner states, those of all copies: a relative step stays within 32 bits."""


def count_states(arrays: GrammarArrays) -> int:
    """Return the number of scanner states."""
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    return min(max(len(arrays.live_row) + int(more.sum()), 0), MOST_STATES)


def loop_states(arrays: GrammarArrays) -> NDArray[np.int64]:
    """Return the first state of every loop, int64[H]."""
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    first: NDArray[np.int64] = arrays.loop_row + np.cumsum(more) - more
    return first


def row_of_state(arrays: GrammarArrays, state: int) -> int:
    """Return the row that describes a scanner state, 0 <= state < ``count_states``."""
    first = loop_states(arrays)
    loop = int(np.searchsorted(first, state, "right")) - 1
    if loop < 0:
        return state
    row, period = int(arrays.loop_row[loop]), int(arrays.loop_period[loop])
    within, length = state - int(first[loop]), period * int(arrays.loop_copies[loop])
    return row + (within % period if within < length else within - length + period)


def state_of_row(arrays: GrammarArrays) -> NDArray[np.int64]:
    """Return the first state that each row describes, int64[C]."""
    rows = np.arange(len(arrays.live_row))
    more = (arrays.loop_copies.astype(np.int64) - 1) * arrays.loop_period
    ends = arrays.loop_row.astype(np.int64) + arrays.loop_period
    passed = np.searchsorted(ends, rows, "right")
    found: NDArray[np.int64] = rows + np.concatenate([[0], np.cumsum(more)])[passed]
    return found


def state_of_tree(arrays: GrammarArrays) -> NDArray[np.int32]:
    """Return one scanner state for every tree, int32[E]; those of a tree behave alike in tokens."""
    state = np.zeros(len(arrays.tree_taken), np.int32)
    number = state_of_row(arrays)
    known = (arrays.tree_of_state >= 0) & (arrays.tree_of_state < len(state))
    state[arrays.tree_of_state[known]] = number[known]
    return state


def check_loops(arrays: Columns, rows: int) -> None:
    """Loops are few, so they are checked whenever a file is opened."""
    first, period = arrays["loop_row"].astype(np.int64), arrays["loop_period"].astype(np.int64)
    for column in ("loop_period", "loop_copies"):
        require_length(arrays, column, len(first), "value a loop")
        require_range(arrays, column, 1, MOST_STATES)
    require_range(arrays, "loop_row", 0, rows)
    ends = np.append(first[1:], rows)
    require((first + period <= ends).all(), "loop_row", "loops one after another")
    count = rows + int(((arrays["loop_copies"].astype(np.int64) - 1) * period).sum())
    require(count <= MOST_STATES, "loop_copies", f"at most {MOST_STATES} scanner states")


def check_steps(arrays: Columns, rows: int) -> None:
    """Relative steps stand in rows of loops alone, and lead to states, as all others do."""
    made = arrays_from(arrays)
    count, delta = count_states(made), arrays["delta"].reshape(rows, -1)
    relative = np.zeros(rows, np.bool_)
    first, expected = state_of_row(made), f"states from -1 to {count - 1}"
    loops = zip(made.loop_row, made.loop_period, made.loop_copies, strict=True)
    for row, period, copies in loops:
        relative[row : row + period] = True
        steps = delta[row : row + period].astype(np.int64)
        lowest = first[row : row + period, None] + steps + RELATIVE
        highest = lowest + (int(copies) - 1) * int(period)
        inside = (lowest >= 0) & (highest < count)
        require((inside | (steps >= -1)).all(), "delta", expected)
    plain = (delta >= -1) & (delta < count)
    require((plain | (relative[:, None] & (delta < 0))).all(), "delta", expected)
