"""Compiled loop of the subset construction over ordered threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.row_store import Rows, intern_row, sort_row
from cdec.core.kernels import inner, kernel

DONE = 0
FULL = 1
_MATCH = 0


class Threads(NamedTuple):
    """A program of threads (``regex``) over atoms of its charsets, S charsets.

    Attributes:
        reads: int32[nodes] charset that a node reads, -1: none.
        follow_of: int32[nodes] which list of threads follows the node.
        follow_offsets: int64[lists + 1].
        follow_nodes: int32, the lists one after another.
        charset_offsets: int64[S + 1].
        charset_atoms: int32, the atoms of the charsets one after another.
    """

    reads: NDArray[np.int32]
    follow_of: NDArray[np.int32]
    follow_offsets: NDArray[np.int64]
    follow_nodes: NDArray[np.int32]
    charset_offsets: NDArray[np.int64]
    charset_atoms: NDArray[np.int32]


@inner
def _readers(threads: Threads, members: Any, begins: Any) -> Any:
    """Return the threads that read each atom, by atom, in order; ``begins`` int64[A + 1]."""
    reads, offsets, atoms = threads.reads, threads.charset_offsets, threads.charset_atoms
    begins[:] = 0
    for node in members:
        if node != _MATCH:
            for at in range(offsets[reads[node]], offsets[reads[node] + 1]):
                begins[atoms[at] + 1] += 1
    for atom in range(len(begins) - 1):
        begins[atom + 1] += begins[atom]
    nodes = np.empty(begins[-1], np.int32)
    fill = begins[:-1].copy()
    for node in members:
        if node != _MATCH:
            for at in range(offsets[reads[node]], offsets[reads[node] + 1]):
                atom = atoms[at]
                nodes[fill[atom]] = node
                fill[atom] += 1
    return nodes


@inner
def _after(
    nodes: Any, threads: Threads, prioritised: bool, stamps: Any, stamp: int, row: Any
) -> int:
    """Write the threads after ``nodes`` to ``row``; return how many."""
    length = 0
    for node in nodes:
        follow = threads.follow_of[node]
        for at in range(threads.follow_offsets[follow], threads.follow_offsets[follow + 1]):
            target = threads.follow_nodes[at]
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


@kernel
def step_threads(
    threads: Threads,
    prioritised: bool,
    rows: Rows,
    delta: Any,
    stamps: Any,
    row: Any,
    progress: Any,
) -> int:
    """Compute the successors of every state from ``progress[0]`` on.

    Args:
        threads: The program.
        prioritised: Whether a match cuts off the threads behind it.
        rows: Lists of threads: the states.
        delta: int32[capacity, A], -1 before, filled row by row.
        stamps, row: int64[nodes] and int32[nodes + 1], scratch.
        progress: int64[3]: next state, last stamp, values that may be needed.

    Returns:
        DONE, or FULL where the arrays must grow; call again then.
    """
    pool, offsets, _, used = rows
    num_atoms = delta.shape[1]
    begins = np.zeros(num_atoms + 1, np.int64)
    while progress[0] < used[0]:
        state = progress[0]
        members = pool[offsets[state] : offsets[state + 1]]
        nodes = _readers(threads, members, begins)
        if used[0] + num_atoms + 1 > min(len(delta), len(offsets) - 1):
            return FULL
        for atom in range(num_atoms):
            if begins[atom] == begins[atom + 1] or delta[state, atom] >= 0:
                continue
            progress[1] += 1
            reading = nodes[begins[atom] : begins[atom + 1]]
            length = _after(reading, threads, prioritised, stamps, progress[1], row)
            if offsets[used[0]] + length > len(pool):
                progress[2] = length
                return FULL
            delta[state, atom] = intern_row(row, length, rows)
        progress[0] += 1
    return DONE
