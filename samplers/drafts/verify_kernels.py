"""Compiled verification of drafted events: the ratio test, residuals, and the mentored target.

The law claimed for a drafted event is the law it was drawn from: the draft's scores over the same
allowed ids, renormalised; the law of the target is masked and renormalised alike. All end ids are
one event, the last of each list. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cdec.samplers.categorical_kernels import END, NONE, end_mass, weigh
from cdec.samplers.mentored_kernels import divergence, mentored_value, solve
from cdec.samplers.sum_kernels import BLOCK, invert

PLAIN, ONE_HOT, DRAWN = 0, 1, 2
"""What stands against the target: nothing, so its own law is drawn from; a sure guess; a draw."""


@njit(cache=True, nogil=True, error_model="numpy")
def events_of(scores, row, normalizer, ids, start, n, ends, is_end, values, sums, law):  # type: ignore[no-untyped-def]
    """Write the probabilities of n ids as events: a place an id, those of end ids 0, END the last.

    Args:
        ends: The end ids. is_end: The same, bool[V].
        law: float64[> n], written: sums to 1, or is 0 where nothing has mass.

    Returns:
        shift and total, as ``weigh``.
    """
    shift, total = weigh(scores, row, normalizer, ids, start, n, values, sums)
    if not total > 0.0:
        law[: n + 1] = 0.0
        return shift, total
    end = end_mass(ids, start, n, ends, values)
    scale = 1.0 / total
    for j in range(n):
        law[j] = values[j] * scale
    if end > 0.0:
        for j in range(n):
            if is_end[ids[start + j]]:
                law[j] = 0.0
    law[n] = end * scale
    return shift, total


@njit(cache=True, nogil=True, error_model="numpy")
def place_of(event, ids, start, n):  # type: ignore[no-untyped-def]
    """Return the place of an event among n sorted ids and END; -1 where it is not allowed."""
    if event == END:
        return n
    place = np.searchsorted(ids[start : start + n], event)
    return place if place < n and ids[start + place] == event else -1


@njit(cache=True, nogil=True, error_model="numpy")
def draw(law, n, number, sums):  # type: ignore[no-untyped-def]
    """Return a place of ``law`` (float64[n], of any sum) by inversion; -1 where it has no mass."""
    total = 0.0
    for block in range((n + BLOCK - 1) // BLOCK):
        mass = 0.0
        for j in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
            mass += law[j]
        sums[block] = mass
        total += mass
    return invert(law, n, sums, number * total) if total > 0.0 else -1


@njit(cache=True, nogil=True, error_model="numpy")
def judge(p, q, n, place, test, limit, work, out):  # type: ignore[no-untyped-def]
    """Accept or refuse the event at ``place``, drawn from ``p``, for the target ``q``.

    Args:
        p, q: float64[n], each of sum 1. test: In [0, 1). limit: Divergence allowed, nats; 0 is
            lossless. work: Of ``solve``.
        out: float64[3], written: alpha and beta of the law aimed at, and KL(q || it).

    Returns:
        Whether it is accepted: with probability min(1, aim / p), never where the aim is 0.
    """
    out[0], out[1], out[2] = 1.0, 1.0, 0.0
    if limit > 0.0:
        out[0], out[1], out[2] = solve(p, q, n, limit, work)
    if place < 0 or not p[place] > 0.0:
        return False
    return test < mentored_value(p[place], q[place], out[0], out[1]) / p[place]


@njit(cache=True, nogil=True, error_model="numpy")
def replacement(p, q, n, number, out, left, sums):  # type: ignore[no-untyped-def]
    """Return the place of an event drawn from (aim - p)+, what the aim has more of than the draft.

    Args:
        out: As ``judge`` wrote it. left: float64[n] workspace.
    """
    for j in range(n):
        left[j] = max(0.0, mentored_value(p[j], q[j], out[0], out[1]) - p[j])
    place = draw(left, n, number, sums)
    # Refused by a rounding error alone: both laws are equal, so the target's own will do.
    return place if place >= 0 else draw(q, n, number, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def verify(  # type: ignore[no-untyped-def]
    target,
    lists,
    walks,
    draft,
    numbers,
    limits,
    work,
    chosen,
    nodes_out,
    judged,
):
    """Verify or draw one event for every walk at the nodes ``which``.

    Args:
        target: scores float[M, V], log_normalizer float64[M], rows int64[N]: as in ``Step``.
        lists: which int64[S], lists int64[S], offsets int64[L + 1], ids int32[...], end_ids,
            is_end bool[V]: as in ``categorical_kernels.sample_ragged``.
        walks: walk_starts int64[N + 1], walk_order int64[W]: the walks by node.
        draft: scores float[K, V'], log_normalizer float64[K], rows int64[W], kinds int64[W]
            (PLAIN, ONE_HOT or DRAWN), events int64[W].
        numbers: tests float64[W], picks float64[W].
        limits: float64[W] divergence allowed at each walk's position, nats.
        work: Of ``solve``, for one event more than the longest list.
        chosen: tokens int64[W] and log_p float64[W], written as ``sample_ragged`` does.
        nodes_out: log_z float64[N], log_end float64[N], written as ``sample_ragged`` does.
        judged: Of walks that are not PLAIN, written: accepted bool[W], log_ratio float64[W] (log of
            target over aim at the event), spent float64[W] (min(limit, KL(target || draft))) and
            charged float64[W] (KL(target || aim)).
    """
    scores, log_normalizer, rows = target
    which, list_of, offsets, ids, end_ids, is_end = lists
    walk_starts, walk_order = walks
    draft_scores, draft_normalizer, draft_rows, kinds, proposed = draft
    tests, picks = numbers
    tokens, log_p = chosen
    log_z, log_end = nodes_out
    accepted, log_ratio, spent, charged = judged
    longest = 1
    for number in list_of:
        longest = max(longest, offsets[number + 1] - offsets[number])
    values, others, left = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    p, q, out = np.empty(longest + 1), np.empty(longest + 1), np.empty(3)
    sums, spare = np.empty(longest // BLOCK + 1), np.empty(longest // BLOCK + 2)
    for s in range(len(which)):
        node = which[s]
        row, start = rows[node], offsets[list_of[s]]
        n = offsets[list_of[s] + 1] - start
        normalizer = log_normalizer[row]
        known = scores, row, normalizer, ids, start, n, end_ids, is_end
        shift, total = events_of(*known, values, sums, q)
        log_end[node] = -np.inf
        log_z[node] = min(0.0, shift + math.log(total)) if total == total else np.nan
        if q[n] > 0.0:
            log_end[node] = shift + math.log(total) + math.log(q[n])
        for walk in walk_order[walk_starts[node] : walk_starts[node + 1]]:
            tokens[walk], log_p[walk] = NONE, -np.inf
            if not total > 0.0:
                continue
            said = -1
            if kinds[walk] != PLAIN:
                said = place_of(proposed[walk], ids, start, n)
            if said < 0:
                # As ``sample_ragged`` draws, so that nothing depends on what else is verified.
                place = invert(values, n, sums, picks[walk] * total)
                if is_end[ids[start + place]]:
                    place = n
            else:
                if kinds[walk] == ONE_HOT:
                    p[: n + 1] = 0.0
                    p[said] = 1.0
                else:
                    at = draft_rows[walk]
                    scale = draft_normalizer[at]
                    drafted = draft_scores, at, scale, ids, start, n, end_ids, is_end
                    events_of(*drafted, others, spare, p)
                accepted[walk] = judge(p, q, n + 1, said, tests[walk], limits[walk], work, out)
                place = said
                if not accepted[walk]:
                    place = replacement(p, q, n + 1, picks[walk], out, left, spare)
                aim = mentored_value(p[place], q[place], out[0], out[1])
                log_ratio[walk] = math.log(q[place] / aim)
                spent[walk], charged[walk] = out[2], out[2]
                if out[0] == 0.0:
                    spent[walk] = min(limits[walk], divergence(p, q, n + 1))
            if place == n:
                tokens[walk], log_p[walk] = END, log_end[node]
            elif place >= 0:
                token = ids[start + place]
                tokens[walk] = token
                log_p[walk] = np.float64(scores[row, token]) - normalizer
