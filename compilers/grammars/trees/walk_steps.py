"""Compiled steps of a walk: the readings of a text after one more byte."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.trees.arena import (
    BEGUN,
    COUNT,
    FIRST,
    FLAGS,
    LEVEL,
    NONE,
    PARENT,
    PATH,
    PENDING,
    ROOT,
    SPILLED,
    STATE,
    TAKEN,
    TERMINAL,
    Arena,
    inner,
    intern_path,
    intern_walk,
)


class WalkScanner(NamedTuple):
    """What a walk reads of the scanner and the parser's contexts."""

    classes: int
    delta: NDArray[np.int32]  # [C * K]
    match_offsets: NDArray[np.int32]  # [C + 1]
    match_terminals: NDArray[np.int32]
    live_row: NDArray[np.int32]  # [C]; -1 where nothing more can complete
    context_start: NDArray[np.int32]  # [X]
    context_after: NDArray[np.int32]  # [T] dynamic: the context after a terminal
    ignored: NDArray[np.bool_]  # [T] dynamic: terminals that leave the stack as it is
    enter_offsets: NDArray[np.int64]  # [T * K + 1] lexing: ways to begin after a terminal, by class
    enter_states: NDArray[np.int32]  # scanner state entered
    enter_classes: NDArray[np.int32]  # class that stands for all that ask the same
    lexing: bool
    max_branches: int  # of an outcome
    max_nodes: int  # path nodes in the arena


@inner
def _is_below(paths: Any, node: int, ancestor: int) -> bool:
    """Say whether a path node lies below another, or below ROOT."""
    if ancestor == ROOT:
        return node != ROOT
    while node != ROOT and paths[node, LEVEL] > paths[ancestor, LEVEL]:
        node = paths[node, PARENT]
        if node == ancestor:
            return True
    return False


@inner
def _put(scratch: Any, n: int, path: int, state: int, begun: int) -> int:
    """Append a branch to the list; past its end only count."""
    if n < len(scratch):
        scratch[n, PATH], scratch[n, STATE], scratch[n, BEGUN] = path, state, begun
    return n + 1


@inner
def _put_sorted(scratch: Any, n: int, path: int, state: int, begun: int) -> int:
    """Put a branch into the sorted list; one that is there keeps the smaller number begun."""
    low, high = 0, min(n, len(scratch))
    while low < high:
        middle = (low + high) >> 1
        at = scratch[middle, PATH]
        if at < path or (at == path and scratch[middle, STATE] < state):
            low = middle + 1
        else:
            high = middle
    if n > len(scratch):
        return n
    if low < n and scratch[low, PATH] == path and scratch[low, STATE] == state:
        scratch[low, BEGUN] = min(scratch[low, BEGUN], begun)
        return n
    if n == len(scratch):
        return n + 1
    for i in range(n, low, -1):
        for column in range(3):
            scratch[i, column] = scratch[i - 1, column]
    scratch[low, PATH], scratch[low, STATE], scratch[low, BEGUN] = path, state, begun
    return n + 1


@inner
def _enter_lexing(
    scanner: WalkScanner, arena: Arena, n: int, path: int, state: int, begun: int
) -> int:
    """Append the reading that enters ``state`` and the ends of the terminals that it completes."""
    if scanner.live_row[state] >= 0:
        n = _put(arena.scratch, n, path, state, begun)
    last = np.int64(NONE)
    for at in range(scanner.match_offsets[state], scanner.match_offsets[state + 1]):
        terminal = np.int64(scanner.match_terminals[at])
        if terminal != last:
            shift = intern_path(arena, path, terminal, NONE, NONE)
            n = _put(arena.scratch, n, shift, PENDING, begun)
        last = terminal
    return n


@inner
def step_lexing(scanner: WalkScanner, arena: Arena, walk: int, k: int) -> int:
    """Return the walk state after a byte of class k, for contextual and basic lexing."""
    branches, paths = arena.branches, arena.paths
    delta, classes = scanner.delta, scanner.classes
    match_offsets = scanner.match_offsets
    flags = np.int64(arena.walks[walk, FLAGS])
    at = np.int64(arena.walks[walk, FIRST])
    stop = at + arena.walks[walk, COUNT]
    n, room = np.int64(0), len(arena.scratch) - 4
    while at < stop and n <= room:
        path, state = np.int64(branches[at, PATH]), np.int64(branches[at, STATE])
        begun = np.int64(branches[at, BEGUN])
        at += 1
        if state >= 0:
            state = np.int64(delta[state * classes + k])
            if state < 0:
                continue
            n = _enter_lexing(scanner, arena, n, path, state, max(begun, 1))
            if match_offsets[state] + 1 == match_offsets[state + 1]:
                # What was read after an earlier end of this terminal has become void.
                while at < stop and _is_below(paths, np.int64(branches[at, PATH]), path):
                    at += 1
                if path == ROOT:
                    flags = TAKEN
            continue
        terminal = np.int64(paths[path, TERMINAL])
        row = terminal * classes + k
        for way in range(scanner.enter_offsets[row], scanner.enter_offsets[row + 1]):
            if n <= room:
                state = np.int64(scanner.enter_states[way])
                asked = np.int64(scanner.enter_classes[way])
                node = intern_path(arena, path, NONE, asked, state)
                n = _enter_lexing(scanner, arena, n, node, state, begun + 1)
    if n > room:
        flags |= SPILLED
        n = np.int64(1) if arena.scratch[0, PATH] == ROOT else np.int64(0)
    return int(intern_walk(arena, n, flags))


@inner
def step_dynamic(scanner: WalkScanner, arena: Arena, walk: int, k: int) -> int:
    """Return the walk state after a byte of class k where every segmentation counts."""
    branches, scratch = arena.branches, arena.scratch
    match_offsets = scanner.match_offsets
    first, room = arena.walks[walk, FIRST], len(scratch) - 4
    n = np.int64(0)
    for at in range(first, first + arena.walks[walk, COUNT]):
        path, state = np.int64(branches[at, PATH]), np.int64(branches[at, STATE])
        begun = max(np.int64(branches[at, BEGUN]), 1)
        if state < 0:
            begun = np.int64(branches[at, BEGUN]) + 1
            state = np.int64(scanner.context_start[PENDING - state])
        state = np.int64(scanner.delta[state * scanner.classes + k])
        if state < 0:
            continue
        if scanner.live_row[state] >= 0:
            n = _put_sorted(scratch, n, path, state, begun)
        for m in range(match_offsets[state], match_offsets[state + 1]):
            terminal = np.int64(scanner.match_terminals[m])
            node = path
            # An ignored terminal leaves the stack as it is, so it needs no node.
            if not scanner.ignored[terminal]:
                node = intern_path(arena, path, terminal, NONE, NONE)
            context = np.int64(scanner.context_after[terminal])
            n = _put_sorted(scratch, n, node, PENDING - context, begun)
            if n > room:
                return int(intern_walk(arena, np.int64(0), SPILLED))
    if n > room:
        return int(intern_walk(arena, np.int64(0), SPILLED))
    return int(intern_walk(arena, n, np.int64(0)))
