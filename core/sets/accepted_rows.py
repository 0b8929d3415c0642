"""Rows of a set that another constraint accepts: one walk over the trie, level by level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import EmptySetError
from cdec.core.session import DEAD, DONE, Session
from cdec.core.sets.rows import SetRows
from cdec.core.sets.trie import END

_CHUNK = 1 << 16
"""Walks that step together."""


@dataclass(eq=False)
class AcceptedRows:
    """Verdicts of another constraint on a set's R rows.

    Attributes:
        kept: bool[R] rows of the set that it accepts, the set's own filter included.
        ended: bool[R] those after whose last token it is DONE, without an end id.
    """

    kept: NDArray[np.bool_]
    ended: NDArray[np.bool_]


class _BudgetExceeded(Exception):  # noqa: N818 - not an error: an answer
    """The walk would take more steps, or hold more states, than it may."""


def restriction(
    rows: SetRows, ends_itself: bool, session: Session, max_steps: int, max_states: int
) -> NDArray[np.bool_] | None:
    """Return the rows that another constraint accepts, bool[R].

    Args:
        rows, session, max_steps, max_states: As in ``accepted_rows``.
        ends_itself: Whether the last token of a row gives DONE.

    Returns:
        None where they are too many to walk, and where the other ends a row itself that the set
        ends with an end id.

    Raises:
        EmptySetError: It accepts none.
    """
    found = accepted_rows(rows, session, max_steps, max_states)
    if found is None:
        return None
    if not found.kept.any():
        raise EmptySetError(
            f"none of the set's {rows.n_kept} members is accepted by the other constraint, the "
            f"first being {rows.spelled(rows.first_kept()).decode('utf-8', 'replace')!r}",
            hint="Whole texts are judged, with leading space, forced prefix and suffix: compile "
            "the set without (`leading_space` never), or allow them in the other constraint.",
        )
    ends = _rows_that_end(rows) if ends_itself else np.zeros(rows.arrays.n_rows, np.bool_)
    return None if (found.ended & found.kept & ~ends).any() else found.kept


def _rows_that_end(rows: SetRows) -> NDArray[np.bool_]:
    """Return which rows no other continues, bool[R]: their last tokens give DONE."""
    arrays = rows.arrays
    ends: NDArray[np.bool_] = np.diff(arrays.row_offsets) > 0
    ends[arrays.node_row[1:][arrays.node_token[1:] == END]] = False
    return ends


def accepted_rows(
    rows: SetRows, session: Session, max_steps: int, max_states: int
) -> AcceptedRows | None:
    """Walk a session along the rows of a set; rows that share a prefix share the walk.

    Args:
        rows: Of the set.
        session: Of the other constraint, on the CPU.
        max_steps: Most tokens to follow; branches end where the session refuses a token.
        max_states: Most states that the session may come to hold (``Session.statistics``).

    Returns:
        What it accepts; None if that was not enough. Cost: one ``advance`` a step, in batches:
        some 30 nanoseconds where states come again, a microsecond and a few hundred bytes where
        every prefix is a state of its own.
    """
    walk = _TrieWalk(rows, session, max_steps, max_states)
    try:
        walk.run()
    except _BudgetExceeded:
        return None
    return walk.rows


class _TrieWalk:
    """One walk: nodes of the trie by level, then the tails of rows that are alone."""

    def __init__(self, rows: SetRows, session: Session, max_steps: int, max_states: int) -> None:
        arrays = rows.arrays
        self._arrays = arrays
        self._filter = rows.row_filter
        self._session = session
        self._left = max_steps
        self._max_states = max_states
        self._tail_row: list[NDArray[np.int64]] = []
        self._tail_state: list[NDArray[np.int64]] = []
        self._tail_at: list[NDArray[np.int64]] = []
        n = arrays.n_rows
        self.rows = AcceptedRows(np.zeros(n, np.bool_), np.zeros(n, np.bool_))

    def run(self) -> None:
        """Walk all nodes and tails."""
        nodes = np.zeros(1, np.int64)
        states = self._session.start(1)
        while nodes.size:
            parts = [self._children(*part) for part in _chunks(nodes, states)]
            nodes = np.concatenate([part[0] for part in parts])
            states = np.concatenate([part[1] for part in parts])
        rows = np.concatenate(self._tail_row)
        at, states = np.concatenate(self._tail_at), np.concatenate(self._tail_state)
        for part in _chunks(rows, at, states):
            self._tails(*part)

    def _children(
        self, nodes: NDArray[np.int64], states: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the children of nodes that both sides go on to; leaves become tails."""
        arrays = self._arrays
        is_leaf = arrays.node_degree[nodes] == 0
        self._add_tails(nodes[is_leaf], states[is_leaf])
        nodes, states = nodes[~is_leaf], states[~is_leaf]
        degrees = arrays.node_degree[nodes].astype(np.int64)
        first = np.repeat(arrays.node_link[nodes] - np.cumsum(degrees) + degrees, degrees)
        children = first + np.arange(len(first))
        states = np.repeat(states, degrees)
        if self._filter is not None:
            start = arrays.node_row[children].astype(np.int64)
            stop = start + arrays.node_count[children]
            is_kept = self._filter.below(stop) > self._filter.below(start)
            children, states = children[is_kept], states[is_kept]
        tokens = arrays.node_token[children]
        is_end = tokens == END
        self._finish(arrays.node_row[children[is_end]].astype(np.int64), states[is_end])
        children = children[~is_end]
        after = self._step(states[~is_end], tokens[~is_end])
        # subtle: where the other side is DONE, the row that ends here is still to be judged.
        is_open = after != DEAD
        return children[is_open], after[is_open]

    def _add_tails(self, leaves: NDArray[np.int64], states: NDArray[np.int64]) -> None:
        self._tail_row.append(self._arrays.node_row[leaves].astype(np.int64))
        self._tail_at.append(self._arrays.node_link[leaves])
        self._tail_state.append(states)

    def _tails(
        self, rows: NDArray[np.int64], at: NDArray[np.int64], states: NDArray[np.int64]
    ) -> None:
        """Follow what is left of rows, token by token, all rows side by side."""
        stop = self._arrays.row_offsets[rows + 1]
        while rows.size:
            at_end = at == stop
            self._finish(rows[at_end], states[at_end])
            # A row that goes on where the other side has ended is none of its members.
            going = ~at_end & (states >= 0)
            rows, at, stop, states = rows[going], at[going], stop[going], states[going]
            states = self._step(states, self._arrays.tokens[at])
            at = at + 1

    def _step(self, states: NDArray[np.int64], tokens: NDArray[np.int32]) -> NDArray[np.int64]:
        self._left -= len(tokens)
        if self._left < 0:
            raise _BudgetExceeded
        after: NDArray[np.int64] = self._session.advance(states, tokens.astype(np.int64))
        if self._session.statistics()["states"] > self._max_states:
            raise _BudgetExceeded
        return after

    def _finish(self, rows: NDArray[np.int64], states: NDArray[np.int64]) -> None:
        """Judge rows by the states after their last tokens."""
        if rows.size:
            self.rows.kept[rows] = self._session.is_complete(states) & (states != DEAD)
            self.rows.ended[rows] = states == DONE


def _chunks(*arrays: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], ...]]:
    for first in range(0, len(arrays[0]), _CHUNK):
        yield tuple(array[first : first + _CHUNK] for array in arrays)
