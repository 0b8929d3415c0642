"""Compiled verification of drafted events: the ratio test, residuals, and the mentored target.

The law claimed for a drafted event is the law it was drawn from: the draft's scores over the same
allowed ids, renormalised; the law of the target is masked and renormalised alike. All end ids are
one event, the last of each list. Arithmetic is float64 whatever the scores.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.core.kernels import inner, kernel
from cdec.samplers.mentored.kernels import divergence, mentored_value, solve
from cdec.samplers.walks.categorical_kernels import END
from cdec.samplers.walks.sum_kernels import BLOCK, FAINT, end_mass, invert, weigh

PLAIN, ONE_HOT, DRAWN = 0, 1, 2
"""What stands against the target: nothing, so its own law is drawn from; a sure guess; a draw."""

SPENT = 1.0 - 1e-9
"""Share of a limit from which it counts as spent: ``solve`` leaves a little for rounding."""
_NO_LAW = -1


class Law(NamedTuple):
    """Scores of a model: float[M, V] rows, and their float64[M] log normalisers, as in ``Step``."""

    scores: Any
    log_normalizer: NDArray[np.float64]


class AllowedLists(NamedTuple):
    """Sorted lists of allowed ids, int64[L + 1] and int32[...]; end ids, int64[...] and bool[V]."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    end_ids: NDArray[np.int64]
    is_end: NDArray[np.bool_]


class TestedNodes(NamedTuple):
    """The S nodes at which something was proposed, and the T walks that are tested there.

    rows: int64[S] of the target. list_of: int64[S]. log_end: float64[S] of the target.
    starts: int64[S + 1] and walks: int64[T]: the tested walks by node.
    """

    rows: NDArray[np.int64]
    list_of: NDArray[np.int64]
    log_end: NDArray[np.float64]
    starts: NDArray[np.int64]
    walks: NDArray[np.int64]


class Proposed(NamedTuple):
    """The proposals to W walks: int64[W] rows of the draft's law, -1 for a one-hot law; events."""

    laws: NDArray[np.int64]
    events: NDArray[np.int64]


class Numbers(NamedTuple):
    """Uniforms of W walks, float64[W]: of the tests and of draws; limits in nats, 0 is lossless."""

    tests: NDArray[np.float64]
    picks: NDArray[np.float64]
    limits: NDArray[np.float64]


class Chosen(NamedTuple):
    """The events of W walks: int64[W] tokens and float64[W] log P."""

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]


class Judged(NamedTuple):
    """What became of the proposals to W walks.

    accepted: bool[W]. log_ratio: float64[W] log of target over aim at the event. spent: float64[W]
    min(limit, KL(target || draft)). charged: float64[W] KL(target || aim).
    """

    accepted: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]
    spent: NDArray[np.float64]
    charged: NDArray[np.float64]


@kernel(error_model="numpy")
def events_of(scores, row, normalizer, ids, start, n, ends, is_end, values, sums, law):  # type: ignore[no-untyped-def]
    """Write the probabilities of n ids as events: a place an id, those of end ids 0, END the last.

    Args:
        ends: The end ids. is_end: The same, bool[V].
        law: float64[> n], written: sums to 1, or is 0 where nothing has mass.

    Returns:
        Log of the mass of all of them, -inf where nothing has any.
    """
    shift, total = weigh(scores, row, normalizer, ids, start, n, values, sums)
    if not total > 0.0:
        law[: n + 1] = 0.0
        return -np.inf
    end = end_mass(ids, start, n, ends, values)
    scale = 1.0 / total
    for j in range(n):
        law[j] = values[j] * scale
    if end > 0.0:
        for j in range(n):
            if is_end[ids[start + j]]:
                law[j] = 0.0
    law[n] = end * scale
    return shift + math.log(total)


@kernel(error_model="numpy")
def place_of(event, ids, start, n):  # type: ignore[no-untyped-def]
    """Return the place of an event among n sorted ids and END; -1 where it is not allowed."""
    if event == END:
        return n
    place = np.searchsorted(ids[start : start + n], event)
    return place if place < n and ids[start + place] == event else -1


@inner(error_model="numpy")
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


@kernel(error_model="numpy")
def aim_at(p, q, n, limit, work, out):  # type: ignore[no-untyped-def]
    """Find the law aimed at: the target q where ``limit`` is 0, else what fits p best within it.

    Args:
        p, q: float64[n], each of sum 1. limit: Divergence allowed, nats. work: Of ``solve``.
        out: float64[4], written: alpha and beta of the law aimed at, KL(q || it), and
            min(limit, KL(q || p)).
    """
    out[0], out[1], out[2], out[3] = 1.0, 1.0, 0.0, 0.0
    if limit > 0.0:
        out[0], out[1], out[2] = solve(p, q, n, limit, work)
        # Where the aim spends all of the limit, the draft's law would spend more.
        out[3] = out[2]
        if out[2] < limit * SPENT:
            out[3] = min(limit, divergence(p, q, n))


@kernel(error_model="numpy")
def accepts(p, q, place, test, out):  # type: ignore[no-untyped-def]
    """Say whether the event at ``place``, drawn from ``p``, is accepted for the law aimed at.

    With probability min(1, aim / p), never where the aim is 0.

    Args:
        p, q: float64[n]. test: In [0, 1). out: As ``aim_at`` wrote it.
    """
    if not p[place] > 0.0:
        return False
    return test < mentored_value(p[place], q[place], out[0], out[1]) / p[place]


@kernel(error_model="numpy")
def replacement(p, q, n, number, out, left, sums):  # type: ignore[no-untyped-def]
    """Return the place of an event drawn from (aim - p)+, what the aim has more of than the draft.

    Args:
        out: As ``aim_at`` wrote it. left: float64[n] workspace.
    """
    for j in range(n):
        left[j] = max(0.0, mentored_value(p[j], q[j], out[0], out[1]) - p[j])
    place = draw(left, n, number, sums)
    # Refused by a rounding error alone: both laws are equal, so the target's own will do.
    return place if place >= 0 else draw(q, n, number, sums)


@kernel(error_model="numpy")
def claim(draft, law, said, ids, start, n, ends, is_end, values, sums, p):  # type: ignore[no-untyped-def]
    """Write the law that a proposal was drawn from: the draft's, masked, or a one-hot one.

    Args:
        draft: ``Law``. law: Its row; _NO_LAW for one-hot.
        said: Place of the proposal. p: float64[> n], written, as by ``events_of``.
    """
    if law == _NO_LAW:
        p[: n + 1] = 0.0
        p[said] = 1.0
    else:
        scores, normalizer = draft
        events_of(scores, law, normalizer[law], ids, start, n, ends, is_end, values, sums, p)


@kernel(error_model="numpy")
def verify(target, lists, nodes, draft, proposals, numbers, work, chosen, judged):  # type: ignore[no-untyped-def]
    """Put the proposals to some walks to the test, node by node.

    Args:
        target: ``Law``. lists: ``AllowedLists``. nodes: ``TestedNodes``. draft: ``Law``.
        proposals: ``Proposed``. numbers: ``Numbers``.
        work: Of ``solve``, for one event more than the longest list.
        chosen: ``Chosen``: what the target draws by itself; written where a proposal is allowed.
        judged: ``Judged``, written there.

    Cost: O(length of its list) a walk; walks of one node, law and limit share the comparison.
    """
    (scores, normalizer), (offsets, ids, end_ids, is_end) = target, lists
    rows, list_of, log_end, starts, walks = nodes
    (laws, proposed), (tests, picks, limits) = proposals, numbers
    (tokens, log_p), (accepted, log_ratio, spent, charged) = chosen, judged
    longest = 1
    for number in list_of:
        longest = max(longest, offsets[number + 1] - offsets[number])
    values, left = np.empty(longest), np.empty(longest + 1)
    p, q, out = np.empty(longest + 1), np.empty(longest + 1), np.empty(4)
    sums = np.empty(longest // BLOCK + 2)
    for s in range(len(rows)):
        row, start = rows[s], offsets[list_of[s]]
        n = offsets[list_of[s] + 1] - start
        known = ids, start, n, end_ids, is_end, values, sums
        log_z = events_of(scores, row, normalizer[row], *known, q)
        if log_z == -np.inf:
            continue
        law, limit = _NO_LAW, np.nan
        for walk in walks[starts[s] : starts[s + 1]]:
            said = place_of(proposed[walk], ids, start, n)
            if said < 0:
                continue
            if law == _NO_LAW or laws[walk] != law or limits[walk] != limit:
                law, limit = laws[walk], limits[walk]
                claim(draft, law, said, *known, p)
                aim_at(p, q, n + 1, limit, work, out)
            accepted[walk] = accepts(p, q, said, tests[walk], out)
            place = said
            if not accepted[walk]:
                place = replacement(p, q, n + 1, picks[walk], out, left, sums)
            charged[walk], spent[walk] = out[2], out[3]
            tokens[walk], log_p[walk] = END, log_end[s]
            if place < n:
                tokens[walk] = ids[start + place]
                log_p[walk] = np.float64(scores[row, tokens[walk]]) - normalizer[row]
            aim = mentored_value(p[place], q[place], out[0], out[1])
            log_ratio[walk] = math.log(q[place] / aim)
            if 0.0 < q[place] < FAINT:
                log_ratio[walk] = log_p[walk] - log_z - math.log(aim)
