"""Choice of the next events of a step: which ids are allowed, then one event a walk, or the best k.

An *event* is one ordinary token, or the end of the text by any end id. On the CPU the allowed ids
are gathered and summed by compiled kernels, which work on *nodes* (distinct prefixes) with a ragged
list of allowed ids, and on the walks that stand at each node: a node is gathered and summed once
however many walks share it. Arithmetic is float64 whatever the scores. On a device masks are
applied (``events_torch``).

With top-M (PPV, arXiv 2504.09135 section 3.2), the model's M most probable ids are verified and
only those valid are allowed (one end id stands for all of them); where none is, the full mask is
used. ``missed`` is then the model's mass outside the top M, an upper bound of the allowed mass left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.mask import offsets_of
from cdec.core.native import library
from cdec.samplers.walks.frontier import END, NONE, Step
from cdec.samplers.walks.masks import AllowedIds, Lists


def host_scores(step: Step) -> tuple[Any, NDArray[np.float64]]:
    """Return scores as numpy, viewed where possible, and the normalizers as float64."""
    scores, normalizer = step.scores, step.log_normalizer
    if not isinstance(scores, np.ndarray):
        import torch

        wide = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
        scores = wide.detach().cpu().numpy()
    if not isinstance(normalizer, np.ndarray):
        normalizer = normalizer.detach().cpu().numpy()
    return scores, np.ascontiguousarray(normalizer, np.float64)


def allowed_ids(
    step: Step,
    scores: Any,
    log_normalizer: NDArray[np.float64],
    top_m: int | None = None,
    masked: bool = True,
) -> AllowedIds:
    """Ask each session for the ids allowed at its nodes; only end ids at the length limit."""
    nodes, batch = step.nodes, step.nodes.batch
    if not masked:
        return AllowedIds.everything(len(step.rows))
    if top_m is None or top_m >= scores.shape[1] or not batch.masks:
        return nodes.allowed() if step.allowed is None else step.allowed
    found, missed = Lists(batch), np.zeros(len(step.rows))
    at_limit = nodes.at_limit()
    for session, group in batch.groups(nodes.request):
        open_nodes, verified, lengths, ids = _verified(
            session, step, scores, log_normalizer, group[~at_limit[group]], top_m, missed
        )
        found.add(verified, np.arange(verified.size), offsets_of(lengths), ids)
        if open_nodes.size:
            found.ask(session, nodes.state, open_nodes)
    found.end(at_limit)
    return found.allowed(np.flatnonzero(batch.is_unconstrained(nodes.request)), missed)


def _verified(
    session: Any,
    step: Step,
    scores: Any,
    log_normalizer: NDArray[np.float64],
    group: NDArray[np.int64],
    top_m: int,
    missed: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Split ``group`` into nodes that need the full mask and nodes with valid ids in their top M.

    Returns:
        Nodes without any; nodes with some; for the latter their lists' lengths and ids, sorted.
        Writes ``missed`` of the latter.
    """
    batch, rows = step.nodes.batch, step.rows[group]
    proposed = _top_ids(step.scores, scores, rows, top_m)
    valid = session.check(step.nodes.state[group], proposed)
    log_p = scores[rows[:, None], proposed] - log_normalizer[rows, None]
    # subtle: a valid id of probability zero is no way on.
    valid = valid & (log_p > -np.inf)
    some = valid.any(axis=1)
    top_mass = np.exp(log_p[some].astype(np.float64)).sum(axis=1)
    missed[group[some]] = np.maximum(0.0, 1.0 - top_mass)
    proposed, valid = proposed[some], valid[some]
    # The end is one event: one verified end id brings all end ids in, each in one place.
    is_end = batch.is_end[proposed]
    ends = np.broadcast_to(batch.end_ids, (len(proposed), len(batch.end_ids)))
    may_end = np.broadcast_to((valid & is_end).any(axis=1)[:, None], ends.shape)
    proposed = np.concatenate([proposed, ends], axis=1)
    valid = np.concatenate([valid & ~is_end, may_end], axis=1)
    order = np.argsort(proposed, axis=1)
    proposed = np.take_along_axis(proposed, order, 1)
    valid = np.take_along_axis(valid, order, 1)
    return group[~some], group[some], valid.sum(axis=1), proposed[valid]


def _top_ids(original: Any, scores: Any, rows: NDArray[np.int64], top_m: int) -> NDArray[np.int64]:
    """Return the ``top_m`` ids of highest score of each row, int64[n, M], in no order."""
    if isinstance(original, np.ndarray):
        at = scores.shape[1] - top_m
        return np.argpartition(scores[rows], at, axis=1)[:, at:]
    import torch

    ids = torch.topk(original[torch.from_numpy(rows)], top_m, dim=1, sorted=False).indices
    return np.asarray(ids.numpy())


@dataclass(frozen=True, slots=True)
class SampledEvents:
    """One event a walk.

    Attributes:
        tokens: int64[W] token id, END, or NONE at a dead end.
        log_p: float64[W] log P(event | prefix), all end ids together.
        log_z: float64[N] log of the allowed mass at each node, -inf at dead ends.
        missed: float64[N] mass outside the top M; 0 under a full mask.
        log_end: float64[N] of the end event, -inf where the text may not end.
        log_residual: float64[N] log of the allowed mass but for the drawn tokens, or empty.
        log_weight: float64[W] log of an estimate of the allowed mass where each walk stands, which
            counts in the place of ``log_z``; None where that is known.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    missed: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_residual: NDArray[np.float64]
    log_weight: NDArray[np.float64] | None = None

    def weighed(self, node: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return the place of each walk (node int64[W]) and the columns that walks add up."""
        if self.log_weight is None:
            return node, self.tokens, self.log_p, self.log_z, self.missed
        own = np.arange(len(self.tokens))
        return own, self.tokens, self.log_p, self.log_weight, np.zeros(len(own))


@dataclass(frozen=True, slots=True)
class BestEvents:
    """The most probable events of each node.

    Attributes:
        tokens: int64[N, k] ordinary tokens, best first, ties by id; NONE where there are fewer.
        log_p: float64[N, k].
        log_end: float64[N] of the end event, -inf where the text may not end.
        log_z: float64[N]. missed: float64[N]. As in SampledEvents.
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_z: NDArray[np.float64]
    missed: NDArray[np.float64]


_Events = TypeVar("_Events", SampledEvents, BestEvents)


def sample(
    step: Step,
    uniforms: NDArray[np.float64],
    *,
    top_m: int | None = None,
    masked: bool = True,
    aborting: bool = False,
    residual: bool = False,
) -> SampledEvents:
    """Draw one event for every walk, by inversion of the cumulative mass in id order.

    Args:
        step: An evaluated frontier of W walks at N nodes.
        uniforms: float64[W] in [0, 1).
        top_m: Verify the model's M most probable ids only.
        masked: Whether constraints forbid events; if not, they are not even asked.
        aborting: Draw among all events of constrained nodes; NONE where it is not allowed.
        residual: Whether ``log_residual`` is asked for (of constrained nodes).

    Raises:
        ModelError: The model's scores hold NaN.
    """
    if not step.nodes.batch.on_host:
        from cdec.samplers.walks import events_torch

        options = events_torch.Options(top_m, masked, aborting, residual)
        return require_numbers(SampledEvents(*events_torch.sample(step, uniforms, options)))
    known = host_scores(step)
    allowed = allowed_ids(step, *known, top_m, masked)
    return sample_allowed(step, known, allowed, uniforms, aborting=aborting, residual=residual)


def sample_others(step: Step, uniforms: NDArray[np.float64]) -> SampledEvents:
    """Draw as ``sample`` does without masks, however little mass the scores have; NONE for none."""
    if not step.nodes.batch.on_host:
        return sample(step, uniforms, masked=False)
    none, width = np.zeros(0, np.int64), step.scores.shape[1]
    everything = np.array([0, width]), np.arange(width, dtype=np.int32)
    which = np.arange(len(step.rows))
    allowed = AllowedIds(which, np.zeros_like(which), *everything, none, np.zeros(len(which)))
    return sample_allowed(step, (step.scores, step.log_normalizer), allowed, uniforms)


def sample_allowed(
    step: Step,
    known: tuple[Any, NDArray[np.float64]],
    allowed: AllowedIds,
    uniforms: NDArray[np.float64],
    *,
    aborting: bool = False,
    residual: bool = False,
) -> SampledEvents:
    """Draw as ``sample`` on the host, from scores and lists of allowed ids that are known.

    Args:
        step, uniforms, aborting, residual: As in ``sample``.
        known: From ``host_scores``. allowed: From ``allowed_ids``.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    batch = step.nodes.batch
    count = len(step.rows)
    drawn = (
        np.empty(len(step.walk_node), np.int64),
        np.empty(len(step.walk_node)),
        np.empty(count),
        np.full(count, -np.inf),
        np.full(count if residual else 0, -np.inf),
    )
    scores = *known, step.rows
    ends = batch.end_ids, batch.is_end
    draws = step.walk_starts, step.walk_order, uniforms
    if allowed.which.size:
        library.sample_ragged(scores, allowed.columns, ends, draws, aborting, drawn)
    if allowed.unconstrained.size:
        library.sample_dense(scores, allowed.unconstrained, ends, draws, drawn)
    tokens, log_p, log_z, *masses = drawn
    return require_numbers(SampledEvents(tokens, log_p, log_z, allowed.missed, *masses))


def most_probable(step: Step, *, top_m: int | None = None, masked: bool = True) -> SampledEvents:
    """Choose the most probable event at each node; a tie goes to the token of the lowest id.

    Arguments and errors are those of ``sample``.
    """
    found = best(step, 1, top_m=top_m, masked=masked)
    ends = (found.log_end > found.log_p[:, 0]) | (
        (found.tokens[:, 0] == NONE) & (found.log_end > -np.inf)
    )
    tokens = np.where(ends, END, found.tokens[:, 0])
    log_p = np.where(ends, found.log_end, found.log_p[:, 0])
    at = step.walk_node
    none = np.zeros(0)
    return SampledEvents(tokens[at], log_p[at], found.log_z, found.missed, found.log_end, none)


def best(step: Step, k: int, *, top_m: int | None = None, masked: bool = True) -> BestEvents:
    """List the ``k`` most probable allowed tokens of every node, and its end event.

    Arguments and errors are those of ``sample``.
    """
    if not step.nodes.batch.on_host:
        from cdec.samplers.walks import events_torch

        options = events_torch.Options(top_m, masked)
        return require_numbers(BestEvents(*events_torch.best(step, k, options)))
    batch = step.nodes.batch
    scores, log_normalizer = host_scores(step)
    allowed = allowed_ids(step, scores, log_normalizer, top_m, masked)
    n = len(step.rows)
    found = np.empty((n, k), np.int64), np.empty((n, k)), np.empty(n), np.empty(n)
    known = scores, log_normalizer, step.rows
    ends = batch.end_ids, batch.is_end
    if allowed.which.size:
        library.best_events(known, allowed.columns, ends, found)
    everything = np.arange(scores.shape[1], dtype=np.int32)
    span = np.array([0, len(everything)])
    if (which := allowed.unconstrained).size:
        library.best_events(known, (which, np.zeros_like(which), span, everything), ends, found)
    return require_numbers(BestEvents(*found, allowed.missed))


def log_residual(step: Step, taken: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return log of the allowed mass but for some ids at constrained nodes, float64[N].

    Args:
        step: An evaluated frontier of N nodes.
        taken: Ids to leave out, a sorted list a node.
    """
    counts = [len(tokens) for tokens in taken]
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    flat = np.array([token for tokens in taken for token in tokens], np.int64)
    if not step.nodes.batch.on_host:
        from cdec.samplers.walks import events_torch

        return events_torch.log_residual(step, np.repeat(np.arange(len(taken)), counts), flat)
    known = host_scores(step)
    allowed = allowed_ids(step, *known)
    residual = np.full(len(step.rows), -np.inf)
    library.log_residuals((*known, step.rows), allowed.columns, starts, flat, residual)
    return residual


def require_numbers(events: _Events) -> _Events:
    """Return events whose masses are numbers.

    Raises:
        ModelError: The model's scores hold NaN.
    """
    if np.isnan(events.log_z).any():
        raise ModelError(
            "the model's scores hold NaN",
            hint="Load the model with another dtype, such as float32 or bfloat16.",
        )
    return events
