"""Compiled narrowing of the solver's windows: the few events among which alpha and beta lie.

An event of a window is a column of ``events``: ratio, p, q, q log ratio. Those of side 0 fill the
front, those of side 1 the back.
"""

from __future__ import annotations

import numpy as np

from cdec.core.kernels import inner
from cdec.samplers.mentored.tables import (
    EDGE,
    GRID,
    LOG,
    REST,
    TINY,
    P,
    Q,
    accumulate,
    bracket,
    cover,
    fast_log,
)

CHUNK = 4096
"""Terms of a running sum; sums of chunks are summed, as many equal terms would drift."""
_SMALL = 48
"""Most events of a side that are sorted rather than binned."""
_ROUNDS = 32
_FIRST, _STOP, _P, _Q, _SHORT, _INNER, _OUTER = range(7)
"""Of a window: its bins, the sums beyond it, the side's sum of q log r short of it, its edges."""
_COUNT, _LENGTH, _ORIGIN, _SHIFT = range(4)
"""Of a side: events, edges, bits of the outermost ratio, and the shift that makes bits a bin."""


@inner(error_model="numpy")
def narrow(table, window, bins):  # type: ignore[no-untyped-def]
    """Make the bins between two edges of a side's table its window."""
    first, stop = bins
    window[_FIRST], window[_STOP] = first, stop
    window[_OUTER], window[_INNER] = table[EDGE, first], table[EDGE, stop]
    window[_P], window[_Q] = table[P, first], table[Q, first]
    window[_SHORT] = table[REST, stop]


@inner(error_model="numpy")
def _select(bins, n, first, stop, chosen):  # type: ignore[no-untyped-def]
    """Put the indices of bins[:n] in [first, stop) into ``chosen``; return how many they are."""
    width = np.uint32(stop - first)
    count = np.uint64(0)
    for j in range(n):
        # Stored in any case: a branch that nobody can predict costs more.
        chosen[count] = j
        count += np.uint64(np.uint32(bins[j] - first) < width)
    return np.int64(count)


@inner(error_model="numpy")
def gather(p, q, n, bins, side, window, chosen, events):  # type: ignore[no-untyped-def]
    """Copy the events of a window of the first table; return how many they are.

    Args:
        p, q: float64[>= n].
        n: Number of events.
        bins: int32[>= n], upwards by ratio; the table of side 1 counts them downwards.
        side: 0 or 1.
        window: From ``narrow``.
        chosen: int32[> n], overwritten.
        events: float64[4, >= n], written at its front or at column n's end.
    """
    first, stop = np.int32(window[_FIRST]), np.int32(window[_STOP])
    if side == 1:
        first, stop = np.int32(2 * GRID + 2 - stop), np.int32(2 * GRID + 2 - first)
    count = _select(bins, n, first, stop, chosen)
    start, stop = (0, count) if side == 0 else (n - count, n)
    # subtle: rows sliced one by one are contiguous to the compiler, a slice of all rows is not.
    shares, targets = events[1][start:stop], events[2][start:stop]
    for i in range(count):
        j = np.uint64(chosen[i])
        shares[i] = p[j]
        targets[i] = max(q[j], TINY)
    _weigh(events[0][start:stop], shares, targets, events[3][start:stop])
    return count


@inner(fastmath={"contract"}, error_model="numpy")
def _weigh(ratios, p, q, costs):  # type: ignore[no-untyped-def]
    """Compute ratios and costs of gathered events, in a loop of its own that vectorises."""
    for i in range(len(p)):
        ratio = q[i] / p[i]
        ratios[i] = ratio
        costs[i] = q[i] * fast_log(ratio)


@inner(error_model="numpy")
def _move(part, j, into):  # type: ignore[no-untyped-def]
    """Copy column j over column ``into``."""
    for row in range(4):
        part[row, into] = part[row, j]


@inner(error_model="numpy")
def _sort(part, side):  # type: ignore[no-untyped-def]
    """Sort the few columns of ``part`` by ratio: upwards on side 0, downwards on side 1."""
    for j in range(1, part.shape[1]):
        ratio, p, q, cost = part[0, j], part[1, j], part[2, j], part[3, j]
        k = j - 1
        while k >= 0 and (part[0, k] > ratio if side == 0 else part[0, k] < ratio):
            _move(part, k, k + 1)
            k -= 1
        part[0, k + 1], part[1, k + 1], part[2, k + 1], part[3, k + 1] = ratio, p, q, cost


@inner(error_model="numpy")
def _grid(part, side):  # type: ignore[no-untyped-def]
    """Return the bits of the outermost ratio, the shift to bins and how many bins there are."""
    keys = part[0].view(np.int64)
    low, high = keys[0], keys[0]
    for j in range(1, len(keys)):
        low, high = min(low, keys[j]), max(high, keys[j])
    shift = np.int64(0)
    while (high - low) >> shift >= GRID:
        shift += 1
    return (low if side == 0 else high), shift, ((high - low) >> shift) + 1


@inner(error_model="numpy")
def _sorted_table(table, part, side):  # type: ignore[no-untyped-def]
    """Make every event a bin of its own; return their number."""
    _sort(part, side)
    for j in range(part.shape[1]):
        table[EDGE, j + 1] = part[0, j]
        table[P, j + 1] = part[1, j]
        table[Q, j + 1] = part[2, j]
        table[REST, j + 1] = part[3, j]
    return part.shape[1]


@inner(error_model="numpy")
def _binned_table(table, part, side, mark, sums):  # type: ignore[no-untyped-def]
    """Bin the events by their ratios' bits, and note how in ``mark``; return how many bins."""
    origin, shift, bins = _grid(part, side)
    mark[_ORIGIN, side], mark[_SHIFT, side] = origin, shift
    sign = 1 - 2 * side
    keys = part[0].view(np.int64)
    table[P : REST + 1, : bins + 1] = 0.0
    for begin in range(0, len(keys), CHUNK):
        sums[:bins] = 0.0
        for j in range(begin, min(len(keys), begin + CHUNK)):
            into = sums[np.uint64((sign * (keys[j] - origin)) >> shift)]
            into[0] += part[1, j]
            into[1] += part[2, j]
            into[2] += part[3, j]
        for t in range(bins):
            table[P, t + 1] += sums[t, 0]
            table[Q, t + 1] += sums[t, 1]
            table[REST, t + 1] += sums[t, 2]
    for t in range(bins):
        table[EDGE, t + 1] = np.int64(origin + sign * (np.int64(t) << shift)).view(np.float64)
    return bins


@inner(error_model="numpy")
def _refine(table, part, side, window, marks, sums):  # type: ignore[no-untyped-def]
    """Rebuild a side's table from the events of its window: each by itself if few, else binned.

    Bin 0 is empty: edge 0 is the window's, edge 1 the outermost event's. Where the shift is 0 all
    events of a bin have the ratio of its first edge: such a table is exact.
    """
    marks[_SHIFT, side] = 0
    if part.shape[1] <= _SMALL:
        bins = _sorted_table(table, part, side)
    else:
        bins = _binned_table(table, part, side, marks, sums)
    table[P : REST + 1, 0] = 0.0
    table[EDGE, 0], table[EDGE, bins + 1] = window[_OUTER], window[_INNER]
    for t in range(bins + 2):
        table[LOG, t] = fast_log(table[EDGE, t])
    marks[_LENGTH, side] = bins + 2
    accumulate(table, bins + 2, side, (window[_P], window[_Q]), window[_SHORT])


@inner(error_model="numpy")
def _keep(part, side, window, origin, shift):  # type: ignore[no-untyped-def]
    """Move the window's events to the outer end of ``part``; return how many they are."""
    count = part.shape[1]
    sign = 1 - 2 * side
    first, width = np.int64(window[_FIRST]), np.uint64(window[_STOP] - window[_FIRST])
    kept = 0
    keys = part[0].view(np.int64)
    for i in range(count):
        j = i if side == 0 else count - 1 - i
        t = 1 + ((sign * (keys[j] - origin)) >> shift)
        if np.uint64(t - first) < width:
            _move(part, j, kept if side == 0 else count - 1 - kept)
            kept += 1
    return kept


@inner(error_model="numpy")
def pin_down(tables, events, n, marks, windows, sums, goal):  # type: ignore[no-untyped-def]
    """Refine both sides until their tables are exact.

    A ratio has 64 bits and a round settles up to nine; rarely one side waits for the other. A
    result of tables that are not exact after all rounds is as safe, for ``solve`` measures it.

    Args:
        tables: float64[2, 7, 514].
        events: float64[4, >= n] of the windows; reordered.
        n: Number of events of the problem.
        marks: int64[4, 2], marks[0] the number of events of each window.
        windows: float64[2, 7] from ``narrow``.
        sums: float64[>= 512, 4], overwritten.
        goal: Divergence to find, nats.

    Returns:
        low, high: Moved masses about the solution; the tables' lengths are in marks[1].
    """
    marks[_SHIFT] = 1
    low, high = 0.0, 0.0
    for _ in range(_ROUNDS):
        for side in range(2):
            if marks[_SHIFT, side] > 0:
                count = marks[_COUNT, side]
                part = events[:, :count] if side == 0 else events[:, n - count : n]
                _refine(tables[side], part, side, windows[side], marks, sums)
        low, high = bracket(tables, marks[_LENGTH], marks[_SHIFT], goal)
        if marks[_SHIFT, 0] == 0 and marks[_SHIFT, 1] == 0:
            break
        for side in range(2):
            shift = marks[_SHIFT, side]
            if shift > 0:
                count = marks[_COUNT, side]
                part = events[:, :count] if side == 0 else events[:, n - count : n]
                table, window = tables[side], windows[side]
                narrow(table, window, cover(table, marks[_LENGTH, side], low, high))
                marks[_COUNT, side] = _keep(part, side, window, marks[_ORIGIN, side], shift)
    return low, high
