"""What walks of the vocabulary from many scanner states share, each thing stored once: the arena.

*Path nodes* and *branches* are those of ``cdec.core.grammars.columns``. A *walk state* is a list of
branches, the ways to read the bytes so far, in depth-first order of their paths; its transitions by
byte class are filled when first taken. An *outcome* is the list as a token that ends there has it.

subtle: numba compiles a kernel anew for every literal argument, so constants that are passed on are
NumPy integers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core import kernels
from cdec.core.kernels import kernel

# Columns of Arena.walks; Arena.outcomes has the first two.
FIRST, COUNT, FLAGS, OUTCOME = 0, 1, 2, 3
# Columns of Arena.branches and Arena.scratch; those of Arena.results are PATH, LIVE, DEPTH.
PATH, STATE, BEGUN = 0, 1, 2
LIVE, DEPTH = 1, 2
# Columns of Arena.paths.
PARENT, TERMINAL, BYTE, NEXT, LEVEL = 0, 1, 2, 3, 4
# Bits of FLAGS: the terminal under way has completed; only the first branch is known.
TAKEN, SPILLED = np.int64(1), np.int64(2)
# Values of OUTCOME: not computed; no branch; too many branches, so the token is to be verified.
UNSET, NOTHING, VERIFY = -3, -1, -2
# Places of Arena.counts.
WALKS, BRANCHES, PATHS, OUTCOMES, RESULTS = 0, 1, 2, 3, 4
NONE = np.int64(-1)
ROOT = NONE
"""PATH of the reading that has completed no terminal within the token."""
PENDING = np.int64(-1)
"""STATE of a branch at the end of a terminal; in dynamic ``PENDING - x`` with the context x."""
DEAD = np.int64(0)
"""The walk state without branches in which nothing was completed."""
inner: Any = kernels.inner
"""Without types: these kernels mix integers of Python and of numpy."""
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)


class Arena(NamedTuple):
    """Growable tables; the first ``counts[...]`` rows are in use."""

    counts: NDArray[np.int64]  # [5]
    walks: NDArray[np.int32]  # [W, 4] FIRST, COUNT in branches, FLAGS, OUTCOME
    walk_hashes: NDArray[np.uint64]  # [W]
    walk_table: NDArray[np.int32]  # [2 W] open addressing, -1 free; a power of two
    transitions: NDArray[np.int32]  # [W, K] walk state, -1 not known yet
    alike: NDArray[np.int32]  # [W] a following walk state with the same outcome and flags; -1: none
    loops: NDArray[np.uint64]  # [W] bit k: byte class k leads to it
    branches: NDArray[np.int32]  # [B, 3] PATH, STATE, BEGUN: terminals begun within the token
    paths: NDArray[np.int32]  # [P, 5] PARENT, TERMINAL, BYTE, NEXT, LEVEL: distance from ROOT
    path_hashes: NDArray[np.uint64]  # [P] of the path's content, the same in every arena
    path_table: NDArray[np.int32]  # [2 P]
    outcomes: NDArray[np.int32]  # [O, 2] FIRST, COUNT in results
    outcome_hashes: NDArray[np.uint64]  # [O]
    outcome_table: NDArray[np.int32]  # [2 O]
    results: NDArray[np.int32]  # [R, 3] PATH, LIVE, DEPTH
    scratch: NDArray[np.int32]  # [S, 3] the list under construction


def new_arena(classes: int, list_branches: int) -> Arena:
    """Return an arena that holds only the walk state DEAD.

    Args:
        classes: Byte classes.
        list_branches: Branches that a list may hold.
    """
    rows = 1 << max(12, (16 * list_branches).bit_length())
    arena = Arena(
        np.zeros(5, np.int64),
        np.zeros((rows, 4), np.int32),
        np.zeros(rows, np.uint64),
        np.full(2 * rows, -1, np.int32),
        np.full((rows, classes), -1, np.int32),
        np.full(rows, -1, np.int32),
        np.zeros(rows, np.uint64),
        np.zeros((rows, 3), np.int32),
        np.zeros((rows, 5), np.int32),
        np.zeros(rows, np.uint64),
        np.full(2 * rows, -1, np.int32),
        np.zeros((rows, 2), np.int32),
        np.zeros(rows, np.uint64),
        np.full(2 * rows, -1, np.int32),
        np.zeros((rows, 3), np.int32),
        np.zeros((list_branches + 4, 3), np.int32),
    )
    intern_walk(arena, np.int64(0), np.int64(0))
    return arena


def with_room(arena: Arena) -> Arena:
    """Return the arena with every table that is more than half full doubled."""
    counts = arena.counts
    parts: dict[str, NDArray[Any]] = {}
    groups = (
        (WALKS, "walk_hashes", ("walks", "loops"), "walk_table"),
        (PATHS, "path_hashes", ("paths",), "path_table"),
        (OUTCOMES, "outcome_hashes", ("outcomes",), "outcome_table"),
        (BRANCHES, "branches", (), ""),
        (RESULTS, "results", (), ""),
    )
    for place, main, others, table in groups:
        column: NDArray[Any] = getattr(arena, main)
        used = int(counts[place])
        if 2 * used <= len(column):
            continue
        for name in (main, *others):
            parts[name] = _doubled(getattr(arena, name), 0)
        if table:
            parts[table] = np.full(2 * len(getattr(arena, table)), -1, np.int32)
            fill_table(column, used, parts[table])
    if "walks" in parts:
        parts["transitions"] = _doubled(arena.transitions, -1)
        parts["alike"] = _doubled(arena.alike, -1)
    return arena._replace(**parts)


def _doubled(array: NDArray[Any], fill: int) -> NDArray[Any]:
    return np.concatenate((array, np.full_like(array, fill)))


@inner
def has_room(arena: Arena) -> bool:
    """Say whether one more transition and the outcomes at its ends fit, whatever they are."""
    counts = arena.counts
    most = 4 * len(arena.scratch)
    return bool(
        counts[WALKS] + 1 <= len(arena.walks)
        and counts[BRANCHES] + most <= len(arena.branches)
        and counts[PATHS] + most <= len(arena.paths)
        and counts[OUTCOMES] + 2 <= len(arena.outcomes)
        and counts[RESULTS] + most <= len(arena.results)
    )


@inner
def mixed(value: Any, item: Any) -> Any:
    """Return the hash of a sequence that goes on with ``item`` (finaliser of MurmurHash3)."""
    value = (value ^ np.uint64(item)) * _MIX_1
    value = (value ^ (value >> _SHIFT)) * _MIX_2
    return value ^ (value >> _SHIFT)


@kernel
def fill_table(hashes: Any, used: int, table: Any) -> None:
    """Enter rows 0..used into an empty open-addressing table."""
    last = np.uint64(len(table) - 1)
    for row in range(used):
        slot = hashes[row] & last
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        table[slot] = row


@inner
def _equal_rows(table: Any, first: int, other_table: Any, other: int, n: int) -> bool:
    """Say whether n rows of 3 columns are equal."""
    for i in range(n):
        for column in range(3):
            if table[first + i, column] != other_table[other + i, column]:
                return False
    return True


@inner
def intern_path(arena: Arena, parent: int, terminal: int, byte: int, following: int) -> int:
    """Return the number of a path node, new or known."""
    paths, hashes, table, counts = arena.paths, arena.path_hashes, arena.path_table, arena.counts
    value = hashes[parent] if parent >= 0 else np.uint64(1)
    value = mixed(mixed(mixed(value, terminal), byte), following)
    last = np.uint64(len(table) - 1)
    slot = value & last
    while table[slot] >= 0:
        node = table[slot]
        if (
            hashes[node] == value
            and paths[node, PARENT] == parent
            and paths[node, TERMINAL] == terminal
            and paths[node, BYTE] == byte
            and paths[node, NEXT] == following
        ):
            return int(node)
        slot = (slot + np.uint64(1)) & last
    node = counts[PATHS]
    counts[PATHS] = node + 1
    table[slot], hashes[node] = node, value
    paths[node, PARENT], paths[node, TERMINAL] = parent, terminal
    paths[node, BYTE], paths[node, NEXT] = byte, following
    paths[node, LEVEL] = paths[parent, LEVEL] + 1 if parent >= 0 else 1
    return int(node)


@kernel
def intern_walk(arena: Arena, n: int, flags: int) -> int:
    """Return the number of the walk state whose list is ``scratch[:n]``, new or known."""
    walks, hashes, table, counts = arena.walks, arena.walk_hashes, arena.walk_table, arena.counts
    branches, scratch = arena.branches, arena.scratch
    value = mixed(np.uint64(2), flags)
    for i in range(n):
        value = mixed(mixed(mixed(value, scratch[i, 0]), scratch[i, 1]), scratch[i, 2])
    last = np.uint64(len(table) - 1)
    slot = value & last
    while table[slot] >= 0:
        walk = table[slot]
        if hashes[walk] == value and walks[walk, COUNT] == n and walks[walk, FLAGS] == flags:
            first = np.int64(walks[walk, FIRST])
            if _equal_rows(branches, first, scratch, np.int64(0), n):
                return int(walk)
        slot = (slot + np.uint64(1)) & last
    walk = counts[WALKS]
    counts[WALKS] = walk + 1
    table[slot], hashes[walk] = walk, value
    first = counts[BRANCHES]
    for i in range(n):
        for column in range(3):
            branches[first + i, column] = scratch[i, column]
    counts[BRANCHES] = first + n
    walks[walk, FIRST], walks[walk, COUNT], walks[walk, FLAGS] = first, n, flags
    walks[walk, OUTCOME] = UNSET
    if n == 0:
        # No byte leads out of an empty list; all 64 bits: those of classes from 63 on neither.
        arena.alike[walk], arena.loops[walk] = walk, ~np.uint64(0)
    return int(walk)


@inner
def intern_outcome(arena: Arena, n: int) -> int:
    """Return the number of the outcome with branches ``results[counts[RESULTS] :][:n]``."""
    outcomes, hashes, table = arena.outcomes, arena.outcome_hashes, arena.outcome_table
    results, counts = arena.results, arena.counts
    first = counts[RESULTS]
    value = np.uint64(3)
    for i in range(first, first + n):
        value = mixed(mixed(mixed(value, results[i, 0]), results[i, 1]), results[i, 2])
    last = np.uint64(len(table) - 1)
    slot = value & last
    while table[slot] >= 0:
        outcome = table[slot]
        known = np.int64(outcomes[outcome, FIRST])
        if (
            hashes[outcome] == value
            and outcomes[outcome, COUNT] == n
            and _equal_rows(results, known, results, first, n)
        ):
            return int(outcome)
        slot = (slot + np.uint64(1)) & last
    outcome = counts[OUTCOMES]
    counts[OUTCOMES] = outcome + 1
    counts[RESULTS] = first + n
    table[slot], hashes[outcome] = outcome, value
    outcomes[outcome, FIRST], outcomes[outcome, COUNT] = first, n
    return int(outcome)
