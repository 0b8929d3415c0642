"""Compiled loop of the subset construction over ordered threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from cdec.compilers.grammars.automata.row_store import intern_row, sort_row

DONE = 0
FULL = 1
_MATCH = 0


@njit(cache=True, nogil=True)
def _readers(
    reads: Any, charset_offsets: Any, charset_atoms: Any, members: Any, begins: Any
) -> Any:
    """Return the threads that read each atom, by atom, in order; ``begins`` int64[A + 1]."""
    begins[:] = 0
    for node in members:
        if node != _MATCH:
            for at in range(charset_offsets[reads[node]], charset_offsets[reads[node] + 1]):
                begins[charset_atoms[at] + 1] += 1
    for atom in range(len(begins) - 1):
        begins[atom + 1] += begins[atom]
    nodes = np.empty(begins[-1], np.int32)
    fill = begins[:-1].copy()
    for node in members:
        if node != _MATCH:
            for at in range(charset_offsets[reads[node]], charset_offsets[reads[node] + 1]):
                atom = charset_atoms[at]
                nodes[fill[atom]] = node
                fill[atom] += 1
    return nodes


@njit(cache=True, nogil=True)
def _after(
    nodes: Any, follow_of: Any, follow_offsets: Any, follow_nodes: Any, prioritised: bool,
    stamps: Any, stamp: int, row: Any,
) -> int:  # fmt: skip
    """Write the threads after ``nodes`` to ``row``; return how many."""
    length = 0
    for node in nodes:
        follow = follow_of[node]
        for at in range(follow_offsets[follow], follow_offsets[follow + 1]):
            target = follow_nodes[at]
            if stamps[target] == stamp:
                continue
            stamps[target] = stamp
            row[length] = target
            length += 1
            if prioritised and target == _MATCH:
                return length
    if not prioritised:
        sort_row(row, length)
    return length


@njit(cache=True, nogil=True)
def step_threads(
    reads: Any, follow_of: Any, follow_offsets: Any, follow_nodes: Any,
    charset_offsets: Any, charset_atoms: Any, prioritised: bool,
    pool: Any, offsets: Any, table: Any, used: Any, delta: Any, stamps: Any, row: Any,
    progress: Any,
) -> int:  # fmt: skip
    """Compute the successors of every state from ``progress[0]`` on.

    Args:
        reads, follow_of: int32[nodes]: charset of a node, its list of followers.
        delta: int32[capacity, A], filled row by row.
        stamps, row: int64[nodes] and int32[nodes + 1], scratch.
        progress: int64[3]: next state, last stamp, values that may be needed.

    Returns:
        DONE, or FULL where the arrays must grow; call again then.
    """
    num_atoms = delta.shape[1]
    begins = np.zeros(num_atoms + 1, np.int64)
    while progress[0] < used[0]:
        state = progress[0]
        members = pool[offsets[state] : offsets[state + 1]]
        nodes = _readers(reads, charset_offsets, charset_atoms, members, begins)
        if used[0] + num_atoms + 1 > min(len(delta), len(offsets) - 1):
            return FULL
        for atom in range(num_atoms):
            if begins[atom] == begins[atom + 1] or delta[state, atom] >= 0:
                continue
            progress[1] += 1
            length = _after(
                nodes[begins[atom] : begins[atom + 1]], follow_of, follow_offsets, follow_nodes,
                prioritised, stamps, progress[1], row,
            )  # fmt: skip
            if offsets[used[0]] + length > len(pool):
                progress[2] = length
                return FULL
            delta[state, atom] = intern_row(row, length, pool, offsets, table, used)
        progress[0] += 1
    return DONE
