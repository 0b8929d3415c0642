"""Which terminals can still complete after each scanner state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.row_store import Rows, RowStore, intern_row, sort_row
from cdec.core.kernels import inner, kernel

_DONE = 0
_FULL = 1


class _Graph(NamedTuple):
    """Scanner states, what they complete, and their strongly connected components.

    Attributes:
        delta: int32[C, K], -1 dead.
        match_offsets: int32[C + 1].
        match_terminals: int32, terminals completed on entering a state.
        component: int32[C]; edges lead to the same or a smaller number.
        members: int32[C], states by component.
        begins: int64[components + 1].
    """

    delta: NDArray[np.int32]
    match_offsets: NDArray[np.int32]
    match_terminals: NDArray[np.int32]
    component: NDArray[np.int32]
    members: NDArray[np.int32]
    begins: NDArray[np.int64]


def live_rows(
    delta: NDArray[np.int32],
    match_offsets: NDArray[np.int32],
    match_terminals: NDArray[np.int32],
    num_terminals: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the terminals that states reached after one byte or more complete.

    Strongly connected states share their row, so one pass over the components, last ones first,
    is enough (Tarjan 1972).

    Args:
        delta: int32[C, K], -1 dead.
        match_offsets, match_terminals: int32[C + 1] and int32, terminals of each state.
        num_terminals: Upper bound of terminal numbers.

    Returns:
        (live_row int32[C], live_offsets int32[L + 1], live_terminals int32): equal rows once,
        ascending within a row. Cost: edges between components x length of a row.
    """
    graph = _Graph(delta, match_offsets, match_terminals, *components(delta))
    store = RowStore()
    row_of = np.zeros(len(graph.begins) - 1, np.int32)
    progress = np.zeros(2, np.int64)
    seen = np.zeros(num_terminals, np.int64)
    while _union_rows(graph, row_of, seen, store.rows, progress) == _FULL:
        store.reserve(1, int(progress[1]))
    offsets, terminals = store.content()
    return row_of[graph.component], offsets.astype(np.int32), terminals.copy()


@kernel
def components(delta: Any) -> Any:
    """Return (component int32[n], members int32[n], begins int64[components + 1]).

    Edges lead to the same or an earlier component. ``path`` stands in for recursion.
    """
    n, num_classes = delta.shape
    component, members, begins = (
        np.full(n, -1, np.int32),
        np.empty(n, np.int32),
        np.zeros(n + 1, np.int64),
    )
    index, low, edge = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    path, waiting = np.empty(n, np.int32), np.empty(n, np.int32)
    clock, num_waiting, count = 0, 0, 0
    for root in range(n):
        depth = 0 if index[root] < 0 else -1
        path[0] = root
        while depth >= 0:
            state = path[depth]
            if index[state] < 0:
                index[state] = low[state] = clock
                waiting[num_waiting] = state
                clock, num_waiting = clock + 1, num_waiting + 1
            if edge[state] < num_classes:
                target = delta[state, edge[state]]
                edge[state] += 1
                if target >= 0 and index[target] < 0:
                    depth += 1
                    path[depth] = target
                elif target >= 0 and component[target] < 0:
                    low[state] = min(low[state], index[target])
                continue
            if low[state] == index[state]:
                num_waiting = _close(state, waiting, num_waiting, count, component, members, begins)
                count += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[state])
    return component, members, begins[: count + 1]


@inner
def _close(
    root: int, waiting: Any, num_waiting: int, count: int, component: Any, members: Any, begins: Any
) -> int:
    """Make component ``count`` of the waiting states from ``root`` on; return how many remain."""
    placed = begins[count]
    while True:
        num_waiting -= 1
        member = waiting[num_waiting]
        component[member], members[placed] = count, member
        placed += 1
        if member == root:
            begins[count + 1] = placed
            return num_waiting


@inner
def _collect(values: Any, seen: Any, stamp: int, out: Any, count: int) -> int:
    """Append the terminals of ``values`` not yet seen under ``stamp`` to ``out``."""
    for terminal in values:
        if seen[terminal] != stamp:
            seen[terminal] = stamp
            out[count] = terminal
            count += 1
    return count


@kernel
def _union_rows(graph: _Graph, row_of: Any, seen: Any, rows: Rows, progress: Any) -> int:
    """Number the row of every component from ``progress[0]`` on; FULL: make room and call again."""
    delta, match_offsets, match_terminals, component, members, begins = graph
    pool, offsets, _, used = rows
    row = np.empty(len(seen), np.int32)
    visited = np.zeros(len(row_of), np.int64)
    while progress[0] < len(row_of):
        here = progress[0]
        stamp, count = here + 1, 0
        for at in range(begins[here], begins[here + 1]):
            last = -1
            for target in delta[members[at]]:
                if target < 0 or target == last:
                    continue
                last = target
                done = match_terminals[match_offsets[target] : match_offsets[target + 1]]
                count = _collect(done, seen, stamp, row, count)
                there = component[target]
                if there != here and visited[there] != stamp:
                    visited[there] = stamp
                    later = pool[offsets[row_of[there]] : offsets[row_of[there] + 1]]
                    count = _collect(later, seen, stamp, row, count)
        progress[1] = count
        if used[0] + 2 > len(offsets) or offsets[used[0]] + count > len(pool):
            seen[:] = 0
            return _FULL
        sort_row(row, count)
        row_of[here] = intern_row(row, count, rows)
        progress[0] += 1
    return _DONE
