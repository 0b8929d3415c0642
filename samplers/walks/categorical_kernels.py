"""Compiled choice among allowed events on the CPU: gathered log-sums, inverse CDFs, best events.

Every kernel works on *nodes* (distinct prefixes) with a ragged list of allowed ids, and on the
walks that stand at each node: a node is gathered and summed once however many walks share it.
All end-of-sequence ids together are one event, END. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
from cdec.samplers.walks.sum_kernels import (
    BLOCK,
    LARGEST_SHIFT,
    dense_sums,
    exponentiate,
    invert,
    log_end_mass,
    log_rest,
    log_sum,
    place_of,
    weigh,
)

END = -1
"""Chosen event: the end of the text, by any end id."""
NONE = -2
"""No event has positive mass: a dead end."""


class Known(NamedTuple):
    """The model's scores at N nodes.

    scores: float[M, V]. log_normalizer: float64[M]. rows: int64[N] row of each node.
    """

    scores: Any
    log_normalizer: NDArray[np.float64]
    rows: NDArray[np.int64]


class Lists(NamedTuple):
    """Allowed ids of S of the nodes, which share lists.

    which: int64[S] nodes. lists: int64[S] list of each. offsets: int64[L + 1] and ids: int32[...]:
    the L lists, each sorted.
    """

    which: NDArray[np.int64]
    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]


class Ends(NamedTuple):
    """The end ids: int64[...], and bool[V]."""

    ids: NDArray[np.int64]
    is_end: NDArray[np.bool_]


class Draws(NamedTuple):
    """W walks by node: int64[N + 1] starts in the order int64[W]; and their uniforms float64[W]."""

    walk_starts: NDArray[np.int64]
    walk_order: NDArray[np.int64]
    uniforms: NDArray[np.float64]


class Drawn(NamedTuple):
    """What was drawn for W walks at N nodes.

    tokens: int64[W] a token id, END or NONE. log_p: float64[W] log P of the event under the model,
    all end ids together. log_z: float64[N] log of the allowed mass, -inf at dead ends, NaN where
    the scores hold NaN. log_end: float64[N] log of the allowed end ids' mass. log_residual:
    float64[N] log of the allowed mass without the drawn tokens, a sum over the other ids; or
    empty, not asked for.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_residual: NDArray[np.float64]


class Best(NamedTuple):
    """The k best tokens of N nodes.

    tokens: int64[N, k] best first, ties by id, NONE where there are fewer. log_p: float64[N, k],
    -inf where there are fewer. log_end: float64[N] log of the allowed end ids' mass. log_z:
    float64[N].
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_z: NDArray[np.float64]


@kernel(error_model="numpy")
def sample_ragged(known, allowed, ends, draws, aborting, drawn):  # type: ignore[no-untyped-def]
    """Draw one event for every walk at the listed nodes, among each node's allowed ids.

    Args:
        known: ``Known``. allowed: ``Lists``. ends: ``Ends``. draws: ``Draws``.
        aborting: Draw among all events: one that is not allowed gives NONE.
        drawn: ``Drawn``, written.
    """
    (scores, log_normalizer, rows), (which, lists, offsets, ids) = known, allowed
    (end_ids, is_end), (walk_starts, walk_order, uniforms) = ends, draws
    tokens, log_p, log_z, log_end, log_residual = drawn
    longest = longest_list(lists, offsets)
    values = np.empty(longest)
    sums = np.empty(longest // BLOCK + 1)
    for s in range(len(which)):
        node = which[s]
        row = rows[node]
        normalizer = log_normalizer[row]
        start = offsets[lists[s]]
        n = offsets[lists[s] + 1] - start
        shift, total = weigh(scores, row, normalizer, ids, start, n, values, sums)
        walks = walk_order[walk_starts[node] : walk_starts[node + 1]]
        log_z[node] = min(0.0, shift + math.log(total)) if total == total else np.nan
        log_end[node] = -np.inf
        if len(log_residual):
            log_residual[node] = -np.inf
        if not total > 0.0:
            for walk in walks:
                tokens[walk] = NONE
                log_p[walk] = -np.inf
            continue
        here = scores, row, normalizer, ids, start, n
        log_end[node] = log_end_mass(*here, end_ids, shift, values)
        # Past the largest shift only the number 0 is allowed.
        scale = math.exp(min(-shift, LARGEST_SHIFT)) if aborting else total
        for walk in walks:
            target = uniforms[walk] * scale
            if aborting and target >= total:
                tokens[walk] = NONE
                log_p[walk] = -np.inf
                continue
            token = ids[start + invert(values, n, sums, target)]
            if is_end[token]:
                tokens[walk] = END
                log_p[walk] = log_end[node]
            else:
                tokens[walk] = token
                log_p[walk] = np.float64(scores[row, token]) - normalizer
        if len(log_residual):
            for walk in walks:
                if tokens[walk] >= 0:
                    values[place_of(ids, start, n, tokens[walk])] = 0.0
            log_residual[node] = log_rest(*here, shift, values, sums)


@kernel(error_model="numpy")
def sample_dense(known, which, ends, draws, drawn):  # type: ignore[no-untyped-def]
    """Draw one event for every walk at the unconstrained nodes ``which``; as ``sample_ragged``.

    The row is read once for the sums of blocks; only the block of a drawn number is read again.
    """
    (scores, log_normalizer, rows), (end_ids, is_end) = known, ends
    walk_starts, walk_order, uniforms = draws
    tokens, log_p, log_z, log_end, _ = drawn
    width = scores.shape[1]
    sums = np.empty(width // BLOCK + 1)
    values = np.empty(BLOCK)
    inner = np.empty(1)
    for s in range(len(which)):
        node = which[s]
        row = rows[node]
        normalizer = log_normalizer[row]
        total = dense_sums(scores, row, normalizer, sums)
        # subtle: fast_exp turns NaN into 0, so a row of NaN shows as missing mass.
        log_z[node] = 0.0 if total > 0.5 else np.nan
        log_end[node] = log_sum(scores, row, end_ids) - normalizer
        for walk in walk_order[walk_starts[node] : walk_starts[node + 1]]:
            target = uniforms[walk] * total
            block = 0
            while block < (width - 1) // BLOCK and sums[block] <= target:
                target -= sums[block]
                block += 1
            start = block * BLOCK
            n = min(BLOCK, width - start)
            for j in range(n):
                values[j] = np.float64(scores[row, start + j]) - normalizer
            exponentiate(values, n, inner)
            token = start + max(0, invert(values, n, inner, target))
            if is_end[token]:
                tokens[walk] = END
                log_p[walk] = log_end[node]
            else:
                tokens[walk] = token
                log_p[walk] = np.float64(scores[row, token]) - normalizer


@kernel(error_model="numpy")
def best_events(known, allowed, ends, best):  # type: ignore[no-untyped-def]
    """List the most probable tokens and the end event of the listed nodes.

    Args:
        known: ``Known``. allowed: ``Lists``. ends: ``Ends``. best: ``Best``, written.
    """
    (scores, log_normalizer, rows), (which, lists, offsets, ids) = known, allowed
    (end_ids, is_end), (tokens, log_p, log_end, log_z) = ends, best
    k = tokens.shape[1]
    longest = longest_list(lists, offsets)
    values = np.empty(longest)
    sums = np.empty(longest // BLOCK + 1)
    for s in range(len(which)):
        node = which[s]
        row = rows[node]
        start = offsets[lists[s]]
        n = offsets[lists[s] + 1] - start
        shift, total = weigh(scores, row, log_normalizer[row], ids, start, n, values, sums)
        tokens[node] = NONE
        log_p[node] = -np.inf
        log_end[node] = -np.inf
        log_z[node] = min(0.0, shift + math.log(total)) if total == total else np.nan
        if not total > 0.0:
            continue
        insert_best(scores[row], ids[start : start + n], is_end, tokens[node], log_p[node])
        for place in range(k):
            log_p[node, place] -= log_normalizer[row]
        here = scores, row, log_normalizer[row], ids, start, n
        log_end[node] = log_end_mass(*here, end_ids, shift, values)


@inner(error_model="numpy")
def insert_best(row, ids, is_end, tokens, best):  # type: ignore[no-untyped-def]
    """Keep the highest scores of ``ids`` in ``best`` (k entries, falling), their ids in ``tokens``.

    Of equal scores the lower id comes first. End ids are left out.
    """
    k = len(tokens)
    for token in ids:
        if not 0 <= token < len(row):
            continue
        score = np.float64(row[token])
        if score > best[k - 1] and not is_end[token]:
            place = k - 1
            while place > 0 and best[place - 1] < score:
                best[place] = best[place - 1]
                tokens[place] = tokens[place - 1]
                place -= 1
            best[place] = score
            tokens[place] = token


@inner(error_model="numpy")
def longest_list(lists, offsets):  # type: ignore[no-untyped-def]
    """Return the length of the longest of some lists, at least 1."""
    longest = 1
    for number in lists:
        longest = max(longest, offsets[number + 1] - offsets[number])
    return longest


@kernel(error_model="numpy")
def log_residuals(known, allowed, starts, taken, residual):  # type: ignore[no-untyped-def]
    """Write the log of the mass of the allowed ids but for some, of the listed nodes.

    A sum over the other ids, never a difference.

    Args:
        known: ``Known``. allowed: ``Lists``.
        starts: int64[N + 1] and taken: int64[...]: what is left out at each of the N nodes.
        residual: float64[N], written.
    """
    (scores, log_normalizer, rows), (which, lists, offsets, ids) = known, allowed
    longest = longest_list(lists, offsets)
    values, sums = np.empty(longest), np.empty(longest // BLOCK + 1)
    for s in range(len(which)):
        node = which[s]
        start = offsets[lists[s]]
        n = offsets[lists[s] + 1] - start
        here = scores, rows[node], log_normalizer[rows[node]], ids, start, n
        shift, total = weigh(*here, values, sums)
        if not total > 0.0:
            continue
        for token in taken[starts[node] : starts[node + 1]]:
            place = place_of(ids, start, n, token)
            if place < n and ids[start + place] == token:
                values[place] = 0.0
        residual[node] = min(0.0, log_rest(*here, shift, values, sums))
