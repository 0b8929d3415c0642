"""Compiled running sums over sorted or binned ratios q / p, and the search among them.

A *side* holds the events of positive target probability whose ratio r = q / p is below 1 (side 0,
cut down to q / alpha) or at least 1 (side 1, raised to q / beta). Its table lists edges from the
extreme (0, or the largest ratio) inward to 1. With alpha or beta at an edge e, and P and Q the sums
of p and q over the ratios beyond it,

    MOVED = P - Q / e on side 0, Q / e - P on side 1: the mass taken or given, minus what the
            events of no target probability lose anyway; increases inward on both sides,
    COST  = sum of q log r short of the edge + Q log e: the side's part of KL(q || pi).

Both masses are equal at the solution. As functions of that mass x both costs are convex with
slopes alpha and -beta, so chords bound their sum from above and tangents from below.
"""

from __future__ import annotations

import numpy as np

from cdec.core.kernels import inner

EDGE, LOG, P, Q, REST, MOVED, COST = range(7)
"""Fields of a table; REST is the sum of q log r short of the edge."""
GRID = 512
"""Bins of a side; 32 an octave in the first table."""
WIDTH = GRID + 2
TINY = 1e-290
"""A positive target probability counts as at least this: quotients by it do not overflow."""
LARGEST = 1e290
"""Largest finite beta; a ratio beyond it counts as infinite."""
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_MANTISSA = 0x000FFFFFFFFFFFFF
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1 / 2)


@inner(fastmath={"contract"}, error_model="numpy")
def fast_log(x):  # type: ignore[no-untyped-def]
    """Return log(x) of a normal x > 0 within 2 ulp, in straight-line code that vectorises.

    Anything else gives some finite number. Series of 2 artanh((m - 1) / (m + 1)) for x = m 2^e,
    sqrt(1 / 2) <= m < sqrt(2).
    """
    bits = np.float64(x).view(np.int64) - np.int64(_ROOT_HALF)
    exponent = bits >> np.int64(52)
    m = np.int64((bits & np.int64(_MANTISSA)) + np.int64(_ROOT_HALF)).view(np.float64)
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    tail = 2.0 / 21
    tail = tail * z + 2.0 / 19
    tail = tail * z + 2.0 / 17
    tail = tail * z + 2.0 / 15
    tail = tail * z + 2.0 / 13
    tail = tail * z + 2.0 / 11
    tail = tail * z + 2.0 / 9
    tail = tail * z + 2.0 / 7
    tail = tail * z + 2.0 / 5
    tail = tail * z + 2.0 / 3
    half = 0.5 * f * f
    # log m = f - (f^2 / 2 - s (f^2 / 2 + z tail)): f is exact, the rest is small beside it.
    low = np.float64(exponent) * _LN2_LOW
    return np.float64(exponent) * _LN2_HIGH + (f - (half - (s * (half + z * tail) + low)))


@inner(error_model="numpy")
def accumulate(table, length, side, beyond, short):  # type: ignore[no-untyped-def]
    """Turn the sums of bins in P, Q, REST (bin t lies between edges t, t + 1) into a table.

    Args:
        table: float64[7, >= length]; EDGE and LOG filled.
        length: Number of edges.
        side: 0 or 1.
        beyond: The sums of p and of q beyond edge 0.
        short: The side's sum of q log r short of the last edge.
    """
    p, q = beyond
    sign = 1.0 - 2.0 * side
    before = -np.inf
    for t in range(length):
        p_bin, q_bin = table[P, t], table[Q, t]
        table[P, t] = p
        table[Q, t] = q
        share = q / table[EDGE, t] if q > 0.0 else 0.0
        # Rounding must not turn the order of edges around.
        before = max(before, sign * (p - share))
        table[MOVED, t] = before
        if t < length - 1:
            p += p_bin
            q += q_bin
    table[REST, length - 1] = short
    for t in range(length - 2, -1, -1):
        table[REST, t] += table[REST, t + 1]
    for t in range(length):
        q = table[Q, t]
        table[COST, t] = table[REST, t] + (q * table[LOG, t] if q > 0.0 else 0.0)


@inner(error_model="numpy")
def cost_bounds(table, side, t, x):  # type: ignore[no-untyped-def]
    """Return a lower and an upper bound of the side's cost at moved mass x between edges t, t+1."""
    start, stop = table[MOVED, t], table[MOVED, t + 1]
    first, last = table[COST, t], table[COST, t + 1]
    if not stop > start:
        return min(first, last), max(first, last)
    sign = 1.0 - 2.0 * side
    x = min(max(x, start), stop)
    upper = first + (last - first) * ((x - start) / (stop - start))
    from_first = first + sign * table[EDGE, t] * (x - start)
    from_last = last - sign * table[EDGE, t + 1] * (stop - x)
    return max(from_first, from_last), upper


@inner(error_model="numpy")
def skip(table, length, t, x):  # type: ignore[no-untyped-def]
    """Return the last bin from ``t`` on that begins at a moved mass of at most ``x``."""
    while t + 2 < length and table[MOVED, t + 1] <= x:
        t += 1
    return t


@inner(error_model="numpy")
def cover(table, length, low, high):  # type: ignore[no-untyped-def]
    """Return edges start < stop with the moved masses from ``low`` to ``high`` between them."""
    start = skip(table, length, 0, low)
    stop = start + 1
    while stop < length - 1 and table[MOVED, stop] < high:
        stop += 1
    return start, stop


@inner(error_model="numpy")
def exact_at(table, length, side, t, x):  # type: ignore[no-untyped-def]
    """Return bin, alpha or beta, and cost at moved mass x, in a table of exact edges.

    Exact: every event of a bin has the ratio of the bin's first edge.
    """
    t = skip(table, length, t, x)
    q, inner, outer = table[Q, t + 1], table[EDGE, t + 1], table[EDGE, t]
    if not q > 0.0:
        return t, inner, table[REST, t + 1]
    room = table[P, t + 1] - x if side == 0 else table[P, t + 1] + x
    value = q / room if room > 0.0 else inner
    value = min(max(value, min(inner, outer)), max(inner, outer))
    return t, value, table[REST, t + 1] + q * np.log(value)


@inner(error_model="numpy")
def cost_within(table, length, side, coarse, t, x):  # type: ignore[no-untyped-def]
    """Return bounds of the side's cost at moved mass x between edges t, t+1: equal if exact."""
    if coarse:
        return cost_bounds(table, side, t, x)
    cost = exact_at(table, length, side, t, x)[2]
    return cost, cost


@inner(error_model="numpy")
def bracket(tables, lengths, coarse, goal):  # type: ignore[no-untyped-def]
    """Return moved masses between which the cost of both sides passes ``goal``.

    Args:
        coarse: int64[2], 0 where the side's table has exact edges: the cost is known there, and
            its bounds between far edges would keep the other side from being refined.

    Returns:
        low, high: The cost at ``high`` is at most ``goal``; at ``low`` it is at least that, or
        ``low`` is the least mass there is. O(edges).
    """
    x = max(0.0, tables[0, MOVED, 0], tables[1, MOVED, 0])
    end = min(tables[0, MOVED, lengths[0] - 1], tables[1, MOVED, lengths[1] - 1])
    low = x
    here = (0, 0)
    while True:
        first = skip(tables[0], lengths[0], here[0], x)
        second = skip(tables[1], lengths[1], here[1], x)
        here = (first, second)
        low_0, high_0 = cost_within(tables[0], lengths[0], 0, coarse[0], first, x)
        low_1, high_1 = cost_within(tables[1], lengths[1], 1, coarse[1], second, x)
        if high_0 + high_1 <= goal:
            return low, x
        if low_0 + low_1 >= goal:
            low = x
        if x >= end:
            return low, x
        following = end
        if tables[0, MOVED, first + 1] > x:
            following = min(following, tables[0, MOVED, first + 1])
        if tables[1, MOVED, second + 1] > x:
            following = min(following, tables[1, MOVED, second + 1])
        x = following


@inner(error_model="numpy")
def descend(tables, lengths, low, high, goal, slack):  # type: ignore[no-untyped-def]
    """Return alpha and beta of cost in [goal, goal + slack], by Newton's method from ``low``.

    The cost is convex in the moved mass, with derivative alpha - beta: the steps go one way. At
    ``low`` the cost may be below ``goal``; then that is the answer.
    """
    x, first, second = low, 0, 0
    alpha, beta = 1.0, 1.0
    for _ in range(1000):
        first, alpha, cost_0 = exact_at(tables[0], lengths[0], 0, first, x)
        second, beta, cost_1 = exact_at(tables[1], lengths[1], 1, second, x)
        cost = cost_0 + cost_1
        if cost - goal <= slack or x >= high:
            break
        following = min(high, x + (cost - goal) / (beta - alpha))
        if not following > x:
            break
        x = following
    # Nothing is moved but what events outside the target's support lose: alpha -> 0+.
    return (0.0 if x <= 0.0 else alpha), beta
