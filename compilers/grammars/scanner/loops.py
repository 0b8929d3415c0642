"""Copies of counted repetitions that were left out, put in as loops of the scanner.

The states of copy ``cut`` stand for those of the copies behind it as well: they become the rows of
a loop, the states of the next copies follow them, in the same order, and steps from copy to copy
are relative (``cdec.core.grammars.columns``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states import SPREAD, CounterStates, UncountableError
from cdec.core.grammars.columns import MOST_STATES, RELATIVE, arrays_from, state_of_row


class _Loop(NamedTuple):
    """States of copy ``cut`` that lack equally many copies, and those of the next copies.

    levels: int32[d + 1, n] states of copy ``cut``, of the next one, and so on as far as one step
        leads. more: Copies left out.
    """

    levels: NDArray[np.int32]
    more: int


def expand_repetitions(
    columns: Mapping[str, NDArray[Any]], copies: CounterStates
) -> dict[str, NDArray[Any]]:
    """Return the columns of an artifact with all copies of counted repetitions.

    Args:
        columns: Of the scanner without the copies that were left out; trees included.
        copies: Of its states.

    Returns:
        All columns. Cost: linear in the rows.

    Raises:
        UncountableError: A state of copy ``cut`` does not do as the one that has counted one more.
    """
    delta = columns["delta"].reshape(len(columns["live_row"]), -1)
    lacking = np.unique(copies.more[copies.more > 0]).tolist()
    made = [_loop(delta, columns, copies, more) for more in lacking]
    loops = [loop for loop in made if loop is not None]
    order, used = _order(len(delta), loops)
    rows = np.empty(len(order), np.int64)
    rows[order] = np.arange(len(order))
    found = {**columns, **_permuted(columns, order)}
    first = len(delta) - np.cumsum([0, *(used[::-1])])[::-1]
    found["loop_row"] = first[:-1].astype(np.int32)
    found["loop_period"] = np.array([loop.levels.shape[1] for loop in loops], np.int32)
    found["loop_copies"] = np.array([loop.more + 1 for loop in loops], np.int32)
    found["delta"] = np.empty(0, np.int32)
    states = state_of_row(arrays_from(found))
    if len(states) and states[-1] >= MOST_STATES:
        raise UncountableError
    state_of = states[rows].astype(np.int32)
    moved = np.where(delta >= 0, state_of[delta], -1)
    for loop in loops:
        _make_relative(delta, moved, loop)
    found["delta"] = np.ascontiguousarray(moved[order], np.int32).reshape(-1)
    for name in ("context_start", "path_next"):
        values = columns[name]
        found[name] = np.where(values >= 0, state_of[values], -1).astype(np.int32)
    return found


def _loop(
    delta: NDArray[np.int32], columns: Mapping[str, NDArray[Any]], copies: CounterStates, more: int
) -> _Loop | None:
    """Return the states that lack ``more`` copies, in an order of their own."""
    own = copies.more == more
    at = np.where(own, copies.copy, 0)
    states = np.flatnonzero(at == copies.cut).astype(np.int32)
    jumps = np.where(delta >= 0, (at[delta] > copies.cut) & own[delta], False).any(axis=1)
    if (jumps & (at < copies.cut)).any():
        raise UncountableError  # a way around copy ``cut``
    if not len(states):
        return None
    levels = [states]
    for _ in range(SPREAD):
        before = levels[-1]
        levels.append(np.where(before >= 0, copies.following[before], -1).astype(np.int32))
    loop = _Loop(np.array(levels, np.int32), more)
    targets = _check(delta, columns, copies, loop)
    depth = int(np.flatnonzero(np.isin(loop.levels, targets).any(axis=1)).max(initial=0))
    return _Loop(loop.levels[: max(depth, 1) + 1], more)


def _check(
    delta: NDArray[np.int32],
    columns: Mapping[str, NDArray[Any]],
    copies: CounterStates,
    loop: _Loop,
) -> NDArray[np.int32]:
    """Require of the states of a loop what makes one more copy do as the one before.

    A step leads to where the count no longer matters, or as many copies on as from any copy.

    Returns:
        The states of the latter steps.

    Raises:
        UncountableError: One state does otherwise.
    """
    states, beside = loop.levels[0], loop.levels[1]
    if (beside < 0).any() or len(np.unique(beside)) < len(beside):
        raise UncountableError
    for name in ("live_row", "tree_of_state"):
        if (columns[name][states] != columns[name][beside]).any():
            raise UncountableError
    offsets, matches = columns["match_offsets"], columns["match_terminals"]
    for one, other in zip(states.tolist(), beside.tolist(), strict=True):
        ends = [matches[offsets[at] : offsets[at + 1]].tolist() for at in (one, other)]
        if ends[0] != ends[1]:
            raise UncountableError
    here, there = delta[states], delta[beside]
    within = (copies.copy[here] >= copies.cut) & (copies.more[here] == loop.more)
    relative = (here >= 0) & within
    if (here[~relative] != there[~relative]).any():
        raise UncountableError
    targets = here[relative]
    if (copies.following[targets] != there[relative]).any():
        raise UncountableError
    if not np.isin(targets, loop.levels[:-1]).all():
        raise UncountableError
    found: NDArray[np.int32] = targets
    return found


def _order(rows: int, loops: list[_Loop]) -> tuple[NDArray[np.int64], list[int]]:
    """Return the rows in their new order, and how many belong to each loop and what follows it."""
    parts = []
    for loop in loops:
        # subtle: what follows a loop is reached by relative steps, so each has its place.
        parts.append(loop.levels.ravel())
    taken = np.concatenate([np.empty(0, np.int32), *parts])
    if (taken < 0).any() or len(np.unique(taken)) < len(taken):
        raise UncountableError
    others = np.setdiff1d(np.arange(rows), taken)
    return np.concatenate([others, taken]).astype(np.int64), [len(part) for part in parts]


def _make_relative(delta: NDArray[np.int32], moved: NDArray[Any], loop: _Loop) -> None:
    """Write the steps of a loop's rows relative to the state at hand."""
    states, period = loop.levels[0], loop.levels.shape[1]
    place = np.full(len(delta) + 1, -1, np.int64)
    place[loop.levels.ravel()] = np.arange(loop.levels.size)
    steps = delta[states]
    to = place[steps]
    own = np.arange(period)[:, None]
    moved[states] = np.where((steps >= 0) & (to >= 0), to - own - RELATIVE, moved[states])


def _permuted(
    columns: Mapping[str, NDArray[Any]], order: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Return the columns that have a value a row, in the new order of rows."""
    offsets = columns["match_offsets"].astype(np.int64)
    counts = np.diff(offsets)[order]
    ends = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    places = np.repeat(offsets[:-1][order], counts) + within
    return {
        "match_offsets": ends.astype(np.int32),
        "match_terminals": columns["match_terminals"][places],
        "live_row": columns["live_row"][order],
        "tree_of_state": columns["tree_of_state"][order],
    }
