"""Compiled loops of the scanner's construction: competing terminals, byte by byte.

A scanner state is a row of codes, ascending: ``2 * state`` of a terminal's automaton (states of all
terminals are numbered through) where the terminal competes; plus 1 where it is followed only to
know whether a text is a keyword.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.states.row_store import Rows, intern_row
from cdec.core.kernels import inner, kernel

DONE = 0
FULL = 1


class Edges(NamedTuple):
    """The automata of all terminals side by side, over common byte classes.

    offsets: int64[S + 1]; kinds, targets: int32, edges of a state by byte class.
    accepts: bool[S]. owners: int32[S] terminal of a state.
    """

    offsets: NDArray[np.int64]
    kinds: NDArray[np.int32]
    targets: NDArray[np.int32]
    accepts: NDArray[np.bool_]
    owners: NDArray[np.int32]


class Retyping(NamedTuple):
    """Keywords: the regular expressions that become them, and what the completed terminal is then.

    offsets: int64[T + 1]; expressions: int32, of each keyword. result: int32[T].
    """

    offsets: NDArray[np.int64]
    expressions: NDArray[np.int32]
    result: NDArray[np.int32]


@kernel
def union_edges(byte_classes: Any, bytes_of: Any, rows: Any, widths: Any, bases: Any) -> Any:
    """Return (offsets, kinds, targets) of all automata.

    Args:
        byte_classes: int32[T, 256], of each automaton. bytes_of: int32[K] a byte of each common
            class. rows: int32, all automata's rows. widths: int64[T], classes of each.
        bases: int64[T + 1], first state of each.
    """
    offsets = np.zeros(bases[-1] + 1, np.int64)
    kinds, targets = np.empty(0, np.int32), np.empty(0, np.int32)
    for fill in range(2):
        count, first = 0, 0
        for t in range(len(widths)):
            for state in range(bases[t + 1] - bases[t]):
                for kind in range(len(bytes_of)):
                    to = rows[first + byte_classes[t, bytes_of[kind]]]
                    if to >= 0:
                        if fill:
                            kinds[count], targets[count] = kind, bases[t] + to
                        count += 1
                offsets[bases[t] + state + 1] = count
                first += widths[t]
        if not fill:
            kinds, targets = np.empty(count, np.int32), np.empty(count, np.int32)
    return offsets, kinds, targets


@inner
def _successors(members: Any, edges: Any, begins: Any) -> Any:
    """Return the codes after each byte class, by class, ascending; ``begins`` int64[K + 1]."""
    begins[:] = 0
    offsets, kinds, targets = edges.offsets, edges.kinds, edges.targets
    for code in members:
        for at in range(offsets[code >> 1], offsets[(code >> 1) + 1]):
            begins[kinds[at] + 1] += 1
    for kind in range(len(begins) - 1):
        begins[kind + 1] += begins[kind]
    codes, fill = np.empty(begins[-1], np.int32), begins[:-1].copy()
    for code in members:
        for at in range(offsets[code >> 1], offsets[(code >> 1) + 1]):
            codes[fill[kinds[at]]] = targets[at] << 1 | code & 1
            fill[kinds[at]] += 1
    return codes


@kernel
def compete(codes: Any, edges: Any, retyping: Any, present: Any, stamp: int) -> int:
    """Cut what loses from ``codes``, in place; return how many are left.

    The first terminal that completes here beats all behind it for good, as in one large
    alternation. A keyword is followed while an expression that becomes it competes.
    """
    accepts, owners = edges.accepts, edges.owners
    offsets, expressions = retyping.offsets, retyping.expressions
    won = False
    for i in range(len(codes)):
        if codes[i] & 1 == 0 and won:
            codes[i] |= 1
        elif codes[i] & 1 == 0:
            present[owners[codes[i] >> 1]] = stamp
            won = accepts[codes[i] >> 1]
    kept = 0
    for code in codes:
        keep = code & 1 == 0
        if not keep:
            keyword = owners[code >> 1]
            for at in range(offsets[keyword], offsets[keyword + 1]):
                keep = keep or present[expressions[at]] == stamp
        if keep:
            codes[kept] = code
            kept += 1
    return kept


@kernel
def step_scanner(
    edges: Edges,
    retyping: Retyping,
    competing: bool,
    rows: Rows,
    delta: Any,
    present: Any,
    progress: Any,
) -> int:
    """Compute the successors of every scanner state from ``progress[0]`` on.

    Args:
        edges, retyping: The terminals.
        competing: Whether terminals compete; otherwise each goes its own way.
        rows: Rows of codes: the scanner states.
        delta: int32[capacity, K], -1 before, filled row by row.
        present: int64[T], scratch.
        progress: int64[3]: next state, last stamp, codes that may be needed.

    Returns:
        DONE, or FULL where the arrays must grow before the next state; call again then.
    """
    pool, offsets, _, used = rows
    num_classes = delta.shape[1]
    begins = np.zeros(num_classes + 1, np.int64)
    while progress[0] < used[0]:
        state = progress[0]
        codes = _successors(pool[offsets[state] : offsets[state + 1]], edges, begins)
        progress[2] = len(codes)
        if used[0] + num_classes + 1 > min(len(delta), len(offsets) - 1):
            return FULL
        if offsets[used[0]] + len(codes) > len(pool):
            return FULL
        for kind in range(num_classes):
            row = codes[begins[kind] : begins[kind + 1]]
            length = len(row)
            if competing and length > 0:
                progress[1] += 1
                length = compete(row, edges, retyping, present, progress[1])
            if length > 0:
                delta[state, kind] = intern_row(row, length, rows)
        progress[0] += 1
    return DONE


@kernel
def completed(edges: Any, retyping: Any, competing: bool, pool: Any, offsets: Any) -> Any:
    """Return (match_offsets int64[n + 1], match_terminals int32): what each state completes."""
    n = len(offsets) - 1
    match_offsets = np.zeros(n + 1, np.int64)
    matches = np.empty(len(pool), np.int32)
    count = 0
    for state in range(n):
        members = pool[offsets[state] : offsets[state + 1]]
        for code in members:
            if code & 1 == 0 and edges.accepts[code >> 1]:
                matches[count] = edges.owners[code >> 1]
                if competing:
                    matches[count] = _retyped(members, matches[count], edges, retyping)
                count += 1
                if competing:
                    break
        match_offsets[state + 1] = count
    return match_offsets, matches[:count]


@inner
def _retyped(members: Any, expression: int, edges: Any, retyping: Any) -> int:
    """Return the first keyword that the text of ``expression`` is, or ``expression``."""
    for code in members:
        if edges.accepts[code >> 1]:
            keyword = edges.owners[code >> 1]
            for at in range(retyping.offsets[keyword], retyping.offsets[keyword + 1]):
                if retyping.expressions[at] == expression:
                    return int(retyping.result[keyword])
    return expression
