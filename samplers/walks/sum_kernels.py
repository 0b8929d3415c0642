"""Compiled sums of exponentials: by blocks, inverted, and over one node's allowed ids.

Values are exp(log P - shift), so that they and their sums are plain numbers; where all that counts
is too small for that, the shift is chosen anew: no positive mass is lost, however small beside
others. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

import math

import numpy as np

from cdec.core.kernels import inner, kernel

BLOCK = 256
"""Entries whose sum is kept, so that an inversion looks into one block only."""
FAINT = 1e-250
"""Sum of exponentials below which ``LEAST`` may count: they are to be shifted by the largest."""
LEAST = 2.2250738585072014e-308
"""Stands for exponentials too small for a normal number: what has mass is never lost."""
LARGEST_SHIFT = 700.0
"""Nats: the exponential of it is still a number."""
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer in the low bits


@kernel(fastmath={"contract"}, error_model="numpy")
def fast_exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0 within 2 ulp, in straight-line code that vectorises; NaN is lost.

    It is 0 for minus infinity alone, and at least ``LEAST`` for all else.

    subtle: the fastmath set is spelt out because a kernel without one inherits its caller's, and
    reassociation would cancel the rounding constant.
    """
    clipped = x if x > -708.0 else -708.0
    shifted = clipped * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (clipped - n * _LN2_HIGH) - n * _LN2_LOW
    p = 1.0 / 479001600
    p = p * r + 1.0 / 39916800
    p = p * r + 1.0 / 3628800
    p = p * r + 1.0 / 362880
    p = p * r + 1.0 / 40320
    p = p * r + 1.0 / 5040
    p = p * r + 1.0 / 720
    p = p * r + 1.0 / 120
    p = p * r + 1.0 / 24
    p = p * r + 1.0 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = np.float64(shifted).view(np.int64) << np.int64(52)
    scaled = np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
    least = LEAST if x > -np.inf else 0.0
    return scaled if x > -708.0 else least


@kernel(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def exponentiate(values, n, sums):  # type: ignore[no-untyped-def]
    """Exponentiate values[:n] in place; put sums of blocks into ``sums``; return the sum."""
    total = 0.0
    for block in range((n + BLOCK - 1) // BLOCK):
        # subtle: a slice counted from 0 is what the compiler vectorises, six times faster.
        part = values[block * BLOCK : min(n, (block + 1) * BLOCK)]
        for j in range(len(part)):
            part[j] = fast_exp(part[j])
        mass = 0.0
        for j in range(len(part)):
            mass += part[j]
        sums[block] = mass
        total += mass
    return total


@kernel(error_model="numpy")
def invert(values, n, sums, target):  # type: ignore[no-untyped-def]
    """Return the first index whose running sum of values[:n] exceeds ``target``.

    Entries of mass zero are never returned; where rounding leaves nothing, the last positive is.
    """
    blocks = (n + BLOCK - 1) // BLOCK
    block = 0
    while block < blocks - 1 and sums[block] <= target:
        target -= sums[block]
        block += 1
    for j in range(block * BLOCK, n):
        if values[j] > target:
            return j
        target -= values[j]
    for j in range(n - 1, -1, -1):
        if values[j] > 0.0:
            return j
    return -1


@inner(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def dense_sums(scores, row, normalizer, sums):  # type: ignore[no-untyped-def]
    """Put the probability mass of each block of a row into ``sums``; return their sum."""
    width = scores.shape[1]
    values = np.empty(BLOCK)
    total = 0.0
    for block in range((width + BLOCK - 1) // BLOCK):
        part_of_row = scores[row, block * BLOCK : min(width, (block + 1) * BLOCK)]
        for j in range(len(part_of_row)):
            values[j] = fast_exp(np.float64(part_of_row[j]) - normalizer)
        part = 0.0
        for j in range(len(part_of_row)):
            part += values[j]
        sums[block] = part
        total += part
    return total


@kernel(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def gather_exp(row, shift, ids, start, n, values, sums):  # type: ignore[no-untyped-def]
    """Put exp(row[ids] - shift) of ids[start:start + n] into ``values``; return the sum.

    An id outside the row has mass zero: kernels check every index they read.
    """
    width = len(row)
    chosen = ids[start : start + n]
    for j in range(len(chosen)):
        token = chosen[j]
        inside = 0 <= token < width
        # subtle: an unsigned index spares the test for counting from the end.
        score = np.float64(row[np.uint64(token if inside else 0)])
        values[j] = score - shift if inside else -np.inf
    return exponentiate(values, n, sums)


@inner(fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def positive_sum(values, n):  # type: ignore[no-untyped-def]
    """Return the sum of values[:n]."""
    total = 0.0
    part = values[:n]
    for j in range(len(part)):
        total += part[j]
    return total


@inner(error_model="numpy")
def weigh(scores, row, normalizer, ids, start, n, values, sums):  # type: ignore[no-untyped-def]
    """Exponentiate the log probabilities of ids[start:start + n], shifted if they are all tiny.

    Returns:
        shift and total: ``values[:n]`` is exp(log P - shift), positive wherever P is, and exact if
        not below ``LEAST``; ``total`` its sum, ``sums`` its block sums. The total is 0 at a dead
        end, else above ``FAINT``, and NaN where the row is not normalised.
    """
    if not math.isfinite(normalizer):
        return 0.0, np.nan
    total = gather_exp(scores[row], normalizer, ids, start, n, values, sums)
    if total > FAINT:
        return 0.0, total
    return reweigh(scores, row, normalizer, ids, start, n, values, sums)


@inner(error_model="numpy")
def reweigh(scores, row, normalizer, ids, start, n, values, sums):  # type: ignore[no-untyped-def]
    """Exponentiate anew what has a positive value, shifted by the largest; as ``weigh``."""
    top = -np.inf
    for j in range(n):
        if values[j] > 0.0:
            top = max(top, np.float64(scores[row, ids[start + j]]))
    if top == -np.inf:
        return 0.0, 0.0
    for j in range(n):
        is_left = values[j] > 0.0
        values[j] = np.float64(scores[row, ids[start + j]]) - top if is_left else -np.inf
    return top - normalizer, exponentiate(values, n, sums)


@inner(error_model="numpy")
def log_rest(  # type: ignore[no-untyped-def]
    scores, row, normalizer, ids, start, n, shift, values, sums
):
    """Return the log of the mass of what has a positive value; ``values`` may be written.

    Args:
        shift, values, sums: As ``weigh`` left them, but for values set to 0.
    """
    total = positive_sum(values, n)
    if not total > FAINT:
        shift, total = reweigh(scores, row, normalizer, ids, start, n, values, sums)
    return shift + math.log(total) if total > 0.0 else -np.inf


@inner(error_model="numpy")
def place_of(ids, start, n, wanted):  # type: ignore[no-untyped-def]
    """Return how many of the sorted ids[start:start + n] are below an id.

    numpy's own search takes the compiler a second for each kernel that calls it.
    """
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ids[start + middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inner(error_model="numpy")
def end_mass(ids, start, n, end_ids, values):  # type: ignore[no-untyped-def]
    """Return the sum of the values of the end ids among the sorted ids[start:start + n]."""
    mass = 0.0
    for end in end_ids:
        place = place_of(ids, start, n, end)
        if place < n and ids[start + place] == end:
            mass += values[place]
    return mass


@inner(error_model="numpy")
def log_end_mass(  # type: ignore[no-untyped-def]
    scores, row, normalizer, ids, start, n, end_ids, shift, values
):
    """Return the log of the mass of the allowed end ids; shift and values are of ``weigh``."""
    mass = end_mass(ids, start, n, end_ids, values)
    if mass > FAINT:
        return shift + math.log(mass)
    # All end ids are allowed together.
    return log_sum(scores, row, end_ids) - normalizer if mass > 0.0 else -np.inf


@inner(error_model="numpy")
def log_sum(scores, row, ids):  # type: ignore[no-untyped-def]
    """Return log of the sum of exp of some scores of a row, -inf for none."""
    top = -np.inf
    for token in ids:
        top = max(top, np.float64(scores[row, token]))
    if top == -np.inf:
        return top
    total = 0.0
    for token in ids:
        total += math.exp(np.float64(scores[row, token]) - top)
    return top + math.log(total)
