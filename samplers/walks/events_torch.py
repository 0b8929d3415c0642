"""The choices of ``events`` on a torch device: masks, running sums and searches, static shapes.

From logits to chosen ids nothing waits for the device; the results are fetched once at the end.
Nodes are processed in slices that bound the float64 workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import allocate_mask, unpack_mask
from cdec.samplers.walks.frontier import END, NONE

if TYPE_CHECKING:
    import torch

    from cdec.samplers.walks.frontier import Step

_WORKSPACE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """Choice of events, as ``events.sample`` describes it; ``constrained`` is ``masked``."""

    top_m: int | None
    constrained: bool = True
    aborting: bool = False
    residual: bool = False


def sample(step: Step, uniforms: NDArray[np.float64], options: Options) -> tuple[NDArray[Any], ...]:
    """Return the columns of ``SampledEvents``, on the host."""
    import torch

    parts: list[tuple[torch.Tensor, ...]] = []
    draws = step.nodes.batch.index(uniforms[step.walk_order])
    for start, stop in slices(step):
        masked, lost = masked_log_p(step, start, stop, options)
        first, last = int(step.walk_starts[start]), int(step.walk_starts[stop])
        nodes = step.walk_node[step.walk_order[first:last]] - start
        at = step.nodes.batch.index(nodes)
        tokens, log_p, log_z, log_end = invert(step, masked, draws[first:last], at, options)
        log_residual = _without(masked, at, tokens) if options.residual else log_z[:0]
        parts.append((tokens, log_p, log_z, lost, log_end, log_residual))
    place = np.empty(len(step.walk_order), np.int64)
    place[step.walk_order] = np.arange(len(place))
    host = [torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True)]
    return host[0][place], host[1][place], *host[2:]


def best(step: Step, k: int, options: Options) -> tuple[NDArray[Any], ...]:
    """Return the columns of ``BestEvents``, on the host."""
    import torch

    parts = []
    for start, stop in slices(step):
        masked, lost = masked_log_p(step, start, stop, options)
        ends = step.nodes.batch.index(step.nodes.batch.end_ids)
        log_z = torch.logsumexp(masked, 1).clamp_(max=0.0)
        log_end = torch.logsumexp(masked[:, ends], 1)
        masked[:, ends] = -torch.inf
        found = torch.topk(masked, min(k, masked.shape[1]), dim=1)
        tokens = torch.where(found.values > -torch.inf, found.indices, NONE)
        parts.append((tokens, found.values, log_end, log_z, lost))
    columns = [torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True)]
    short = k - columns[0].shape[1]
    if short > 0:
        columns[0] = np.pad(columns[0], ((0, 0), (0, short)), constant_values=NONE)
        columns[1] = np.pad(columns[1], ((0, 0), (0, short)), constant_values=-np.inf)
    return tuple(columns)


def log_residual(step: Step, nodes: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[Any]:
    """Return log of the allowed mass but for some tokens, float64[N], on the host.

    Args:
        step: N nodes. nodes: int64[n] ascending. tokens: int64[n] what is left out at each.
    """
    import torch

    parts = []
    for start, stop in slices(step):
        masked, _ = masked_log_p(step, start, stop, Options(None))
        first, last = np.searchsorted(nodes, [start, stop])
        at = step.nodes.batch.index(nodes[first:last] - start)
        parts.append(_without(masked, at, step.nodes.batch.index(tokens[first:last])))
    found: NDArray[Any] = torch.cat(parts).cpu().numpy()
    return found


def slices(step: Step) -> list[tuple[int, int]]:
    """Return ranges of a step's rows whose float64 scores fit the workspace."""
    count = len(step.rows)
    size = max(1, _WORKSPACE_BYTES // (8 * int(step.scores.shape[1])))
    return [(start, min(count, start + size)) for start in range(0, count, size)]


def masked_log_p(
    step: Step, start: int, stop: int, options: Options
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log P of the allowed ids, float64[n, V], -inf elsewhere; missed float64[n]."""
    import torch

    batch = step.nodes.batch
    rows = batch.index(step.rows[start:stop])
    log_p = step.scores[rows].double() - step.log_normalizer[rows].double()[:, None]
    missed = torch.zeros(len(rows), dtype=torch.float64, device=log_p.device)
    if not options.constrained:
        return log_p, missed
    nodes = step.nodes.take(np.arange(start, stop))
    at_limit = nodes.at_limit()
    allowed = torch.zeros(log_p.shape, dtype=torch.bool, device=log_p.device)
    allowed[batch.index(np.flatnonzero(batch.is_unconstrained(nodes.request)))] = True
    for session, group in batch.groups(nodes.request) if batch.masks else []:
        group = group[~at_limit[group]]
        if not group.size:
            continue
        at = batch.index(group)
        if options.top_m is None or options.top_m >= log_p.shape[1]:
            allowed[at] = _full_mask(session, nodes.state[at], log_p.shape[1])
        else:
            ends = batch.index(batch.end_ids)
            allowed[at], missed[at] = _verified(
                session, nodes.state[at], log_p[at], options.top_m, ends
            )
    ending = torch.from_numpy(batch.is_end).to(log_p.device)
    allowed[batch.index(np.flatnonzero(at_limit))] = ending
    return log_p.masked_fill_(~allowed, -torch.inf), missed


def _full_mask(session: Any, states: torch.Tensor, width: int) -> torch.Tensor:
    device = str(states.device)
    mask = allocate_mask(len(states), width, "torch:cpu" if device == "cpu" else device)
    session.fill_mask(states, mask)
    allowed: torch.Tensor = unpack_mask(mask, width)
    return allowed


def _verified(
    session: Any, states: torch.Tensor, log_p: torch.Tensor, top_m: int, ends: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Allow the valid ids among the top M; the full mask where none is (this waits once)."""
    import torch

    found = torch.topk(log_p, top_m, dim=1, sorted=False)
    valid = session.check(states, found.indices) & (found.values > -torch.inf)
    allowed = torch.zeros(log_p.shape, dtype=torch.bool, device=log_p.device)
    allowed.scatter_(1, found.indices, valid)
    # The end is one event: one verified end id brings all end ids (int64[...]) in.
    allowed[:, ends] = allowed[:, ends].any(1, keepdim=True)
    none = ~valid.any(1)
    missed = (1.0 - found.values.exp().sum(1)).clamp_(min=0.0).masked_fill_(none, 0.0)
    lacking = torch.nonzero(none).squeeze(1)
    if len(lacking):
        allowed[lacking] = _full_mask(session, states[lacking], log_p.shape[1])
    return allowed, missed


def _without(masked: torch.Tensor, nodes: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return log of the mass but for the drawn tokens, float64[n]."""
    import torch

    # An end or a dead end takes nothing out: it goes to one place more, past the last.
    places = torch.where(tokens >= 0, nodes * masked.shape[1] + tokens, masked.numel())
    padded = torch.cat([masked.reshape(-1), masked.new_zeros(1)])
    padded.index_fill_(0, places, -torch.inf)
    return torch.logsumexp(padded[:-1].reshape(masked.shape), 1).clamp_(max=0.0)


def invert(
    step: Step,
    masked: torch.Tensor,
    draws: torch.Tensor,
    nodes: torch.Tensor,
    options: Options,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Search one running sum over all nodes: node i covers (i, i + 1] of it."""
    import torch

    count, width = masked.shape
    peak = masked.max(1).values
    dead = peak == -torch.inf
    safe = peak.masked_fill(dead, 0.0)
    running = torch.cumsum(torch.exp(masked - safe[:, None]), 1)
    total = running[:, -1]
    log_z = (safe + torch.log(total)).clamp_(max=0.0).masked_fill_(dead, -torch.inf)
    if options.aborting:
        # All events: what is not allowed lies beyond the allowed mass.
        refused = draws >= torch.exp(log_z)[nodes]
        draws = torch.where(refused, 0.0, draws / torch.exp(log_z)[nodes])
    else:
        refused = torch.zeros_like(draws, dtype=torch.bool)
    levels = torch.arange(count, dtype=torch.float64, device=masked.device)
    running = running / total.masked_fill(dead, 1.0)[:, None]
    running = running.masked_fill_(dead[:, None], 1.0) + levels[:, None]
    ceiling = torch.nextafter(levels + 1, torch.zeros_like(levels))
    target = torch.minimum(nodes + draws, ceiling[nodes])
    found = torch.searchsorted(running.reshape(-1), target, right=True)
    ids = (found - nodes * width).clamp_(0, width - 1)
    is_end = torch.from_numpy(step.nodes.batch.is_end).to(masked.device)
    ends = step.nodes.batch.index(step.nodes.batch.end_ids)
    log_end = torch.logsumexp(masked[:, ends], 1)
    log_p = torch.where(is_end[ids], log_end[nodes], masked[nodes, ids])
    tokens = torch.where(is_end[ids], END, ids)
    gone = dead[nodes] | refused
    tokens = torch.where(gone, NONE, tokens)
    return tokens, torch.where(gone, -torch.inf, log_p), log_z, log_end
