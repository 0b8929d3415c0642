"""Choice of the next events of a step: which ids are allowed, then one event a walk, or the best k.

An *event* is one ordinary token, or the end of the text by any end id. On the CPU the allowed ids
are gathered and summed by compiled kernels; on a device masks are applied (``events_torch``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.native import library
from cdec.samplers.walks import categorical_kernels as kernels
from cdec.samplers.walks.allowed import AllowedIds, allowed_ids, host_scores
from cdec.samplers.walks.categorical_kernels import END, NONE
from cdec.samplers.walks.step import Step

__all__ = ["END", "NONE", "BestEvents", "SampledEvents", "best", "most_probable", "sample"]


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
    """

    tokens: NDArray[np.int64]
    log_p: NDArray[np.float64]
    log_z: NDArray[np.float64]
    missed: NDArray[np.float64]
    log_end: NDArray[np.float64]
    log_residual: NDArray[np.float64]


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
    drawn = kernels.Drawn(
        tokens=np.empty(len(step.walk_node), np.int64),
        log_p=np.empty(len(step.walk_node)),
        log_z=np.empty(count),
        log_end=np.full(count, -np.inf),
        log_residual=np.full(count if residual else 0, -np.inf),
    )
    scores = kernels.Known(*known, step.rows)
    ends = kernels.Ends(batch.end_ids, batch.is_end)
    draws = kernels.Draws(step.walk_starts, step.walk_order, uniforms)
    if allowed.which.size:
        lists = kernels.Lists(allowed.which, allowed.lists, allowed.offsets, allowed.ids)
        library.sample_ragged(scores, lists, ends, draws, aborting, drawn)
    if allowed.free.size:
        library.sample_dense(scores, allowed.free, ends, draws, drawn)
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
    found = kernels.Best(
        np.empty((n, k), np.int64), np.empty((n, k)), log_end=np.empty(n), log_z=np.empty(n)
    )
    known = kernels.Known(scores, log_normalizer, step.rows)
    ends = kernels.Ends(batch.end_ids, batch.is_end)
    if allowed.which.size:
        lists = kernels.Lists(allowed.which, allowed.lists, allowed.offsets, allowed.ids)
        library.best_events(known, lists, ends, found)
    everything = np.arange(scores.shape[1], dtype=np.int32)
    span = np.array([0, len(everything)])
    if allowed.free.size:
        lists = kernels.Lists(allowed.free, np.zeros_like(allowed.free), span, everything)
        library.best_events(known, lists, ends, found)
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
    lists = kernels.Lists(allowed.which, allowed.lists, allowed.offsets, allowed.ids)
    residual = np.full(len(step.rows), -np.inf)
    library.log_residuals(kernels.Known(*known, step.rows), lists, starts, flat, residual)
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
