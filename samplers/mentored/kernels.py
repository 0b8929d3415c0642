"""Compiled solver of mentored decoding: the distribution of most acceptance within a divergence.

Tran-Thien, *Mentored decoding* (2023), in its clean form: among the laws pi with
KL(q || pi) <= D, and 0 where the target q is 0, sum(min(p, pi)) for the draft p is largest at
pi = clip(p, q / beta, q / alpha) with alpha <= 1 <= beta. Deviations: the printed Algorithm 1
sorts the vocabulary and bisects (moving alpha before its bounds, which never ends); here the ratios
are binned once, the bins where alpha and beta lie are binned again until few events remain, and
those are solved exactly. Zeros of p and q are allowed. The result is measured and keeps to D.
"""

from __future__ import annotations

import numpy as np

from cdec.core.kernels import inner, kernel
from cdec.samplers.mentored.refine import CHUNK, gather, narrow, pin_down
from cdec.samplers.mentored.tables import (
    EDGE,
    GRID,
    LARGEST,
    LOG,
    REST,
    TINY,
    WIDTH,
    P,
    Q,
    accumulate,
    bracket,
    cover,
    descend,
    fast_log,
)

SLACK = 1e-13
"""Share of 1 + limit that is left for rounding: it costs an acceptance of 3e-7 at most."""
_ATTEMPTS = 4
HUGE = 1e100
FINEST = 5e-324
_OCTAVES = 16  # the first table's grid: ratios from 2^-16 to 2^16
_SHIFT = 52 - 5  # of a ratio's bits: 32 bins an octave
_LOWEST = (1023 - _OCTAVES) << 5  # 2^-16, shifted
_INFINITE = 2 * GRID + 2  # bins: 0, then the grid from 2^-16 to 2^16, then up to LARGEST, then this
_OUTSIDE = 2 * GRID + 3  # no target probability
_BINS = 2 * GRID + 4
_BLOCK = 512
_GRID = 2.0 ** (np.arange(-_OCTAVES, 0)[:, None]) * (1.0 + np.arange(32) / 32.0)
_EDGES = np.stack(
    [
        np.concatenate([[0.0], _GRID.ravel(), [1.0]]),
        np.concatenate([[LARGEST], [2.0**_OCTAVES], (2.0**_OCTAVES * _GRID).ravel()[::-1]]),
    ]
)
_LOGS = np.log(np.maximum(_EDGES, 1e-300))


@kernel
def make_workspace(n):  # type: ignore[no-untyped-def]
    """Return what ``solve`` writes into for up to ``n`` events: 52 bytes an event and 160 kB.

    Returns:
        A tuple of arrays, to reuse call after call; one a thread.
    """
    return (
        np.empty((2, 7, WIDTH)),  # tables
        np.empty((4, n)),  # events of the windows
        np.empty(n, np.int32),  # bin of each event
        np.empty(n + 1, np.int32),  # events chosen
        np.empty((3, _BINS, 4)),  # sums by bin: all, and of two halves of a chunk
        np.empty(_BLOCK),  # q log(q / p) of a block
        np.empty((2, 7)),  # windows
        np.empty((4, 2), np.int64),  # counts, lengths, origins, shifts
    )


@kernel(error_model="numpy")
def mentored_value(p, q, alpha, beta):  # type: ignore[no-untyped-def]
    """Return pi of one event: p between q / beta and q / alpha, 0 where q is 0.

    Args:
        p, q: Draft and target probability of the event.
        alpha, beta: From ``solve``; alpha 0 sets no upper bound, beta inf no lower one.
    """
    least = max(q, TINY)
    value = max(p, least / beta)
    value = min(value, least / alpha) if alpha > 0.0 else value
    # subtle: where q / beta underflows, 0 would make the divergence infinite.
    value = value if value > 0.0 or beta == np.inf else FINEST
    value = value if alpha < 1.0 else q
    return value if q > 0.0 else 0.0


@inner(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _spent(p, q, n, alpha, beta):  # type: ignore[no-untyped-def]
    """Return KL(q || pi) in nats: measured, event by event."""
    total, extreme = 0.0, 0
    for begin in range(0, n, _BLOCK):
        end = min(n, begin + _BLOCK)
        draft, target = p[begin:end], q[begin:end]
        part = 0.0
        for j in range(len(draft)):
            share = target[j]
            ratio = max(share, TINY) / mentored_value(draft[j], share, alpha, beta)
            part += share * fast_log(ratio)
            extreme += 1 if share > 0.0 and ratio > LARGEST else 0
        total += part
    if extreme > 0:
        total = 0.0
        for j in range(n):
            if q[j] > 0.0:
                value = mentored_value(p[j], q[j], alpha, beta)
                if not value > 0.0:
                    return np.inf
                total += q[j] * (np.log(q[j]) - np.log(value))
    return max(total, 0.0)


@kernel(error_model="numpy")
def divergence(p, q, n):  # type: ignore[no-untyped-def]
    """Return KL(q || p) of p[:n] and q[:n] (float64) in nats; inf where p = 0 < q."""
    return _spent(p, q, n, 0.0, np.inf)


@inner(fastmath={"contract"}, error_model="numpy")
def _classify(p, q, bins, costs):  # type: ignore[no-untyped-def]
    """Put the bin of each event's ratio into ``bins`` and q log(q / p) into ``costs``."""
    for j in range(len(p)):
        share = max(q[j], TINY)
        ratio = share / p[j]
        place = (np.float64(ratio).view(np.int64) >> np.int64(_SHIFT)) - np.int64(_LOWEST) + 1
        place = min(max(place, np.int64(0)), np.int64(2 * GRID + 1))
        place = np.int64(_INFINITE) if ratio > LARGEST else place
        bins[j] = np.int32(place if q[j] > 0.0 else np.int64(_OUTSIDE))
        costs[j] = share * fast_log(ratio)


@inner(error_model="numpy")
def _scan(p, q, n, bins, sums, block):  # type: ignore[no-untyped-def]
    """Bin every event; put the sums of p, q and q log(q / p) of each bin into sums[0]."""
    sums[:] = 0.0
    for begin in range(0, n, _BLOCK):
        end = min(n, begin + _BLOCK)
        draft, target, places = p[begin:end], q[begin:end], bins[begin:end]
        _classify(draft, target, places, block)
        for j in range(end - begin):
            # Two halves: neighbours of one bin need not wait for each other.
            into = sums[1 + (j & 1), np.uint64(places[j])]
            into[0] += draft[j]
            into[1] += max(target[j], TINY)
            into[2] += block[j]
        if end % CHUNK == 0 or end == n:
            # A running sum of many equal terms drifts: sum the sums of chunks.
            for place in range(_BINS):
                for k in range(4):
                    sums[0, place, k] += sums[1, place, k] + sums[2, place, k]
                    sums[1, place, k] = 0.0
                    sums[2, place, k] = 0.0


@inner(error_model="numpy")
def _first_tables(sums, tables):  # type: ignore[no-untyped-def]
    """Fill the tables of both sides from the sums by bin."""
    for side in range(2):
        table = tables[side]
        for t in range(WIDTH):
            table[EDGE, t] = _EDGES[side, t]
            table[LOG, t] = _LOGS[side, t]
            place = t if side == 0 else 2 * GRID + 1 - t
            table[P, t] = sums[place, 0]
            table[Q, t] = sums[place, 1]
            table[REST, t] = sums[place, 2]
        # What events outside the target's support lose is given to the others.
        lost = sums[_OUTSIDE, 0] + sums[_INFINITE, 0] if side else 0.0
        accumulate(table, WIDTH, side, (lost, sums[_INFINITE, 1] if side else 0.0), 0.0)


@inner(error_model="numpy")
def _attempt(p, q, n, goal, slack, workspace):  # type: ignore[no-untyped-def]
    """Return alpha and beta whose divergence is ``goal`` within ``slack``, from sums by bin."""
    tables, events, bins, chosen, sums, _, windows, marks = workspace
    _first_tables(sums[0], tables)
    marks[1], marks[3] = WIDTH, 1
    low, high = bracket(tables, marks[1], marks[3], goal)
    for side in range(2):
        narrow(tables[side], windows[side], cover(tables[side], WIDTH, low, high))
        marks[0, side] = gather(p, q, n, bins, side, windows[side], chosen, events)
    low, high = pin_down(tables, events, n, marks, windows, sums[1], goal)
    return descend(tables, marks[1], low, high, goal, slack)


@kernel(error_model="numpy")
def solve(p, q, n, limit, workspace):  # type: ignore[no-untyped-def]
    """Return alpha, beta and KL(q || pi) of the pi of most acceptance with KL(q || pi) <= limit.

    Cost: O(n), below a millisecond for 131,072 events (``tests/benchmarks/drafts_solver.py``).

    Args:
        p, q: float64[>= n] draft and target probabilities; the first n of each sum to 1.
        n: Number of events.
        limit: Divergence in nats, >= 0; inf is allowed.
        workspace: From ``make_workspace`` of at least n.

    Returns:
        alpha, beta, spent: For ``mentored_value``. alpha is 0 where nothing bounds pi from above,
        beta inf where pi is p; (1, 1) is pi = q. spent <= limit, nats.
    """
    if not limit > 0.0:
        return 1.0, 1.0, 0.0
    _scan(p, q, n, workspace[2], workspace[4], workspace[5])
    found = workspace[4][0]
    whole = max(found[:_INFINITE, 2].sum(), 0.0)
    if found[_INFINITE, 1] > 0.0:
        whole = divergence(p, q, n) if found[_INFINITE, 0] > 0.0 else np.inf
    slack = SLACK * (1.0 + min(limit, HUGE))
    if found[_OUTSIDE, 0] == 0.0 and (whole <= limit - slack or limit == np.inf):
        return 0.0, np.inf, whole
    goal = min(limit, HUGE) - slack
    for _ in range(_ATTEMPTS):
        if goal <= 0.0:
            break
        alpha, beta = _attempt(p, q, n, goal, 0.01 * slack, workspace)
        spent = _spent(p, q, n, alpha, beta)
        if spent <= limit:
            return alpha, beta, spent
        # Rounding of more than the slack, or events that are not normalised.
        goal -= 2.0 * (spent - limit) + slack
    return 1.0, 1.0, 0.0
