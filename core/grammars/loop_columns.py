"""Invariants of the columns of loops of the scanner (``cdec.core.grammars.columns``)."""

from __future__ import annotations

import numpy as np

from cdec.core.artifacts.checks import Columns, require, require_length, require_range
from cdec.core.grammars.columns import RELATIVE, arrays_from
from cdec.core.grammars.loops import MOST_STATES, count_states, state_of_row

__all__ = ["check_loops", "check_steps"]


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
